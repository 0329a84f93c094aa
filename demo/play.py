"""The script of the demonstration, from the first application to the last.

Two applications share a group, one is lost with its host, a new version takes over. The script
starts and stops the processes, waits for each effect, and fails as soon as a process ends by itself
or nothing moves any more. Afterwards `demo.timeline` finds the rebalances in the samples of the
observer, and `demo.check` checks the table.
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
from demo.brokers import Broker, running_broker
from demo.flights import flights
from demo.observe import Observer
from demo.produce import PacedProducer
from demo.screen import LiveView, PlainLines, Scene
from demo.timeline import HostLoss, Sample, WorkerLoss

GROUP, TOPIC, PARTITIONS = "flights-etl", "flights", 12
POLL_INTERVAL_S, REDRAW_INTERVAL_S = 0.1, 0.25
NO_PROGRESS_TIMEOUT_S = 300  # Spark alone takes two minutes to start where others use the cores
OUTPUTS = ("flights", "checkpoints", "logs", "kafka", "summary.json", "ownership.svg")
FIRST, SURVIVOR, SUCCESSOR = MEMBERS = ("v1-a", "v1-b", "v2")


class Stopped(Exception):
    """The demonstration cannot go on; the text says why, with the end of the log that shows it."""


class Script(NamedTuple):
    """The sizes of a run. seconds: how long the production of `rows` flights takes at least."""

    broker: str
    rows: int
    seconds: float
    out: Path

    @property
    def table(self) -> Path:
        """The path of the Delta table."""
        return self.out / "flights"


class RunRecord(NamedTuple):
    """The record of a complete run: samples of the group, lost hosts, peak memory, lost Workers."""

    broker: str
    samples: tuple[Sample, ...]
    host_losses: tuple[HostLoss, ...]
    peak_memory_mb: int
    worker_losses: tuple[WorkerLoss, ...] = ()


def clear(out: Path) -> None:
    """Create `out`, or delete the outputs of an earlier run in it; other files stay."""
    out.mkdir(parents=True, exist_ok=True)
    for name in OUTPUTS:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def play(script: Script, screen: LiveView | PlainLines, stage_class: "type[Stage]") -> RunRecord:
    """Run the whole script and return the record; afterwards none of its processes is left.

    Raises Stopped, NoBroker.
    """
    clear(script.out)
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(script.broker, script.out / "kafka"))
        scratch = stack.enter_context(scratch_directory())
        stage = stage_class(script, broker, scratch, screen)
        stack.callback(stage.clear)
        stage.run()
        return stage.record()


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Create a directory for temporary files of processes that are killed, deleted at the end.

    Its name is short: Spark's Unix-domain sockets are in it, whose paths may have no more than
    about 100 characters.
    """
    directory = mkdtemp(prefix="flights-", dir="/tmp" if Path("/tmp").is_dir() else None)
    try:
        yield Path(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Stage:
    """The broker's topic, the observer, the producer and the applications of one run."""

    def __init__(
        self, script: Script, broker: Broker, scratch_directory: Path, screen: LiveView | PlainLines
    ) -> None:
        """Create the topic and start the observer; nothing is produced or read yet."""
        self.script, self.broker, self.scratch_directory, self.screen = (
            script,
            broker,
            scratch_directory,
            screen,
        )
        self.started_s = monotonic()
        cluster = Cluster(broker.bootstrap, client_id="director")
        topic = cluster.create_topic(TOPIC, PARTITIONS)
        cluster.close()
        self.observer = Observer(broker.bootstrap, GROUP, topic, self.started_s)
        self.producer = PacedProducer(
            broker.bootstrap,
            TOPIC,
            flights(script.rows),
            script.rows,
            script.rows / max(0.1, script.seconds),
        )
        self.applications: dict[str, Application] = {}
        self.place: dict[str, str] = {}  # options that say where the applications run
        self.host_losses: list[HostLoss] = []
        self._activity = ""
        self._shown_s = 0.0
        self._progress_s = monotonic()
        self._last_progress: tuple[object, ...] = ()
        self.observer.start()

    def run(self) -> None:
        """Run the script."""
        self.share()
        self.lose_first()
        self.roll()
        self.finish()

    def share(self) -> None:
        """Start two applications; the flights depart when they share the partitions."""
        self.report(
            f"{self.broker.name} at {self.broker.bootstrap}; topic {TOPIC} with "
            f"{PARTITIONS} partitions"
        )
        for name in (FIRST, SURVIVOR):
            self.start(name, version=1)
        self.until(
            "two Spark applications start; the flights depart when both own partitions",
            self.both_have_partitions,
        )
        self.producer.start()
        self.report(
            f"both own partitions: {self.script.rows:,} flights depart, at "
            f"{self.script.rows / self.script.seconds:,.0f} a second"
        )

    def lose_first(self) -> None:
        """Lose the host of the first application at a third of the rows; the other takes over."""
        self.until(
            "two applications share the partitions; one will lose its host at a third of the rows",
            self.written(1 / 3),
        )
        self.lose(FIRST)
        self.until(
            "no member has left in order: the coordinator waits for the session timeout",
            self.is_only_member(SURVIVOR),
        )
        self.report(f"{SURVIVOR} owns all {PARTITIONS} partitions")
        self.until(
            f"{SURVIVOR} goes on alone; version 2 comes at two thirds of the rows",
            self.written(2 / 3),
        )

    def roll(self) -> None:
        """Start version 2 beside the survivor, let both write, then stop the survivor."""
        self.start(SUCCESSOR, version=2)
        self.until(
            "version 2 starts with a new checkpoint beside version 1, which goes on",
            self.shared_by(SURVIVOR, SUCCESSOR),
        )
        self.report(
            f"{SUCCESSOR} owns {len(self.now.owned_by(SUCCESSOR))} partitions beside {SURVIVOR}"
        )
        before = self.now
        self.producer.finish()
        self.until(
            "both versions write to one table",
            lambda: any(
                self.now.committed[partition] > before.committed[partition]
                for partition in before.owned_by(SUCCESSOR)
            ),
        )
        self.stop(SURVIVOR)
        self.until("version 1 finishes its batch and leaves", self.is_only_member(SUCCESSOR))
        self.report(f"{SUCCESSOR} owns all {PARTITIONS} partitions")

    def finish(self) -> None:
        """Wait until every flight is written, and stop the last application."""
        self.until("version 2 reads what is left", self.all_written)
        self.report("the lag is 0: every flight is written")
        self.stop(SUCCESSOR)
        self.until("the last application leaves", lambda: not self.now.members and self.now.stable)

    # Conditions

    @property
    def now(self) -> Sample:
        """The observer's last sample."""
        return self.observer.latest

    def both_have_partitions(self) -> bool:
        """Return whether the first two applications share the partitions."""
        return self.shared_by(FIRST, SURVIVOR)()

    def shared_by(self, *members: str) -> Callable[[], bool]:
        """Return a condition: each of these members owns partitions, and the group is stable."""
        return lambda: (
            self.now.has_converged(PARTITIONS)
            and all(self.now.owned_by(member) for member in members)
        )

    def is_only_member(self, member: str) -> Callable[[], bool]:
        """Return a condition: the member owns every partition and is alone in the group."""
        return lambda: (
            self.now.stable
            and len(self.now.owned_by(member)) == PARTITIONS
            and self.now.members == {member}
        )

    def written(self, share: float) -> Callable[[], bool]:
        """Return a condition: this share of the rows is in the table."""
        return lambda: self.now.written >= share * self.script.rows

    def all_written(self) -> bool:
        """Return whether every flight is produced, and its offset committed."""
        return self.producer.acknowledged == self.script.rows == self.now.written

    # Actions

    def start(self, name: str, version: int) -> None:
        """Start an application with this version of the pipeline."""
        addresses = {
            "bootstrap": self.broker.bootstrap,
            "group": GROUP,
            "topic": TOPIC,
            "table": str(self.script.table),
            **self.place,
        }
        self.applications[name] = pipeline(
            name, version, self.script.out, self.scratch_directory, **addresses
        )
        self.report(
            f"{name} starts: version {version} of the pipeline, a Spark application of its own"
        )

    def lose(self, name: str) -> None:
        """Kill all processes of this application at one instant, as if its host were lost."""
        self.host_losses.append(HostLoss(self.at_ms(), name))
        count = self.applications[name].lose_host()
        self.report(f"the host of {name} is lost: {count} processes killed at one instant")

    def stop(self, name: str) -> None:
        """Stop this application in order, and wait until it has ended."""
        self.applications[name].stop()
        self.report(f"{name} is asked to stop")
        self.until(
            f"{name} finishes its batch and leaves",
            lambda: self.applications[name].exit_code is not None,
        )
        if self.applications[name].exit_code:
            raise Stopped(f"{name} did not stop in order. {self._log_tail(name)}")

    def clear(self) -> None:
        """Stop the producer, the applications and the observer."""
        self.producer.end()
        for application in self.applications.values():
            application.lose_host()
        self.observer.end()

    def processes(self) -> dict[str, Application]:
        """Return by name all that must not end by itself."""
        return self.applications

    def record(self) -> RunRecord:
        """Return what was seen so far."""
        return RunRecord(
            self.broker.name,
            tuple(self.observer.samples),
            tuple(self.host_losses),
            self.observer.peak_memory_mb,
        )

    # Waiting

    def at_ms(self) -> int:
        """Return the milliseconds since the start."""
        return int((monotonic() - self.started_s) * 1000)

    def report(self, text: str) -> None:
        """Show a line of text to the viewer."""
        self.screen.report(self.at_ms(), text)

    def until(self, activity: str, is_done: Callable[[], bool]) -> None:
        """Wait until the condition holds, redrawing the view meanwhile.

        activity: what the viewer reads about it. Raises Stopped if it can no longer come true.
        """
        self._activity = activity
        self._progress_s = monotonic()
        while not is_done():
            self._raise_if_failed()
            self._raise_if_stuck()
            if monotonic() >= self._shown_s + REDRAW_INTERVAL_S:
                self.screen.show(self.scene())
                self._shown_s = monotonic()
            sleep(POLL_INTERVAL_S)

    def scene(self) -> Scene:
        """Return what the view shows now."""
        return Scene(
            at_ms=self.at_ms(),
            title=f"group {GROUP} on {self.broker.name}",
            activity=self._activity,
            total=self.script.rows,
            produced=self.producer.acknowledged,
            members=MEMBERS,
            samples=self.observer.samples,
            lost_at_ms={loss.member: loss.at_ms for loss in self.host_losses},
            partitions=PARTITIONS,
            memory_mb=self.observer.memory_mb,
        )

    def _raise_if_failed(self) -> None:
        for application in self.processes().values():
            if application.exit_code is not None and not application.stopping:
                raise Stopped(
                    f"{application.name} ended by itself. {self._log_tail(application.name)}"
                )
        if self.producer.error:
            raise Stopped(f"The producer failed: {self.producer.error}.")

    def _raise_if_stuck(self) -> None:
        """Raise Stopped if nothing has changed for long: no row, member, owner or line in a log."""
        logs = tuple(process.log.stat().st_size for process in self.processes().values())
        progress = (
            self.producer.acknowledged,
            self.now.written,
            self.now.members,
            dict(self.now.owners),
            self.now.stable,
            logs,
        )
        if progress != self._last_progress:
            self._last_progress, self._progress_s = progress, monotonic()
        if monotonic() - self._progress_s > NO_PROGRESS_TIMEOUT_S:
            observer_error = (
                f" The last look at the group failed: {self.observer.error}."
                if self.observer.error
                else ""
            )
            log_tails = " ".join(
                self._log_tail(name)
                for name, application in self.applications.items()
                if application.exit_code is None
            )
            raise Stopped(
                f"Nothing has moved for {NO_PROGRESS_TIMEOUT_S} s while waiting: "
                f"{self._activity}.{observer_error} {log_tails}"
            )

    def _log_tail(self, name: str) -> str:
        application = self.processes()[name]
        return f"The end of {application.log}:\n{application.last_lines()}\n"
