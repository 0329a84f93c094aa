"""The broker of a run: apportion's own in this process, or a real Apache Kafka beside it.

The session timeout is 6 s on both.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import KafkaMissing, RealKafka, jars_of

POM = Path(__file__).resolve().parent.parent / "tests" / "kafka" / "pom.xml"
SESSION_MS = 6_000
KINDS = ("embedded", "kafka")


class NoBroker(Exception):
    """The broker cannot run here; the text says why, in one sentence."""


class Broker(NamedTuple):
    """The address of the broker for clients, and its name for people."""

    bootstrap: str
    name: str


@contextmanager
def running_broker(kind: str, directory: Path) -> Iterator[Broker]:
    """Run a fresh broker of this kind until the end of the `with` block.

    directory: for the logs of a real Kafka. Raises NoBroker.
    """
    if kind == "embedded":
        with EmbeddedBroker(group_consumer_session_timeout_ms=SESSION_MS) as broker:
            yield Broker(broker.bootstrap, "apportion's own broker, embedded")
        return
    # A real Kafka refuses sessions below 45 s unless its own minimum is lowered.
    sessions = {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
    }
    try:
        kafka = RealKafka(jars_of(POM), directory, sessions)
        kafka.start()
    except KafkaMissing as problem:
        raise NoBroker(f"A real Kafka cannot run here: {problem}") from problem
    try:
        yield Broker(kafka.bootstrap, f"Apache Kafka {kafka.version}")
    finally:
        kafka.kill()
        shutil.rmtree(directory / "data", ignore_errors=True)
