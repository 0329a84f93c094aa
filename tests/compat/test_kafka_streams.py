"""Real applications of Kafka Streams: instances that come, die and return while they count, and
counts that are right.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.compat.java.history import until
from tests.compat.streams.application import Application, repeats
from tests.compat.streams.program import LEAVES, NEWEST, Instance, Streams

if TYPE_CHECKING:
    from tests.compat.conftest import Served


# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def launch(
    streams_classpath: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., Streams]]:
    """A function: a JVM of that name, which may crash, for instances of that release."""
    programs = []

    def program(name: str, release: str = NEWEST) -> Streams:
        programs.append(Streams(streams_classpath(release), tmp_path, name))
        return programs[-1]

    yield program
    for each in programs:
        each.end()


@pytest.mark.parametrize(
    ("splitter", "config", "standbys"),
    [("words", {}, 0), ("flights", {"num_stream_threads": 2, "num_standby_replicas": 1}, 1)],
    ids=["words", "flights-on-two-threads-with-standbys"],
)
def test_counts_are_right_through_growth_a_crash_and_a_return(
    bootstrap: str,
    streams: Streams,
    launch: Callable[..., Streams],
    tmp_path: Path,
    splitter: str,
    config: dict[str, int],
    standbys: int,
) -> None:
    application = Application(bootstrap, splitter)

    def start(program: Streams, name: str) -> Instance:
        return application.start(program, name, tmp_path, **config)

    with application.flow():
        one = start(streams, "one")
        application.settled(one)
        first_life = launch("first life")
        two, three = start(streams, "two"), start(first_life, "three")
        application.settled(one, two, three, standbys=standbys)
        taken = len(three.took)
        until(lambda: len(three.took) > taken + 50, "the third works")
        lost = application.partitions_of(three.active)
        first_life.crash()
        committed = application.committed()
        application.settled(one, two, standbys=standbys)
        second_life = launch("second life")
        again = start(second_life, "three")
        application.settled(one, two, again, standbys=standbys)

    ledger = application.counted()
    assert ledger.agrees()
    replayed = repeats(application.instances)
    assert set(replayed) <= set(lost), "who lives hands over what it has done"
    assert replayed == {
        partition: list(range(committed.get(partition, 0), taken[-1] + 1))
        for partition, taken in replayed.items()
    }
    assert set(ledger.repeated) <= application.words_of(replayed), "nothing else is counted twice"
    assert application.purged()
    assert [sorted(each.report()) for each in (one, two, again)] == [
        ["one:1", "three:1", "two:1"]
    ] * 3
    for each in (one, two, again):
        each.leave()
    assert [program.complaints() for program in (streams, first_life, second_life)] == [[], [], []]


def test_counts_are_exact_when_the_broker_is_killed_twice(
    broker: "Served", streams: Streams, tmp_path: Path
) -> None:
    application = Application(broker.bootstrap, "words")
    with application.flow() as flow:
        both = [
            application.start(streams, name, tmp_path, session_timeout_ms=30_000)
            for name in ("one", "two")
        ]
        application.settled(*both)
        for _ in range(2):
            broker.kill()
            broker.start()
            sent = flow.sent
            until(lambda sent=sent: flow.sent > sent + 50, "records come again")
            application.settled(*both)
    ledger = application.counted()
    assert application.purged()
    for each in both:
        each.leave()
    assert streams.complaints() != [], "they have seen it die"
    assert ledger.agrees()
    assert (ledger.repeated, repeats(both)) == ({}, {}), (
        "nobody that holds a task loses its place: see test_streams_killed.py"
    )


class Roll:
    """Two instances that are replaced one after the other, as often as wanted."""

    def __init__(self, application: Application, directory: Path) -> None:
        self.application, self.directory = application, directory
        self.running: dict[str, Instance] = {}

    def to(self, program: Streams, **config: Any) -> list[dict[str, int]]:
        """Both run in that process; which version of the metadata each had spoken when one, and
        when both had changed.
        """
        spoken = []
        for name in ("one", "two"):
            if name in self.running:
                self.running[name].leave()
            self.running[name] = self.application.start(program, name, self.directory, **config)
            self.application.settled(*self.running.values())
            spoken.append(self.application.spoken())
        return spoken

    def end(self) -> None:
        """Every word was counted once, and both have left."""
        ledger = self.application.counted()
        assert ledger.agrees()
        assert (ledger.repeated, repeats(self.application.instances)) == ({}, {})
        assert self.application.purged()
        for each in self.running.values():
            each.leave()


def test_an_application_of_1_1_is_rolled_to_3_9_by_two_bounces_and_on_to_4_4(
    bootstrap: str, streams: Streams, launch: Callable[..., Streams], tmp_path: Path
) -> None:
    application = Application(bootstrap, "words")
    roll, older = Roll(application, tmp_path), launch("older", "3.9.1")
    with application.flow():
        assert roll.to(older, upgrade_from="1.1", **LEAVES)[-1] == {"one": 2, "two": 2}
        assert roll.to(older, **LEAVES) == [{"one": 11, "two": 2}, {"one": 11, "two": 11}]
        assert roll.to(streams) == [{"one": 11, "two": 11}] * 2
    roll.end()
    assert [program.complaints() for program in (older, streams)] == [[], []]


def test_one_rolling_bounce_and_probing_upgrade_an_application_from_2_8_to_4_4(
    bootstrap: str, streams: Streams, launch: Callable[..., Streams], tmp_path: Path
) -> None:
    application = Application(bootstrap, "words")
    roll, older = Roll(application, tmp_path), launch("older", "2.8.2")
    with application.flow():
        assert roll.to(older, cache_max_bytes_buffering=0, **LEAVES)[-1] == {"one": 9, "two": 9}
        assert roll.to(streams)[0] == {"one": 9, "two": 9}
        until(
            lambda: application.spoken() == {"one": 11, "two": 11}, "both speak the newest version"
        )
    roll.end()
    assert [program.complaints() for program in (older, streams)] == [[], []]


def test_one_rolling_bounce_upgrades_an_application_from_4_3_to_4_4(
    bootstrap: str, streams: Streams, launch: Callable[..., Streams], tmp_path: Path
) -> None:
    application = Application(bootstrap, "words")
    roll, older = Roll(application, tmp_path), launch("older", "4.3.1")
    with application.flow():
        assert roll.to(older)[-1] == {"one": 11, "two": 11}
        assert roll.to(streams) == [{"one": 11, "two": 11}] * 2
    roll.end()
    assert [program.complaints() for program in (older, streams)] == [[], []]
