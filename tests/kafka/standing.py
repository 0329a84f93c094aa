"""Kafkas that all workers of a run share: a worker that needs one first starts it, and it ends with
the last worker.

A Kafka is the child of a keeper, a process in a session of its own: `python -m
tests.kafka.standing KIND JARS DIRECTORY`. Every worker holds a shared lock on one file from its
first test here until it ends, however it ends; the keeper waits for the exclusive lock on that file
and kills its Kafka. So neither an interrupt nor a crash of a worker or of its controller leaves a
JVM behind. A worker that comes when a keeper has that lock waits until the keeper is gone, and
starts another one.
"""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from apportion.testing.kafka import KafkaMissing, RealKafka, answers_requests
from apportion.testing.lock import locked
from tests.kafka.secured import secured_kafka

ROOT = Path(__file__).parents[2]
PLAIN = {"group.min.session.timeout.ms": "100"}
EXPIRING = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "group.consumer.session.timeout.ms": "45000",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    # A compacted topic loses old records by its cleaner.
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "500",
}
KINDS: dict[str, Callable[[Path, Path], AbstractContextManager[RealKafka]]] = {
    "plain": lambda jars, directory: RealKafka(jars, directory, PLAIN),
    "secured": secured_kafka,
    # Members that no test revives outlive a slow one.
    "guarded": partial(secured_kafka, group_consumer_max_session_timeout_ms="600000"),
    "expiring": lambda jars, directory: RealKafka(jars, directory, EXPIRING),
}
"""plain: sessions of 100 ms are allowed. secured: listeners of every security protocol; one module
alters its settings. guarded: the same, and one unit deletes all ACLs. expiring: it looks every half
second for what has expired, and keeps offsets for a minute.
"""
KEEPERS: list[subprocess.Popen[bytes]] = []
"""Those that this process has started, and does not wait for."""


class StandingKafkas:
    """The Kafkas of one run, as one of its processes sees them. directory: shared by all of them.

    The process counts as a user of them from here to its end.
    """

    def __init__(self, directory: Path) -> None:
        """Hold the lock that keeps them alive."""
        self.directory = directory
        directory.mkdir(exist_ok=True)
        # A file descriptor of its own is open until the process ends.
        fcntl.flock(os.open(directory / "users", os.O_CREAT | os.O_RDWR), fcntl.LOCK_SH)

    def attached(self, kind: str, jars: Path) -> RealKafka:
        """Return the Kafka of this kind; it runs. Raises KafkaMissing."""
        with locked(self.directory / f"{kind}.lock"):
            found = self._read(kind)
            if found is None or not ("missing" in found or answers_requests(found["bootstrap"])):
                self._start(kind, jars)
                found = self._read(kind)
        if found is None:
            raise KafkaMissing(f"its keeper ended: {(self.directory / f'{kind}.log').read_text()}")
        if "missing" in found:
            raise KafkaMissing(found["missing"])
        broker = RealKafka(jars, Path(found["directory"]))  # of which this process can kill nothing
        broker.bootstrap, broker.addresses = found["bootstrap"], found["addresses"]
        return broker

    def _read(self, kind: str) -> dict[str, Any] | None:
        path = self.directory / f"{kind}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _start(self, kind: str, jars: Path) -> None:
        """Start a keeper, and wait until its Kafka runs, or cannot."""
        command = [sys.executable, "-m", __name__, kind, str(jars.resolve()), str(self.directory)]
        with (self.directory / f"{kind}.log").open("ab") as log:
            keeper = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,  # an interrupt of the terminal does not reach it
            )
        KEEPERS.append(keeper)
        assert keeper.stdout is not None
        with keeper.stdout:
            keeper.stdout.read()  # it closes its end when it has written what it has to say


def keep(kind: str, jars: Path, directory: Path) -> None:
    """Run the Kafka of this kind until no process uses it."""
    shown = directory / f"{kind}.json"

    def show(**facts: object) -> None:
        draft = directory / f"{kind}.{os.getpid()}"
        draft.write_text(json.dumps(facts))
        draft.rename(shown)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # to close it is not enough

    try:
        with KINDS[kind](jars, directory / f"{kind}-{os.getpid()}") as broker:
            show(
                bootstrap=broker.bootstrap,
                addresses=broker.addresses,
                directory=str(broker.directory),
            )
            with (directory / "users").open("a") as users:
                fcntl.flock(users, fcntl.LOCK_EX)
                shown.unlink(missing_ok=True)
                broker.kill()  # under the lock: the next user starts another one
    except KafkaMissing as problem:
        show(missing=str(problem))


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
