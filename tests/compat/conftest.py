"""A broker in a process of its own, as users run it, for clients that others wrote."""

import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from apportion.testing.kafka import KafkaMissing, RealKafka, jars_of
from tests.compat.java.jvm import Jvm, classpath_in
from tests.compat.streams.program import NEWEST, Streams, streams_in

KAFKA_POM = Path(__file__).parent.parent / "kafka" / "pom.xml"
MODULE_SETTINGS = (
    "group.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=4000",
    "group.consumer.heartbeat.interval.ms=500",
)
"""Settings of the broker that a whole module shares, ours or a real one: members hear of things and
are found dead soon.
"""


class Served:
    """`apportion serve` on one data directory; it can be killed and started again on the same port
    (0: any that is free).
    """

    def __init__(self, data_dir: Path, *settings: str, port: int = 0) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.port = port
        self.process: Any = None
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "apportion.cli.main",
            "serve",
            "--data-dir",
            str(self.data_dir),
        ]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        for setting in self.settings:
            command += ["--set", setting]
        with open(self.data_dir.parent / "serve.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        assert match, f"{line!r}; its log: {self.log()}"
        # the line has the port that clients are told, which may be a proxy's
        self.port = self.port or int(match[1])

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def log(self) -> str:
        return (self.data_dir.parent / "serve.log").read_text()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0
        self.process.stdout.close()


@contextmanager
def serve(directory: Path, *settings: str) -> Iterator[Served]:
    """A broker from here to the end of the block; it stops in order and has logged no error."""
    broker = Served(directory / "data", *settings)
    yield broker
    broker.stop()
    wrong = [line for line in broker.log().splitlines() if " ERROR " in line]
    assert wrong == []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A broker with three partitions a topic."""
    with serve(tmp_path, "num.partitions=3", "group.consumer.session.timeout.ms=10000") as broker:
        yield broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served | RealKafka]:
    """A broker for a whole module: ours, or a real one (APPORTION_COMPAT_BROKER=kafka) to tell
    whose fault something is.

    It has `bootstrap`, and `kill()` and `start()` for a test that leaves it running.
    """
    directory = tmp_path_factory.mktemp("broker")
    if os.environ.get("APPORTION_COMPAT_BROKER") == "kafka":
        with RealKafka(
            jars_of(KAFKA_POM), directory, dict(each.split("=") for each in MODULE_SETTINGS)
        ) as kafka:
            yield kafka
    else:
        with serve(directory, *MODULE_SETTINGS) as ours:
            yield ours


@pytest.fixture(scope="module")
def bootstrap(broker: Served | RealKafka) -> str:
    """Where the module's broker listens."""
    return broker.bootstrap


@pytest.fixture(scope="session")
def java_members(
    tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> str:
    """The classpath on which `Members` of tests/compat/java runs; compiled once."""
    try:
        return classpath_in(tmp_path_factory.mktemp("classes"))
    except KafkaMissing as problem:
        lane_missing(str(problem))


@pytest.fixture(scope="module")
def shared_jvm(java_members: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """A JVM for the members of a whole module that need not die: starting one is what costs."""
    jvm = Jvm(java_members, tmp_path_factory.mktemp("shared"), "shared")
    yield jvm
    jvm.end()


@pytest.fixture
def killable_jvm(java_members: str, tmp_path: Path) -> Iterator[Jvm]:
    """A JVM for the members of one test, which may crash."""
    jvm = Jvm(java_members, tmp_path, "killable")
    yield jvm
    jvm.end()


@pytest.fixture(scope="session")
def streams_classpath(
    tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> Callable[[str], str]:
    """A function: the classpath on which `Counters` of tests/compat/streams runs, by the release of
    Kafka Streams.
    """

    def classpath(release: str) -> str:
        try:
            return streams_in(tmp_path_factory.mktemp("classes"), release)
        except KafkaMissing as problem:
            lane_missing(str(problem))

    return functools.cache(classpath)


@pytest.fixture(scope="module")
def streams(
    streams_classpath: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Streams]:
    """A JVM for the instances of a whole module that need not die."""
    program = Streams(streams_classpath(NEWEST), tmp_path_factory.mktemp("streams"), "shared")
    yield program
    program.end()
