"""A round of Fetch for the poll of a consumer: two topics on three brokers."""

from collections import Counter
from collections.abc import Iterable

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.cluster_queries.topics import Leader
from apportion.member.fetches import fetch_records
from apportion.member.reactions import REACTIONS, Reaction
from apportion.member.records.fetch_buffer import FetchBuffer
from apportion.topics import TopicIdPartition
from tests.member.three_brokers import (
    A0,
    A1,
    A2,
    B0,
    B1,
    START_MS,
    A,
    B,
    Fetch,
    ThreeBrokers,
    batch_at,
)

MAX_WAIT_MS, TIMEOUT_MS = 300, 5_000
WAIT_MS = MAX_WAIT_MS // 3
ALL = (*A, *B)


@pytest.fixture
def brokers() -> ThreeBrokers:
    return ThreeBrokers()


def fetch(
    brokers: ThreeBrokers, positions: dict[TopicIdPartition, int], turn: int = 0
) -> dict[TopicIdPartition, PartitionFetch]:
    fetched: dict[TopicIdPartition, PartitionFetch] = brokers.run(
        fetch_records(
            brokers.cache, positions, max_wait_ms=MAX_WAIT_MS, timeout_ms=TIMEOUT_MS, turn=turn
        )
    )
    return fetched


def at(offset: int, *partitions: TopicIdPartition) -> dict[TopicIdPartition, int]:
    return dict.fromkeys(partitions, offset)


def nothing(offset: int, code: Code = Code.NONE, why: str = "") -> PartitionFetch:
    return PartitionFetch((), offset, code, why)


def read(offset: int, to: int) -> PartitionFetch:
    return PartitionFetch(tuple(map(batch_at, range(offset, to, 10))), to, Code.NONE)


def empty(brokers: ThreeBrokers, partitions: Iterable[TopicIdPartition] = ALL) -> None:
    """Leave these logs without a record."""
    brokers.logs.update(dict.fromkeys(partitions, (0, 0)))


def test_each_leader_is_asked_once_for_all_its_partitions(brokers: ThreeBrokers) -> None:
    fetched = fetch(brokers, {A0: 0, A1: 90, A2: 80, B0: 100, B1: 70})
    assert fetched == {
        A0: read(0, 100),
        B0: nothing(100),
        A1: read(90, 100),
        B1: read(70, 100),
        A2: read(80, 100),
    }
    assert [(each.node, each.offsets) for each in brokers.fetches] == [
        (1, {A0: 0, B0: 100}),
        (2, {A1: 90, B1: 70}),
        (3, {A2: 80}),
    ]


def test_leaders_are_looked_up_once_for_each_topic_and_not_again(brokers: ThreeBrokers) -> None:
    fetch(brokers, at(0, *ALL))
    assert [each for each in brokers.sent if not isinstance(each, Fetch)] == [("a",), ("b",)]
    brokers.sent.clear()
    fetch(brokers, at(100, *ALL))
    assert brokers.sent == brokers.fetches


def test_the_leaders_share_the_wait_while_there_is_nothing(brokers: ThreeBrokers) -> None:
    empty(brokers)
    assert fetch(brokers, at(0, *ALL)) == dict.fromkeys(ALL, nothing(0))
    assert [(each.wait_ms, each.timeout_ms) for each in brokers.fetches] == [
        (WAIT_MS, WAIT_MS + TIMEOUT_MS)
    ] * 3
    assert brokers.now_ms == START_MS + MAX_WAIT_MS


def test_no_leader_waits_once_there_are_records(brokers: ThreeBrokers) -> None:
    empty(brokers, (A0, B0, A2))
    fetch(brokers, at(0, *ALL))
    assert [(each.node, each.wait_ms, each.timeout_ms) for each in brokers.fetches] == [
        (1, WAIT_MS, WAIT_MS + TIMEOUT_MS),
        (2, WAIT_MS, WAIT_MS + TIMEOUT_MS),
        (3, 0, TIMEOUT_MS),
    ]


def test_a_leader_that_has_moved_is_found_by_the_next_round(brokers: ThreeBrokers) -> None:
    fetch(brokers, at(100, *ALL))
    brokers.sent.clear()
    brokers.leaders[A1] = Leader(3, 6)
    fetched = fetch(brokers, at(90, *ALL))
    assert fetched == dict.fromkeys(ALL, read(90, 100)) | {
        A1: nothing(90, Code.NOT_LEADER_OR_FOLLOWER)
    }
    brokers.sent.clear()
    assert fetch(brokers, at(90, A1, A2)) == dict.fromkeys((A1, A2), read(90, 100))
    assert brokers.sent == [("a",), Fetch(3, at(90, A1, A2), WAIT_MS, WAIT_MS + TIMEOUT_MS)]


def test_a_leader_that_metadata_show_too_late_is_looked_up_until_it_is_right(
    brokers: ThreeBrokers,
) -> None:
    brokers.shown[A1] = Leader(2, 5)
    brokers.leaders[A1] = Leader(3, 6)
    for _ in range(2):
        assert fetch(brokers, at(0, A1)) == {A1: nothing(0, Code.NOT_LEADER_OR_FOLLOWER)}
    brokers.shown.clear()
    assert fetch(brokers, at(0, A1)) == {A1: read(0, 100)}
    assert brokers.sent[::2] == [("a",)] * 3


def test_a_leader_that_was_elected_again_refuses_the_old_epoch(brokers: ThreeBrokers) -> None:
    fetch(brokers, at(0, A0))
    brokers.leaders[A0] = Leader(1, 6)
    assert fetch(brokers, at(0, A0)) == {A0: nothing(0, Code.FENCED_LEADER_EPOCH)}
    assert fetch(brokers, at(0, A0)) == {A0: read(0, 100)}


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.NONE])
def test_an_error_of_one_partition_is_in_its_part_alone(brokers: ThreeBrokers, code: Code) -> None:
    fetch(brokers, at(100, *ALL))
    brokers.sent.clear()
    brokers.codes[A0] = [code]
    assert fetch(brokers, at(90, *ALL)) == dict.fromkeys(ALL, read(90, 100)) | {
        A0: nothing(90, code)
    }
    assert fetch(brokers, at(90, A0)) == {A0: read(90, 100)}
    # Only where the leader may be another one are the metadata fetched again.
    has_moved = REACTIONS["Fetch"].get(code) is Reaction.REFRESH_METADATA
    assert [each for each in brokers.sent if not isinstance(each, Fetch)] == [("a",)] * has_moved


@pytest.mark.parametrize("code", [Code.FETCH_SESSION_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION])
def test_the_error_of_a_whole_response_is_that_of_each_partition_in_it(
    brokers: ThreeBrokers, code: Code
) -> None:
    brokers.failing[1] = Refused(code, "the whole response")
    assert fetch(brokers, at(90, *ALL)) == dict.fromkeys(ALL, read(90, 100)) | dict.fromkeys(
        (A0, B0), nothing(90, code, "the whole response")
    )


def test_the_partitions_of_a_broker_that_does_not_answer_are_left_out(
    brokers: ThreeBrokers,
) -> None:
    brokers.down = {1}
    assert fetch(brokers, at(90, *ALL)) == dict.fromkeys((A1, B1, A2), read(90, 100))
    # They are looked up again: another broker may lead them now.
    brokers.leaders |= {A0: Leader(2, 6), B0: Leader(3, 9)}
    assert fetch(brokers, at(90, *ALL)) == dict.fromkeys(ALL, read(90, 100))


def test_the_error_is_raised_if_nothing_came_at_all(brokers: ThreeBrokers) -> None:
    fetch(brokers, at(100, *ALL))
    brokers.down = {1, 2, 3}
    with pytest.raises(Unanswerable, match="down"):
        fetch(brokers, at(90, *ALL))
    assert brokers.pauses == []


def test_brokers_that_do_not_answer_cost_the_timeout_and_the_wait_each(
    brokers: ThreeBrokers,
) -> None:
    fetch(brokers, at(90, *ALL))
    brokers.down, begun_ms = {1, 2}, brokers.now_ms
    assert fetch(brokers, at(90, *ALL)).keys() == {A2}
    assert brokers.now_ms == begun_ms + 2 * (WAIT_MS + TIMEOUT_MS)


def test_metadata_that_nobody_sends_cost_one_timeout_in_all(brokers: ThreeBrokers) -> None:
    brokers.down = {1, 2, 3}
    with pytest.raises(Unanswerable, match="down"):
        fetch(brokers, at(0, A0, B0))
    # The last millisecond is for the second topic.
    assert brokers.now_ms == START_MS + TIMEOUT_MS + 1


def test_a_partition_without_a_leader_holds_nobody_back(brokers: ThreeBrokers) -> None:
    brokers.leaders[A0] = None
    why = "partition a-0 has no leader now"
    assert fetch(brokers, at(90, *ALL)) == dict.fromkeys(ALL, read(90, 100)) | {
        A0: nothing(90, Code.LEADER_NOT_AVAILABLE, why)
    }


def test_the_partitions_of_a_deleted_topic_are_left_out(brokers: ThreeBrokers) -> None:
    fetch(brokers, at(100, *ALL))
    brokers.deleted = {"b"}
    fetched = fetch(brokers, at(90, *ALL))
    assert fetched == dict.fromkeys(A, read(90, 100)) | dict.fromkeys(
        B, nothing(90, Code.UNKNOWN_TOPIC_ID)
    )
    assert fetch(brokers, at(90, *ALL)) == dict.fromkeys(A, read(90, 100))
    with pytest.raises(Refused, match=r"UNKNOWN_TOPIC_ID: topic 'b' .* is gone"):
        fetch(brokers, at(90, *B))


def test_no_position_asks_nobody(brokers: ThreeBrokers) -> None:
    assert fetch(brokers, {}) == {}
    assert brokers.sent == []


def test_a_leader_begins_with_each_of_its_partitions_equally_often(brokers: ThreeBrokers) -> None:
    """A response that is full after the first partition must not starve the others for long."""
    brokers.leaders |= {A1: Leader(1, 5), A2: Leader(2, 5), B0: Leader(2, 8), B1: Leader(2, 8)}
    brokers.most_batches = 1
    buffer = FetchBuffer()
    buffer.positions = at(0, *ALL)
    served = Counter[TopicIdPartition]()
    for _ in range(60):
        fetched = fetch(brokers, buffer.rotate_positions(), buffer.turn)
        served.update(each for each, fetch in fetched.items() if fetch.batches)
    assert served == {A0: 30, A1: 30, A2: 20, B0: 20, B1: 20}


def test_a_topic_without_leaders_is_looked_up_once_in_a_round(brokers: ThreeBrokers) -> None:
    brokers.leaders |= dict.fromkeys(A)
    for _ in range(2):
        brokers.sent.clear()
        fetched = fetch(brokers, at(90, *ALL))
        assert [fetched[each].code for each in A] == [Code.LEADER_NOT_AVAILABLE] * 3
        assert brokers.sent.count(("a",)) == 1
