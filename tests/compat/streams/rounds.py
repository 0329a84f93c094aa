"""A long lane: how often, and why, Kafka Streams takes records again when the broker is killed.
`.venv/bin/python -m` runs it:

    python -m tests.compat.streams.rounds --broker kafka --moment rebalance --rounds 40 --out DIR

Each round has a new broker, `ours` or a real Apache Kafka (`kafka`), behind a proxy that hears
every word about groups. Two instances count; the broker is killed with SIGKILL and started on the
same data, twice. `--moment` says when it is killed:

- settled: when the group has settled and records flow, as in `test_kafka_streams.py`;
- chance: up to a second later than that, and the first time up to three seconds after the instances
  began;
- rebalance: up to 0.3 s after a JoinGroup was answered in a rebalance, for which another instance
  comes;
- joined: when the leader's JoinGroup has been answered, so that the generation has members and no
  assignment.

`--load` is how many busy processes there are beside it. Printed are a line for each round, the
stories of its replays, and the figures at the end; `--out` gets what was said in each round, and
the JVMs' logs. The exit code is 1 if an acknowledged commit, or a generation that had its
assignment, was missing after a start, or if a replay has another reason than that a member lost its
place. A round that does not come to its end (a group that does not settle in time on a busy
machine) is told, and not counted.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from apportion.testing.kafka import RealKafka, free_ports, jars_of
from tests.compat.conftest import KAFKA_POM, MODULE_SETTINGS, Served
from tests.compat.java.history import until
from tests.compat.streams.application import Application
from tests.compat.streams.ledger import Ledger
from tests.compat.streams.program import NEWEST, Instance, Streams, streams_in
from tests.compat.streams.replays import (
    Replay,
    clock,
    describe_replay,
    lost_commits,
    lost_generations,
    replays_of,
    unexplained,
)
from tests.compat.streams.wire import Call, Wire

KILLS = 2
KILLED = "is killed"
SESSION_MS = 30_000  # longer than any broker needs to come back
TELLING = (
    "Resetting generation",
    " lost",
    "migrated",
    "Migrated",
    "corrupted",
    "TimeoutException",
    " ERROR ",
)
"""What a line of the JVM's log has in it if it may be about a replay."""


@dataclass
class ProxiedBroker:
    """A broker that can be killed, and the proxy by which clients come to it. marks: (time, what
    befell the broker).
    """

    broker: RealKafka | Served
    wire: Wire
    marks: list[tuple[float, str]] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """Return where clients connect."""
        return f"127.0.0.1:{self.wire.port}"

    @property
    def kills(self) -> list[float]:
        """Return when it was killed."""
        return [at_s for at_s, what in self.marks if what == KILLED]

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.marks.append((time.time(), KILLED))
        self.broker.kill()

    def start(self) -> None:
        """Start it again on what it had stored, and wait until it answers."""
        self.broker.start()
        self.marks.append((time.time(), "has started"))

    @contextmanager
    def killed_when(
        self, condition: Callable[[Call], bool], after_s: float = 0.0
    ) -> Iterator[None]:
        """Kill it at the first answer for which `condition` holds, or so long after; the block does
        what leads there.

        Without `after_s` the answer reaches nobody before the broker is dead.
        """
        met, lock = threading.Event(), threading.Lock()

        def meet(call: Call) -> None:
            with lock:
                if not met.is_set() and condition(call):
                    if not after_s:
                        self.kill()
                    met.set()

        self.wire.meet = meet
        yield
        until(met.is_set, "the moment at which the broker is to be killed")
        self.wire.meet = lambda call: None
        if after_s:
            time.sleep(after_s)
            self.kill()


@contextmanager
def proxied_broker(kind: str, directory: Path) -> Iterator[ProxiedBroker]:
    """Run a broker, "ours" or "kafka", behind a proxy until the end of the block."""
    front, back = free_ports(2)
    wire = Wire(front)
    wire.start()
    broker: RealKafka | Served
    settings = [*MODULE_SETTINGS, f"advertised.listeners=PLAINTEXT://127.0.0.1:{front}"]
    if kind == "kafka":
        with RealKafka(
            jars_of(KAFKA_POM), directory / "kafka", dict(each.split("=", 1) for each in settings)
        ) as broker:
            wire.upstream_port = int(broker.bootstrap.rpartition(":")[2])
            yield ProxiedBroker(broker, wire)
        return
    wire.upstream_port = back
    broker = Served(directory / "data", *settings, port=back)
    try:
        yield ProxiedBroker(broker, wire)
    finally:
        broker.kill()


def is_joined(call: Call) -> bool:
    """Return whether a member is told of its new generation."""
    return call.api == "JoinGroup" and call.codes == {"NONE"}


def is_led(call: Any) -> bool:
    """Return whether that member is the leader, so that nobody has an assignment yet."""
    return is_joined(call) and call.answer["leader"] == call.answer["member"]


class Scene:
    """Instances of one application that count while records flow; the broker is killed at moments
    of a kind.
    """

    def __init__(
        self, proxied: ProxiedBroker, streams: Streams, directory: Path, chance: random.Random
    ) -> None:
        self.proxied, self.streams, self.directory, self.chance = (
            proxied,
            streams,
            directory,
            chance,
        )
        self.application = Application(proxied.bootstrap, "words")

    @property
    def calls(self) -> list[Call]:
        """Return what was said about its group."""
        return [
            each
            for each in self.proxied.wire.calls
            if each.client.startswith(f"{self.application.group}-")
        ]

    def start(self, name: str) -> Instance:
        """Start another instance."""
        return self.application.start(
            self.streams, name, self.directory, session_timeout_ms=SESSION_MS
        )

    def play(self, moment: str) -> Ledger:
        """Play it to its end, at which all is counted; return the ledger."""
        with self.application.flow() as flow:
            for name in ("one", "two"):
                self.start(name)
            if moment == "chance":
                time.sleep(self.chance.uniform(0, 3))
            else:
                self.settled()
            for number in range(KILLS):
                self.kill(moment, number)
                self.proxied.start()
                sent = flow.sent
                until(lambda sent=sent: flow.sent > sent + 50, "records come again")
                if moment != "chance":
                    self.settled()
            self.settled()
        return self.application.counted()

    def kill(self, moment: str, number: int) -> None:
        """Kill the broker at that moment."""
        if moment == "chance":
            time.sleep(self.chance.uniform(0, 1))
        if moment in ("settled", "chance"):
            self.proxied.kill()
            return
        led = moment == "joined"
        with self.proxied.killed_when(
            is_led if led else is_joined, 0 if led else self.chance.uniform(0.001, 0.3)
        ):
            self.start(("three", "four")[number])

    def settled(self) -> None:
        """Wait until the instances share all tasks."""
        self.application.settled(*self.application.instances)

    def end(self) -> None:
        """Let every instance leave."""
        for each in self.application.instances:
            each.leave()


def log_between(path: Path, client: str, since_s: float, to_s: float) -> list[str]:
    """Return the lines of a JVM's log of that client between these times that may be about a
    replay.
    """
    lines = []
    for line in path.read_text().splitlines():
        try:
            at_s = datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S.%f").timestamp()
        except ValueError:
            continue
        if since_s <= at_s <= to_s and client in line and any(word in line for word in TELLING):
            lines.append(line)
    return lines


def report(scene: Scene, replay: Replay) -> list[str]:
    """Return the calls around a replay, and what the JVM's log has of the same time."""
    lines = describe_replay(scene.calls, scene.proxied.marks, replay)
    lines += log_between(
        scene.streams.errors, replay.before.client, replay.before.at_s, replay.first.at_s
    )
    topic, partition = replay.topic_partition
    return [
        f"{topic}-{partition}: {replay.first.offset} to {replay.last} were taken again",
        *(f"    {each}" for each in lines),
    ]


@dataclass
class Figures:
    """What the rounds came to."""

    rounds: int = 0
    replayed: int = 0
    twice: int = 0
    unfinished: int = 0
    faults: list[str] = field(default_factory=list)


def play_round(
    options: argparse.Namespace,
    directory: Path,
    streams: Streams,
    chance: random.Random,
    number: int,
    figures: Figures,
) -> None:
    """Play one round, print it, and count it."""
    begun = time.monotonic()
    with proxied_broker(options.broker, directory) as proxied:
        scene = Scene(proxied, streams, directory, chance)
        try:
            ledger = scene.play(options.moment)
        except AssertionError as problem:
            figures.unfinished += 1
            print(f"round {number} did not end: {problem}", flush=True)
            streams.crash()
            return
        scene.end()
    ledger.agrees()
    replays = replays_of(scene.application.instances)
    faults = [*lost_commits(scene.calls), *lost_generations(scene.calls, proxied.kills)]
    faults += [
        f"{fault}: {replay}" for replay in replays for fault in unexplained(scene.calls, replay)
    ]
    figures.rounds += 1
    figures.replayed += bool(replays)
    figures.twice += len(ledger.repeated)
    figures.faults += faults
    print(
        f"round {number}: {time.monotonic() - begun:.0f} s, {len(replays)} replays "
        f"of {sum(each.last - each.first.offset + 1 for each in replays)} records, "
        f"{len(ledger.repeated)} words counted twice, {len(faults)} faults",
        flush=True,
    )
    for replay in replays[: options.stories]:
        print(*report(scene, replay), sep="\n")
    if faults:
        print(*faults, sep="\n")
    if options.out:
        lines = [(each.asked_s, str(each)) for each in scene.calls] + [
            (at_s, f"=== the broker {what}") for at_s, what in proxied.marks
        ]
        text = "".join(f"{clock(at_s)} {line}\n" for at_s, line in sorted(lines))
        (options.out / f"{options.broker}-{options.moment}-{number}.txt").write_text(text)


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--broker", choices=("ours", "kafka"), default="ours")
    parser.add_argument(
        "--moment", choices=("settled", "chance", "rebalance", "joined"), default="settled"
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--stories", type=int, default=1, help="replays of a round that are told")
    parser.add_argument("--out", type=Path, help="a directory")
    return parser.parse_args()


def play_rounds(options: argparse.Namespace, directory: Path) -> Figures:
    """Play all rounds, each with a JVM of its own; return their figures."""
    classes = directory / "classes"
    classes.mkdir()
    classpath = streams_in(classes, NEWEST)
    chance, figures = random.Random(options.seed), Figures()
    for number in range(options.rounds):
        round_directory = directory / str(number)
        round_directory.mkdir()
        streams = Streams(
            classpath,
            options.out or round_directory,
            f"{options.broker}-{options.moment}-{number}",
            "info",
        )
        play_round(options, round_directory, streams, chance, number, figures)
        streams.end()
    return figures


def main() -> int:
    """Play the rounds, print the figures, and return the exit code."""
    options = arguments()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)
    ]
    try:
        with tempfile.TemporaryDirectory() as name:
            figures = play_rounds(options, Path(name))
    finally:
        for each in busy:
            each.kill()
    print(
        f"{options.broker}, {options.moment}: {figures.rounds} rounds with "
        f"{figures.rounds * KILLS} kills, "
        f"{figures.replayed} rounds with a replay, {figures.twice} words counted twice, "
        f"{len(figures.faults)} faults; "
        f"{figures.unfinished} rounds did not end"
    )
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
