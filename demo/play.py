"""The script of the demonstration: two applications share a group, one is lost with its host, a new
version takes over.

It starts everything, waits for what must come, and watches meanwhile that nothing ends by itself
and nothing stands still. What the run was is told afterwards by `demo.timeline` from what the
observer saw, and by `demo.check` from the table.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import NamedTuple

from apportion.client.cluster import Cluster
from demo.applications import Application, pipeline
from demo.brokers import Broker, running
from demo.flights import flights
from demo.observe import Observer
from demo.produce import PacedProducer
from demo.screen import Lines, Picture, Scene
from demo.timeline import Death, Sample

GROUP, TOPIC, PARTITIONS = "flights-etl", "flights", 12
LOOK_S, SHOW_S = 0.1, 0.25
STANDSTILL_S = 300  # Spark alone takes two minutes to start where others use the cores
OURS = ("flights", "checkpoints", "logs", "kafka", "summary.json", "ownership.svg")
FIRST, SURVIVOR, SUCCESSOR = MEMBERS = ("v1-a", "v1-b", "v2")


class Stopped(Exception):
    """The demonstration cannot go on; the text is a sentence that says why, and the end of the log
    that shows it.
    """


class Script(NamedTuple):
    """What is played. seconds: how long the production of `rows` flights takes at the least."""

    broker: str
    rows: int
    seconds: float
    out: Path

    @property
    def table(self) -> Path:
        """Where the flights are written to."""
        return self.out / "flights"


class Played(NamedTuple):
    """What was seen of a run that came to its end."""

    broker: str
    samples: tuple[Sample, ...]
    deaths: tuple[Death, ...]
    peak_memory_mb: int


def clear(out: Path) -> None:
    """`out` exists, and nothing of an earlier run is in it; what is not ours stays."""
    out.mkdir(parents=True, exist_ok=True)
    for name in OURS:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def play(script: Script, screen: Picture | Lines) -> Played:
    """The whole script was played and every process it started is gone. Raises Stopped,
    NoBroker.
    """
    clear(script.out)
    with ExitStack() as stack:
        broker = stack.enter_context(running(script.broker, script.out / "kafka"))
        stage = Stage(script, broker, stack.enter_context(scratch()), screen)
        stack.callback(stage.clear)
        stage.run()
        return Played(
            stage.broker.name,
            tuple(stage.observer.samples),
            tuple(stage.deaths),
            stage.observer.peak_memory_mb,
        )


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for what processes leave behind when they are killed; gone at the end.

    Its name is short, because Spark's Unix-domain sockets lie in it and their paths may have no
    more than some 100 characters.
    """
    directory = mkdtemp(prefix="flights-", dir="/tmp" if Path("/tmp").is_dir() else None)
    try:
        yield Path(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Stage:
    """Everything that runs during the demonstration."""

    def __init__(
        self, script: Script, broker: Broker, scratch: Path, screen: Picture | Lines
    ) -> None:
        """The topic exists and is looked at; nobody produces or reads yet."""
        self.script, self.broker, self.scratch, self.screen = script, broker, scratch, screen
        self.began_s = monotonic()
        cluster = Cluster(broker.bootstrap, client_id="director")
        topic = cluster.create_topic(TOPIC, PARTITIONS)
        cluster.close()
        self.observer = Observer(broker.bootstrap, GROUP, topic, self.began_s)
        self.producer = PacedProducer(
            broker.bootstrap,
            TOPIC,
            flights(script.rows),
            script.rows,
            script.rows / max(0.1, script.seconds),
        )
        self.applications: dict[str, Application] = {}
        self.deaths: list[Death] = []
        self._doing = ""
        self._shown_s = 0.0
        self._moved_s = monotonic()
        self._last: tuple[object, ...] = ()
        self.observer.start()

    def run(self) -> None:
        """The script, from the first application to the last."""
        self.news(
            f"{self.broker.name} at {self.broker.bootstrap}; topic {TOPIC} with "
            f"{PARTITIONS} partitions"
        )
        for name in (FIRST, SURVIVOR):
            self.start(name, version=1)
        self.until(
            "two Spark applications start; the flights depart when both own partitions",
            self.both_own,
        )
        self.producer.start()
        self.news(
            f"both own partitions: {self.script.rows:,} flights depart, at "
            f"{self.script.rows / self.script.seconds:,.0f} a second"
        )
        self.until(
            "two applications share the partitions; one will lose its host at a third of the rows",
            self.written(1 / 3),
        )
        self.lose(FIRST)
        self.until(
            "nobody has told the coordinator: it finds out when the session ends",
            self.owns_all(SURVIVOR),
        )
        self.news(f"{SURVIVOR} owns all {PARTITIONS} partitions")
        self.until(
            f"{SURVIVOR} goes on alone; version 2 comes at two thirds of the rows",
            self.written(2 / 3),
        )
        self.roll()
        self.until("version 2 reads what is left", self.all_written)
        self.news("the lag is 0: every flight is written")
        self.stop(SUCCESSOR)
        self.until("the last application leaves", lambda: not self.now.members and self.now.stable)

    def roll(self) -> None:
        """Version 2 has taken over from the survivor."""
        self.start(SUCCESSOR, version=2)
        self.until(
            "version 2 starts with a new checkpoint beside version 1, which goes on",
            self.shared_by(SURVIVOR, SUCCESSOR),
        )
        self.news(
            f"{SUCCESSOR} owns {len(self.now.owned_by(SUCCESSOR))} partitions beside {SURVIVOR}"
        )
        taken = self.now
        self.producer.finish()
        self.until(
            "both versions write to one table",
            lambda: any(
                self.now.committed[each] > taken.committed[each]
                for each in taken.owned_by(SUCCESSOR)
            ),
        )
        self.stop(SURVIVOR)
        self.until("version 1 finishes its batch and leaves", self.owns_all(SUCCESSOR))
        self.news(f"{SUCCESSOR} owns all {PARTITIONS} partitions")

    # what is waited for

    @property
    def now(self) -> Sample:
        """What the observer saw last."""
        return self.observer.latest

    def both_own(self) -> bool:
        """The first two applications share the partitions."""
        return self.shared_by(FIRST, SURVIVOR)()

    def shared_by(self, *members: str) -> Callable[[], bool]:
        """Each of these owns partitions, every partition has an owner, and nothing is on its
        way.
        """
        return lambda: (
            self.now.converged(PARTITIONS) and all(self.now.owned_by(member) for member in members)
        )

    def owns_all(self, member: str) -> Callable[[], bool]:
        """This one owns every partition, and nobody else is in the group."""
        return lambda: (
            self.now.stable
            and len(self.now.owned_by(member)) == PARTITIONS
            and self.now.members == {member}
        )

    def written(self, share: float) -> Callable[[], bool]:
        """This share of the rows is in the table."""
        return lambda: self.now.written >= share * self.script.rows

    def all_written(self) -> bool:
        """Everything is produced, and the group is at the end of every partition."""
        return self.producer.acknowledged == self.script.rows == self.now.written

    # what is done

    def start(self, name: str, version: int) -> None:
        """An application of this version runs."""
        places = {
            "bootstrap": self.broker.bootstrap,
            "group": GROUP,
            "topic": TOPIC,
            "table": str(self.script.table),
        }
        self.applications[name] = pipeline(name, version, self.script.out, self.scratch, **places)
        self.news(
            f"{name} starts: version {version} of the pipeline, a Spark application of its own"
        )

    def lose(self, name: str) -> None:
        """The host of this application is lost."""
        self.deaths.append(Death(self.at_ms(), name))
        count = self.applications[name].lose_host()
        self.news(f"the host of {name} is lost: {count} processes killed at one instant")

    def stop(self, name: str) -> None:
        """This application has finished its batch, left the group and ended."""
        self.applications[name].stop()
        self.news(f"{name} is asked to stop")
        self.until(
            f"{name} finishes its batch and leaves",
            lambda: self.applications[name].exit_code is not None,
        )
        if self.applications[name].exit_code:
            raise Stopped(f"{name} did not stop in order. {self._log_of(name)}")

    def clear(self) -> None:
        """No process and no thread of this stage is left."""
        self.producer.end()
        for application in self.applications.values():
            application.lose_host()
        self.observer.end()

    # watching

    def at_ms(self) -> int:
        """Milliseconds since the beginning."""
        return int((monotonic() - self.began_s) * 1000)

    def news(self, text: str) -> None:
        """The viewer hears of it."""
        self.screen.news(self.at_ms(), text)

    def until(self, doing: str, met: Callable[[], bool]) -> None:
        """It is so. The viewer sees meanwhile what is being done; whatever makes waiting useless
        raises Stopped.
        """
        self._doing = doing
        self._moved_s = monotonic()
        while not met():
            self._refuse_failure()
            self._refuse_standstill()
            if monotonic() >= self._shown_s + SHOW_S:
                self.screen.show(self.scene())
                self._shown_s = monotonic()
            sleep(LOOK_S)

    def scene(self) -> Scene:
        """What there is to see now."""
        return Scene(
            at_ms=self.at_ms(),
            title=f"group {GROUP} on {self.broker.name}",
            doing=self._doing,
            total=self.script.rows,
            produced=self.producer.acknowledged,
            members=MEMBERS,
            samples=self.observer.samples,
            died={death.member: death.at_ms for death in self.deaths},
            partitions=PARTITIONS,
            memory_mb=self.observer.memory_mb,
        )

    def _refuse_failure(self) -> None:
        for application in self.applications.values():
            if application.exit_code is not None and not application.stopping:
                raise Stopped(
                    f"{application.name} ended by itself. {self._log_of(application.name)}"
                )
        if self.producer.error:
            raise Stopped(f"The producer failed: {self.producer.error}.")

    def _refuse_standstill(self) -> None:
        """Stopped if nothing has moved for long: no row, no member, no partition, no line in a
        log.
        """
        logs = tuple(application.log.stat().st_size for application in self.applications.values())
        seen = (
            self.producer.acknowledged,
            self.now.written,
            self.now.members,
            dict(self.now.owners),
            self.now.stable,
            logs,
        )
        if seen != self._last:
            self._last, self._moved_s = seen, monotonic()
        if monotonic() - self._moved_s > STANDSTILL_S:
            last = (
                f" The last look at the group failed: {self.observer.error}."
                if self.observer.error
                else ""
            )
            logs_of = " ".join(
                self._log_of(name)
                for name, one in self.applications.items()
                if one.exit_code is None
            )
            raise Stopped(
                f"Nothing has moved for {STANDSTILL_S} s while waiting: "
                f"{self._doing}.{last} {logs_of}"
            )

    def _log_of(self, name: str) -> str:
        application = self.applications[name]
        return f"The end of {application.log}:\n{application.last_lines()}\n"
