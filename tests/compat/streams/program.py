"""Instances of Kafka Streams applications: one JVM holds as many as it is told to, and each tells
what happens to it.

It decides how `Counters.java` is compiled, started and spoken to, with either release, and refuses
to know what is right to count.
"""

import os
from pathlib import Path
from typing import Any

from tests.compat.java.history import Actor, until
from tests.compat.java.jvm import Program, classpath_in

HERE = Path(__file__).parent
# release of Kafka Streams -> its jars, and where what it calls otherwise than others stands
RELEASES = {
    "4.4.0": ("pom.xml", "modern"),
    "4.3.1": ("pom-4.3.xml", "modern"),
    "3.9.1": ("pom-3.9.xml", "modern"),
    "2.8.2": ("pom-2.8.xml", "former"),
}
NEWEST = next(iter(RELEASES))
TIMES = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *TIMES)

QUICK = {  # the defaults of an application suit a data centre
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 300,
    "commit.interval.ms": 200,
    "poll.ms": 50,
    "probing.rebalance.interval.ms": 60_000,  # the least it may be
    # else who is slow to feed it waits for a probing rebalance, and that comes in a minute
    "acceptable.recovery.lag": 2**62,
    "repartition.purge.interval.ms": 500,
    "statestore.cache.max.bytes": 0,  # every count is told
    "metadata.max.age.ms": 1000,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "fetch.max.wait.ms": 100,
    "auto.offset.reset": "earliest",
}
# what a warning has in it if an answer of the broker is behind it; of others Kafka's code has many,
# by chance of time
BLAME = (
    "UNSUPPORTED",
    "UnsupportedVersion",
    "UNKNOWN_SERVER_ERROR",
    "CORRUPT",
    "OFFSET_OUT_OF_RANGE",
    "OutOfOrderSequence",
    "InvalidProducerEpoch",
    "Got error produce response",
    "TaskCorrupted",
    "TimeoutException",
    "disconnected",
)
LEAVES = {"internal_leave_group_on_close": "true"}
"""For releases before 4.2, whose `close` cannot say that a member leaves, so that its group waits
for its session.
"""


def streams_in(directory: Path, release: str) -> str:
    """The classpath with the program compiled against that release of Kafka Streams. Raises
    KafkaMissing.
    """
    pom, calls = RELEASES[release]
    return classpath_in(
        directory, (HERE / "Counters.java", HERE / calls / "Release.java"), HERE / pom
    )


class Streams(Program):
    """One process with instances of applications."""

    def __init__(
        self, classpath: str, directory: Path, name: str, log_level: str | None = None
    ) -> None:
        level = log_level or os.environ.get("APPORTION_COMPAT_LOG", "warn")
        command = [
            *JVM,
            f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level}",
            "-cp",
            classpath,
            "Counters",
        ]
        super().__init__(command, directory, name)
        self._heard = 0

    def start(
        self, name: str, fixed: dict[str, int | str], config: dict[str, int | str]
    ) -> "Instance":
        """An instance. fixed: the rest of the order, as `Counters.java` says."""
        instance = Instance(name, self)
        self.tell({"do": "start", "name": name, **fixed, "config": QUICK | config})
        self.actors.append(instance)
        return instance

    def complaints(self) -> list[str]:
        """Every error that Kafka's code has told of since the last call, and each warning that is
        the broker's doing.
        """
        lines = self.errors.read_text().splitlines()
        new, self._heard = lines[self._heard :], len(lines)
        return [line for line in new if " ERROR " in line or any(word in line for word in BLAME)]


class Instance(Actor):
    """One instance of an application, as it tells of itself."""

    def __init__(self, name: str, program: Streams) -> None:
        super().__init__(name, program.path, lambda: self.close(leave=True))
        self.program = program

    @property
    def state(self) -> str:
        """RUNNING, REBALANCING, ...; "" before the first."""
        return next((each["is"] for each in reversed(self.events_of("state"))), "")

    @property
    def threads(self) -> dict[str, dict[str, str | list[str]]]:
        """{thread: state, active, standby}, as told last."""
        return next((each["threads"] for each in reversed(self.events_of("tasks"))), {})

    @property
    def active(self) -> list[str]:
        """The tasks that it works on, in order."""
        return sorted(task for thread in self.threads.values() for task in thread["active"])

    @property
    def standby(self) -> list[str]:
        """The tasks of which it keeps a copy, in order."""
        return sorted(task for thread in self.threads.values() for task in thread["standby"])

    @property
    def took(self) -> list[tuple[str, int, int, str]]:
        """(topic, partition, offset, place) of each record that it began to process, in order."""
        return [
            (each["topic"], each["partition"], each["offset"], each["place"])
            for each in self.events_of("took")
        ]

    def close(self, *, leave: bool) -> None:
        """It ends in order; with `leave` its members leave their group, else that finds out by a
        timeout.
        """
        self.program.tell({"do": "close", "name": self.name, "leave": leave})

    def report(self) -> Any:
        """{host: active, standby}: the partitions of each instance, as the leader has told this
        one.
        """
        before = len(self.events_of("report"))
        self.program.tell({"do": "report", "name": self.name})
        until(lambda: len(self.events_of("report")) > before, f"{self.name} reports")
        return self.events_of("report")[-1]["hosts"]

    def crashed(self) -> None:
        """Its process was killed just now."""
        self._crash = [{"name": self.name, "event": "crashed"}]
