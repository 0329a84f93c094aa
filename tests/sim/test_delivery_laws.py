"""The laws of what plain consumers deliver and commit: what each forbids, and what it allows."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from apportion.errors import Unanswerable
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.sim.checks.delivery_laws import DeliveryChecker
from apportion.sim.kernel.observer import InUse
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import Topic, TopicIdPartition, Topics

P = TopicIdPartition("t", b"t" * 16, 0)
OTHER = TopicIdPartition("t", b"t" * 16, 1)


def record(offset: int, partition: TopicIdPartition = P) -> ConsumerRecord:
    return ConsumerRecord(partition.topic, partition.partition, offset, 0, None, None, ())


class Group:
    """A checker, and the consumers that it sees."""

    def __init__(self) -> None:
        self.topics = Topics([Topic("t", P.topic_id, 2)])
        self.checker = DeliveryChecker(lambda: self.topics)
        self._consumers: dict[str, Any] = {}

    def consumer(self, name: str) -> Any:
        view = SimpleNamespace(incarnation=1, error=None, target=(), owned=())
        return self._consumers.setdefault(
            name,
            SimpleNamespace(
                name=name,
                group="readers",
                in_use=InUse(0, {}),
                member=SimpleNamespace(view=lambda: view),
                view=view,
            ),
        )

    def uses(self, name: str, *partitions: TopicIdPartition, incarnation: int = 1) -> None:
        consumer = self.consumer(name)
        consumer.in_use = InUse(incarnation, dict.fromkeys(partitions))
        consumer.view.owned = tuple(each.id_partition for each in partitions)
        self.checker.ownership_changed(consumer)

    def delivers(self, name: str, *offsets: int) -> None:
        self.checker.records_delivered(self.consumer(name), [record(offset) for offset in offsets])

    def commits(self, name: str, offsets: Mapping[TopicIdPartition, int]) -> None:
        self.checker.commit_sent(self.consumer(name), offsets)
        self.checker.commit_acknowledged(self.consumer(name), offsets)

    def adopts(self, name: str) -> None:
        self.consumer(name).view.owned = (P.id_partition,)

    def asks(self, name: str, incarnation: int = 1) -> None:
        self.checker.committed_requested(self.consumer(name), incarnation, [P])

    def is_shown(self, name: str, committed: int | None) -> None:
        self.checker.committed_fetched(self.consumer(name), {P: committed})

    def fetches(self, name: str, committed: int | None, incarnation: int = 1) -> None:
        """The consumer adopts P, and fetches its committed offset."""
        self.adopts(name)
        self.asks(name, incarnation)
        self.is_shown(name, committed)

    def hands_over(self, committed: int) -> None:
        """P goes from consumer a to b, which is shown that committed offset."""
        self.uses("a")
        self.fetches("b", committed)
        self.uses("b", P)

    def fails(self, name: str, offset: int) -> None:
        """The consumer's commit of that position in P fails."""
        self.checker.commit_failed(self.consumer(name), {P: offset})


@pytest.fixture
def group() -> Group:
    """Consumer a uses P, and has delivered and committed two records of it."""
    group = Group()
    group.fetches("a", None)
    group.uses("a", P)
    group.delivers("a", 0, 1)
    group.commits("a", {P: 2})
    return group


def breaks(law: str) -> Any:
    return pytest.raises(LawBroken, match=law)


def test_a_partition_is_handed_over_at_its_committed_position(group: Group) -> None:
    group.hands_over(committed=2)
    group.delivers("b", 2, 3)
    group.commits("b", {P: 4})


def test_a_record_of_a_partition_that_is_not_used_may_not_be_delivered(group: Group) -> None:
    group.uses("a")
    with breaks("delivered-by-owner"):
        group.delivers("a", 2)


@pytest.mark.parametrize("offset", [1, 3])
def test_the_next_record_comes_next(group: Group, offset: int) -> None:
    with breaks("delivered-in-order"):
        group.delivers("a", offset)


def test_nobody_begins_beyond_what_was_delivered(group: Group) -> None:
    group.uses("a")
    group.uses("b", P)
    with breaks("none-skipped"):
        group.delivers("b", 3)


def test_nobody_begins_before_what_was_committed(group: Group) -> None:
    group.uses("a")
    group.uses("b", P)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 1)


def test_the_committed_offset_that_a_consumer_is_shown_is_none_from_before_it_asked(
    group: Group,
) -> None:
    group.hands_over(committed=1)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 1)


def test_a_paused_consumer_may_begin_where_the_group_was_when_it_asked(group: Group) -> None:
    group.uses("a")
    group.fetches("b", 2)
    # b is paused, and removed from the group; c goes on.
    group.fetches("c", 2)
    group.uses("c", P)
    group.delivers("c", 2)
    group.commits("c", {P: 3})
    group.uses("b", P)
    group.delivers("b", 2)


def test_a_commit_after_the_question_may_be_missing_in_the_answer(group: Group) -> None:
    group.adopts("b")
    group.asks("b")
    group.delivers("a", 2)
    group.commits("a", {P: 3})
    group.is_shown("b", 2)  # the coordinator answered before that commit
    group.uses("a")
    group.uses("b", P)
    group.delivers("b", 2)


def test_a_question_without_an_answer_is_no_beginning(group: Group) -> None:
    group.uses("a")
    group.adopts("b")
    group.asks("b")
    group.uses("b", P)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 2)


def test_an_offset_shown_before_the_adoption_is_no_beginning(group: Group) -> None:
    group.asks("b")  # whether a sink has claimed the group
    group.is_shown("b", 2)
    group.uses("a")
    group.uses("b", P)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 2)


def test_an_offset_shown_to_a_process_is_no_beginning_for_the_next(group: Group) -> None:
    group.uses("a")
    group.fetches("b", 2)
    group.uses("b", incarnation=0)
    group.uses("b", P)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 2)


def test_an_offset_shown_to_a_member_is_of_no_use_once_its_membership_is_lost(group: Group) -> None:
    group.uses("a")
    group.fetches("b", 2)
    group.consumer("b").view.incarnation = 2
    group.uses("b", P, incarnation=2)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 2)


def test_a_cut_off_consumer_is_judged_by_the_commits_of_its_beginning() -> None:
    group = Group()
    group.fetches("a", None)
    group.uses("a", P)  # and hears of nothing any more
    group.fetches("b", None)
    group.uses("b", P)
    group.delivers("b", 0)
    group.commits("b", {P: 1})
    group.delivers("a", 0)


def test_uncommitted_records_are_delivered_again_after_a_failure(group: Group) -> None:
    group.delivers("a", 2)
    group.fails("a", 3)
    group.hands_over(committed=2)
    group.delivers("b", 2)


@pytest.mark.parametrize("offset", [3, 4])
def test_nobody_begins_beyond_the_committed_offset_that_it_fetched(
    group: Group, offset: int
) -> None:
    group.delivers("a", 2, 3)
    group.fails("a", 4)
    group.hands_over(committed=2)
    with breaks("goes-on-at-commit"):
        group.delivers("b", offset)


def test_nobody_begins_without_a_fetch_of_the_committed_offset(group: Group) -> None:
    group.uses("a")
    group.uses("b", P)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 2)


def test_each_use_needs_a_fetch_of_its_own(group: Group) -> None:
    group.hands_over(committed=2)
    group.uses("b")
    group.uses("b", P)
    with breaks("goes-on-at-commit"):
        group.delivers("b", 2)


def test_a_commit_without_an_answer_may_be_the_beginning(group: Group) -> None:
    group.delivers("a", 2, 3)
    group.checker.commit_sent(group.consumer("a"), {P: 4})
    group.fails("a", 4)
    group.hands_over(committed=4)
    group.delivers("b", 4)


def test_before_its_first_record_a_use_commits_nothing_but_its_beginning(group: Group) -> None:
    group.delivers("a", 2, 3)
    group.fails("a", 4)
    group.hands_over(committed=2)
    group.commits("b", {P: 2})
    with breaks("commit-is-delivered"):
        group.commits("b", {P: 4})


@pytest.mark.parametrize("offset", [1, 3])
def test_a_position_is_committed_as_it_is(group: Group, offset: int) -> None:
    with breaks("commit-is-delivered"):
        group.commits("a", {P: offset})


def test_a_position_that_nobody_delivered_is_not_committed(group: Group) -> None:
    group.uses("a", P, OTHER)
    with breaks("commit-is-delivered"):
        group.commits("a", {OTHER: 1})


def test_a_position_of_a_partition_that_was_given_up_is_not_committed(group: Group) -> None:
    group.uses("a")
    with breaks("commit-is-delivered"):
        group.commits("a", {P: 2})


def test_a_partition_is_given_up_with_its_position_committed(group: Group) -> None:
    group.delivers("a", 2)
    with breaks("released-with-commit"):
        group.uses("a")


def test_a_partition_of_a_deleted_topic_is_given_up_without_a_commit(group: Group) -> None:
    group.delivers("a", 2)
    group.topics = Topics([Topic("t", b"new".rjust(16), 2)])
    group.uses("a")


def test_a_partition_that_was_lost_is_dropped_without_a_commit(group: Group) -> None:
    group.delivers("a", 2)
    group.consumer("a").view.incarnation = 2
    group.uses("a")


def test_a_process_that_ends_commits_nothing(group: Group) -> None:
    group.delivers("a", 2)
    group.uses("a", incarnation=0)


def test_a_partition_that_its_member_has_lost_is_not_delivered(group: Group) -> None:
    group.consumer("a").view.owned = ()
    with pytest.raises(LawBroken, match="which it does not own"):
        group.delivers("a", 2)


def test_a_member_that_left_gives_up_partitions_without_a_commit(group: Group) -> None:
    group.delivers("a", 2)
    group.consumer("a").view.target = None
    group.uses("a")


def test_a_failed_commit_excuses_one_release(group: Group) -> None:
    group.delivers("a", 2)
    group.fails("a", 3)
    group.uses("a")
    group.fetches("a", 2)
    group.uses("a", P)
    group.delivers("a", 2)
    with breaks("released-with-commit"):
        group.uses("a")


def test_a_failed_commit_excuses_no_later_position(group: Group) -> None:
    group.delivers("a", 2)
    group.fails("a", 3)
    group.delivers("a", 3)
    with breaks("released-with-commit"):
        group.uses("a")


def test_a_failed_commit_excuses_no_other_partition(group: Group) -> None:
    group.delivers("a", 2)
    group.checker.commit_failed(group.consumer("a"), {OTHER: 3})
    with breaks("released-with-commit"):
        group.uses("a")


def test_a_failed_commit_excuses_no_later_incarnation(group: Group) -> None:
    group.fails("a", 2)
    group.consumer("a").view.incarnation = 2
    group.uses("a", incarnation=2)
    group.fetches("a", 2, incarnation=2)
    group.uses("a", P, incarnation=2)
    group.delivers("a", 2)
    with breaks("released-with-commit"):
        group.uses("a", incarnation=2)


def test_poll_raises_nothing_that_time_mends(group: Group) -> None:
    with breaks("poll-goes-on"):
        group.checker.poll_failed(group.consumer("a"), Unanswerable("no broker"))


def reads(group: Group, *offsets: int) -> None:
    """A task reads these offsets of the range [2, 5)."""
    group.checker.range_read(group.consumer("a"), P, (2, 5), [*offsets])


def test_a_task_reads_each_record_of_its_range(group: Group) -> None:
    reads(group, 2, 3, 4)


@pytest.mark.parametrize("offsets", [(2, 3), (3, 4), (2, 3, 3, 4), (2, 4, 3), (2, 3, 4, 5), ()])
def test_a_task_reads_nothing_else(group: Group, offsets: tuple[int, ...]) -> None:
    with breaks("range-is-read"):
        reads(group, *offsets)


def test_the_last_records_of_a_deleted_topic_are_not_missed(group: Group) -> None:
    group.topics = Topics([Topic("t", b"u" * 16, 2)])
    reads(group)
    reads(group, 2, 3)


@pytest.mark.parametrize("offsets", [(3, 4), (2, 2), (2, 3, 4, 5)])
def test_a_task_reads_the_records_of_a_deleted_topic_in_order(
    group: Group, offsets: tuple[int, ...]
) -> None:
    group.topics = Topics()
    with breaks("range-is-read"):
        reads(group, *offsets)
