"""The broker is killed amid a rebalance of Kafka Streams; and the arithmetic that explains
replays.
"""

import os
import random
from pathlib import Path

import pytest

from tests.compat.streams.program import Streams
from tests.compat.streams.replays import (
    Replay,
    Take,
    lost_commits,
    lost_generations,
    replays_in,
    replays_of,
)
from tests.compat.streams.rounds import KILLED, Scene, proxied_broker
from tests.compat.streams.wire import Call

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PLACE = ("words", 0)


def test_nothing_is_counted_twice_when_the_broker_dies_between_a_join_and_its_sync(
    streams: Streams, tmp_path: Path
) -> None:
    with proxied_broker(os.environ.get("APPORTION_COMPAT_BROKER", "ours"), tmp_path) as proxied:
        scene = Scene(proxied, streams, tmp_path, random.Random(1))
        ledger = scene.play("joined")
        scene.end()
    assert [what for _, what in proxied.marks].count(KILLED) == 2
    assert streams.complaints() != [], "they have seen it die"
    assert ledger.agrees()
    assert (ledger.repeated, replays_of(scene.application.instances)) == ({}, [])
    assert (lost_commits(scene.calls), lost_generations(scene.calls, proxied.kills)) == ([], [])


def takes(client: str, begin_s: int, *offsets: int) -> list[Take]:
    """Return takes of these offsets, one a second."""
    return [Take(begin_s + number, offset, client) for number, offset in enumerate(offsets)]


def test_a_replay_goes_on_while_offsets_follow_each_other_and_were_taken_before() -> None:
    first = takes("g-one-", 0, 0, 1, 2, 3)
    again = takes("g-two-", 10, 2, 3, 4, 5)
    assert list(replays_in(PLACE, [*again, *first])) == [Replay(PLACE, first[2], again[0], 3)]
    assert list(replays_in(PLACE, first)) == []


def commit(at_s: int, offset: int, code: str | None = "NONE") -> Call:
    """Return a commit that took a second, without an answer where there is no code."""
    answer = {"codes": {code}, "by_place": {PLACE: code}} if code else None
    return Call(
        "g-one-consumer",
        "OffsetCommit",
        {"generation": 1, "offsets": {PLACE: offset}},
        answer,
        at_s,
        at_s + 1,
    )


def fetch(at_s: int, offset: int) -> Call:
    """Return a fetch of the committed offset that was answered a second later."""
    return Call(
        "g-one-consumer",
        "OffsetFetch",
        {},
        {"codes": {"NONE"}, "offsets": {PLACE: offset}},
        at_s,
        at_s + 1,
    )


@pytest.mark.parametrize(
    ("commits", "fetched", "lost"),
    [
        ([], -1, 0),
        ([commit(0, 5)], 5, 0),
        ([commit(0, 5)], -1, 1),
        ([commit(0, 5), commit(2, 7)], 5, 1),
        ([commit(0, 5), commit(2, 7, None)], 5, 0),
        ([commit(0, 5), commit(2, 7, None)], 7, 0),
        ([commit(0, 5), commit(2, 7, "ILLEGAL_GENERATION")], 7, 1),
    ],
)
def test_a_commit_is_lost_if_it_was_acknowledged_and_an_older_one_is_fetched(
    commits: list[Call], fetched: int, lost: int
) -> None:
    assert len(lost_commits([*commits, fetch(10, fetched)])) == lost


@pytest.mark.parametrize(("synced_s", "lost"), [(1, 1), (6, 0)])
def test_a_generation_is_lost_if_it_had_its_assignment_before_the_kill(
    synced_s: int, lost: int
) -> None:
    synced = Call(
        "g-one-consumer", "SyncGroup", {"generation": 3}, {"codes": {"NONE"}}, synced_s, synced_s
    )
    refused = Call(
        "g-one-consumer", "Heartbeat", {"generation": 3}, {"codes": {"ILLEGAL_GENERATION"}}, 8, 8
    )
    assert len(lost_generations([synced, refused], [5])) == lost
