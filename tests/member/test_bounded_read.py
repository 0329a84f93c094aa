"""The offset ranges of a batch read, by what the logs hold, the options and the group's offsets."""

from typing import Any

import pytest

from apportion.machine import Note
from apportion.member.batch.bounded_read import BoundedRead, ReadRefused, read_ranges
from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.queries import (
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MatchingTopics,
)
from apportion.rules import run_rule
from apportion.topics import Topic, TopicIdPartition, Topics
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

ID = bytes(range(16))
P0, P1 = (TopicIdPartition("t", ID, number) for number in range(2))
T = TopicChoice(("t",))
EARLIEST_ON = StartingOffsets(EARLIEST)


class Logs:
    """A topic t of two partitions: P0 holds [3, 9), P1 holds [0, 4). committed: of the group."""

    def __init__(self) -> None:
        self.held = {P0: (3, 9), P1: (0, 4)}
        self.committed: dict[TopicIdPartition, int] = {}
        self.asked: list[Any] = []
        self.logged: list[str] = []

    def ranges(self, read: BoundedRead) -> dict[TopicIdPartition, tuple[int, int]]:
        return dict(run_rule(read_ranges(read), self.answer).ranges)

    def answer(self, query: Any) -> Any:
        self.asked.append(query)
        match query:
            case ExistingTopics(names):
                return Topics([Topic("t", ID, 2)] if "t" in names else [])
            case MatchingTopics(expression):
                return ("t",) if expression == "t|u" else ()
            case FetchCommitted(partitions, 0):
                return {each: OffsetAndMetadata(self.committed.get(each)) for each in partitions}
            case ListOffsets(partitions, int(timestamp)):
                end = {EARLIEST: 0, LATEST: 1}[timestamp]
                return {each: self.held[each][end] for each in partitions}
            case Note(_, text, hint):
                return self.logged.append(text + hint)
        raise AssertionError(query)


@pytest.fixture
def logs() -> Logs:
    return Logs()


def test_all_that_the_logs_hold_is_read_and_no_group_is_asked(logs: Logs) -> None:
    assert logs.ranges(BoundedRead(T, EARLIEST_ON, {})) == {P0: (3, 9), P1: (0, 4)}
    assert logs.asked == [
        ExistingTopics(("t",)),
        ListOffsets((P0, P1), EARLIEST),
        ListOffsets((P0, P1), LATEST),
    ]


def test_offsets_of_single_partitions_bound_the_read(logs: Logs) -> None:
    starting = StartingOffsets(EARLIEST, {("t", 0): 5, ("t", 1): EARLIEST})
    read = BoundedRead(T, starting, {("t", 0): LATEST, ("t", 1): 2})
    assert logs.ranges(read) == {P0: (5, 9), P1: (0, 2)}


def test_a_partition_that_ends_before_it_begins_is_not_read(logs: Logs) -> None:
    starting = StartingOffsets(EARLIEST, {("t", 0): 5, ("t", 1): 2})
    read = BoundedRead(T, starting, {("t", 0): 4, ("t", 1): 2})
    assert logs.ranges(read) == {}


def test_the_groups_range_is_from_its_offsets_and_elsewhere_from_the_start(logs: Logs) -> None:
    logs.committed = {P0: 7}
    read = BoundedRead(T, EARLIEST_ON, {}, from_committed=True)
    assert logs.ranges(read) == {P0: (7, 9), P1: (0, 4)}
    assert logs.logged == []


def test_a_group_without_any_offset_is_noted(logs: Logs) -> None:
    read = BoundedRead(T, EARLIEST_ON, {}, from_committed=True)
    assert logs.ranges(read) == {P0: (3, 9), P1: (0, 4)}
    assert logs.logged == [
        "the group has no committed offset of these topics; they are read from the beginning: is "
        "kafka.group.id right?"
    ]


@pytest.mark.parametrize(
    ("start", "end", "gone", "left"),
    [
        (1, 9, "t-0: offsets [1, 3) were deleted", (3, 9)),
        (12, LATEST, "t-0: offsets [9, 12) are no longer in the log", None),
        (5, 20, "t-0: the log ends at 9, before endingOffsets' 20", (5, 9)),
    ],
)
def test_records_that_are_gone_fail_the_read_or_are_left_out(
    logs: Logs, start: int, end: int, gone: str, left: tuple[int, int] | None
) -> None:
    starting = StartingOffsets(EARLIEST, {("t", 0): start, ("t", 1): EARLIEST})
    read = BoundedRead(T, starting, {("t", 0): end, ("t", 1): 0})
    with pytest.raises(DataLoss) as loss:
        logs.ranges(read)
    assert str(loss.value) == (
        f"{gone}. Set failOnDataLoss to false to go on without these records."
    )
    assert logs.ranges(read._replace(fail_on_data_loss=False)) == ({P0: left} if left else {})
    assert logs.logged == [f"{gone}; failOnDataLoss is false, so the rest is read"]


def test_deleted_records_below_an_empty_range_are_no_loss(logs: Logs) -> None:
    starting = StartingOffsets(EARLIEST, {("t", 0): 1, ("t", 1): EARLIEST})
    read = BoundedRead(T, starting, {("t", 0): 1, ("t", 1): LATEST})
    assert logs.ranges(read) == {P1: (0, 4)}


def test_a_missing_topic_is_named(logs: Logs) -> None:
    with pytest.raises(ReadRefused) as refused:
        logs.ranges(BoundedRead(TopicChoice(("t", "u")), EARLIEST_ON, {}))
    assert str(refused.value) == (
        "there is no topic u, and a batch read needs topics that exist: create what is missing, or "
        "correct the option subscribe"
    )
    with pytest.raises(ReadRefused) as refused:
        logs.ranges(
            BoundedRead(TopicChoice(("u",)), EARLIEST_ON, {}, assigned=(("u", 0), ("u", 1)))
        )
    assert str(refused.value) == (
        "there is no topic u, and a batch read needs topics that exist: create what is missing, or "
        "correct the option assign"
    )


def test_a_pattern_chooses_topics_and_has_to_match_one(logs: Logs) -> None:
    read = BoundedRead(TopicChoice(expression="t|u"), EARLIEST_ON, {})
    assert logs.ranges(read) == {P0: (3, 9), P1: (0, 4)}
    with pytest.raises(ReadRefused) as refused:
        logs.ranges(read._replace(topics=TopicChoice(expression="x+")))
    assert str(refused.value) == (
        "there is no topic that matches x+, and a batch read needs topics that exist: create what "
        "is missing, or correct the option subscribePattern"
    )


def test_assigned_partitions_alone_are_read_and_their_offsets_alone_are_wanted(
    logs: Logs,
) -> None:
    starting = StartingOffsets(EARLIEST, {("t", 1): 2})
    read = BoundedRead(T, starting, {}, assigned=(("t", 1),))
    assert logs.ranges(read) == {P1: (2, 4)}
    with pytest.raises(ReadRefused) as refused:
        logs.ranges(read._replace(assigned=(("t", 1), ("t", 7))))
    assert str(refused.value) == (
        "option assign names t-7, which does not exist: create what is missing, or correct the "
        "option"
    )


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            BoundedRead(T, StartingOffsets(EARLIEST, {("t", 0): 5}), {}),
            "option startingOffsets leaves out t-1: a batch read wants each partition that "
            "it reads, and no other",
        ),
        (
            BoundedRead(T, EARLIEST_ON, {("t", 0): 5, ("t", 1): 5, ("t", 7): 5}),
            "option endingOffsets names partitions that do not exist: t-7: a batch read wants "
            "each partition that it reads, and no other",
        ),
    ],
)
def test_offsets_in_json_are_of_every_partition_and_of_no_other(
    logs: Logs, read: BoundedRead, message: str
) -> None:
    with pytest.raises(ReadRefused) as refused:
        logs.ranges(read)
    assert str(refused.value) == message
