"""Members of groups in Java: one JVM holds as many as it is told to, and each tells what happens to
it.

It decides how `Members.java` is compiled, started and spoken to, and refuses to know what a good
story is: see `history.py`.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from apportion.testing.kafka import KafkaMissing, jars_of, java_program
from tests.compat.java.history import Actor

JVM = ("-Xmx128m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
SOURCE = Path(__file__).with_name("Members.java")
POM = Path(__file__).parents[1] / "pom.xml"

QUICK = {  # a classic client's defaults suit a data centre
    "session.timeout.ms": 4000,
    "heartbeat.interval.ms": 250,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 50,
    "metadata.max.age.ms": 500,
    "fetch.max.wait.ms": 100,
}
ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def classpath_in(directory: Path, sources: tuple[Path, ...] = (SOURCE,), pom: Path = POM) -> str:
    """The classpath with the compiled `sources` and the jars that they need. Raises
    KafkaMissing.
    """
    compiler: Any = Path(java_program()).with_name("javac")
    compiler = str(compiler) if compiler.exists() else shutil.which("javac")
    if not compiler:
        raise KafkaMissing(
            "javac is neither beside java nor on the PATH (a JDK has it); it compiles the "
            "Java members."
        )
    jars = f"{jars_of(pom).resolve()}/*"
    done = subprocess.run(
        [compiler, "-nowarn", "-cp", jars, "-d", str(directory), *map(str, sources)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return f"{directory}{os.pathsep}{jars}"


def classic(*assignors: str, **more: Any) -> dict[str, int | str]:
    """The properties of a classic member; `group_instance_id="a"` stands for
    group.instance.id=a.
    """
    strategy = ",".join(
        f"org.apache.kafka.clients.consumer.{ASSIGNORS[each]}" for each in assignors
    )
    return {
        **QUICK,
        "group.protocol": "classic",
        "partition.assignment.strategy": strategy,
        **dotted(more),
    }


def modern(**more: Any) -> dict[str, int | str]:
    """The properties of a member that speaks the consumer protocol; the broker sets its
    timeouts.
    """
    mine = {
        name: value
        for name, value in QUICK.items()
        if name not in ("session.timeout.ms", "heartbeat.interval.ms")
    }
    return {**mine, "group.protocol": "consumer", **dotted(more)}


def dotted(options: dict[str, int | str]) -> dict[str, int | str]:
    return {name.replace("_", "."): value for name, value in options.items()}


class Program:
    """One process of Java, told and heard by lines of JSON; `actors` live in it, and die with
    it.
    """

    def __init__(self, command: list[str], directory: Path, name: str) -> None:
        self.path = directory / f"{name}.jsonl"
        self.errors = directory / f"{name}.err"
        self.actors: list[Actor] = []
        with self.path.open("wb") as out, self.errors.open("wb") as errors:
            self.process: Any = subprocess.Popen(
                [java_program(), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                text=True,
            )

    def tell(self, order: dict[str, Any]) -> None:
        """The order is on its way."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def crash(self) -> None:
        """SIGKILL: nobody leaves, nothing is committed."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        for actor in self.actors:
            actor.crashed()

    def end(self) -> None:
        """Everybody has left, and the process has ended by itself."""
        if self.process.returncode is None:
            self.process.stdin.close()
            try:
                assert self.process.wait(timeout=30) == 0
            finally:
                self.process.kill()


class Jvm(Program):
    """Members and producers of Kafka's own client."""

    def __init__(self, classpath: str, directory: Path, name: str) -> None:
        super().__init__([*JVM, "-cp", classpath, "Members"], directory, name)

    def join(
        self,
        name: str,
        bootstrap: str,
        group: str,
        topics: list[str],
        config: dict[str, int | str],
        pattern: str = "",
    ) -> Actor:
        """A member that reads `topics`, or what matches `pattern`, and commits after every poll."""
        fixed = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
        }
        fixed |= {"enable.auto.commit": "false"}
        order = {"do": "join", "topics": topics, "pattern": pattern, "config": fixed | config}
        return self._actor(name, order)

    def produce(
        self,
        name: str,
        bootstrap: str,
        topic: str,
        count: int,
        pause_ms: int = 0,
        config: dict[str, int | str] | None = None,
    ) -> Actor:
        """A producer of `count` records, -1: until it is told to leave; `produced` is what it says
        at its end.
        """
        fixed = {"bootstrap.servers": bootstrap, "client.id": name, "linger.ms": 1}
        return self._actor(
            name,
            {
                "do": "produce",
                "topic": topic,
                "count": count,
                "pause_ms": pause_ms,
                "config": fixed | (config or {}),
            },
        )

    def remove(self, name: str, bootstrap: str, group: str, instance: str) -> Actor:
        """An admin that takes a static member out of its group, whether it is there or not."""
        order = {
            "do": "remove",
            "group": group,
            "instance": instance,
            "config": {"bootstrap.servers": bootstrap},
        }
        return self._actor(name, order)

    def _actor(self, name: str, order: dict[str, Any]) -> Actor:
        actor = Actor(name, self.path, lambda: self.tell({"do": "leave", "name": name}))
        self.tell({**order, "name": name})
        self.actors.append(actor)
        return actor
