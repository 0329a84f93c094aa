"""The broker of a run: apportion's own inside this process, or a real Apache Kafka beside it.
Sessions last 6 s on both.
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
    """The broker cannot run here; the text is a sentence that says why."""


class Broker(NamedTuple):
    """Where clients reach the broker, and what it is in words."""

    bootstrap: str
    name: str


@contextmanager
def running(kind: str, directory: Path) -> Iterator[Broker]:
    """A fresh broker of this kind, gone at the end. Its files, if it keeps any to read, lie in
    `directory`. Raises NoBroker.
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
