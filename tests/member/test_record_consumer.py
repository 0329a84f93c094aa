"""The rule of members that read record by record, query by query.

The same rule runs in the simulator (tests/sim) and in `apportion.Consumer` (tests/client).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.membership import Failed, MembershipState
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MembershipSnapshot,
    PollMembership,
)
from apportion.member.records.queries import (
    AwaitMembershipChange,
    CallListener,
)
from apportion.topics import Topic, TopicIdPartition, Topics
from tests.member.record_consumer_host import (
    P0,
    P1,
    P2,
    RecordConsumerHost,
    owned,
    reading_consumer,
)


@pytest.fixture
def host() -> RecordConsumerHost:
    return reading_consumer()


def raising(kind: type, error: Exception | None) -> Callable[[Any], None]:
    """What raises the error at each query of the kind."""

    def before(query: Any) -> None:
        if isinstance(query, kind) and error is not None:
            raise error

    return before


def test_a_new_target_is_applied_in_the_order_that_hands_partitions_over(
    host: RecordConsumerHost,
) -> None:
    host.receives(P0, P2, epoch=3)
    host.poll()
    assert [type(query) for query in host.queries[:5]] == [
        CallListener,
        AdoptAssignment,
        FetchCommitted,
        ListOffsets,
        CallListener,
    ]
    assert [(call.name, call.partitions) for call in host.named(CallListener)] == [
        ("on_revoked", (P1,)),
        ("on_assigned", (P2,)),
    ]


def test_revoked_positions_are_committed_before_the_target_is_acknowledged(
    host: RecordConsumerHost,
) -> None:
    assert host.poll(limit=1) == [(0, 2)]
    host.receives(P1, epoch=3)
    host.poll()
    committed, adopted = host.named(CommitOffsets)[0], host.named(AdoptAssignment)[0]
    assert committed.offsets == {P0: 3}
    assert host.queries.index(committed) < host.queries.index(adopted)


def test_the_commit_of_a_revocation_takes_no_longer_than_any_request_of_a_poll() -> None:
    host = reading_consumer(request_timeout_ms=1_000)
    assert host.poll(limit=1) == [(0, 2)]
    host.receives(P1, epoch=3)
    host.poll()
    assert host.named(CommitOffsets) == [CommitOffsets({P0: 3}, 1, timeout_ms=1_000)]


@pytest.mark.parametrize("error", [Refused(Code.REBALANCE_IN_PROGRESS, "mine"), ValueError("mine")])
def test_a_revocation_is_complete_where_its_listener_raises(
    host: RecordConsumerHost, error: Exception
) -> None:
    host.receives(P1, epoch=3)
    host.listener_errors = {"on_revoked": error}
    with pytest.raises(type(error)) as raised:
        host.poll()
    assert raised.value is error
    assert list(host.rule.positions) == [P1]
    host.poll()
    assert [call.name for call in host.named(CallListener)] == ["on_revoked"]
    assert [query.target for query in host.named(AdoptAssignment)] == [owned(P1)]


def test_an_error_of_on_assigned_goes_to_the_caller_of_poll(host: RecordConsumerHost) -> None:
    host.receives(P0, P1, P2, epoch=3)
    host.listener_errors = {"on_assigned": Refused(Code.NOT_COORDINATOR, "mine")}
    with pytest.raises(Refused, match="mine"):
        host.poll()
    assert P2 in host.rule.positions
    host.poll()
    assert [call.name for call in host.named(CallListener)] == ["on_assigned"]


def test_records_of_a_revoked_partition_are_not_delivered(host: RecordConsumerHost) -> None:
    host.receives(P1, epoch=3)
    assert host.poll() == []


def test_a_target_that_is_withdrawn_before_it_was_adopted_starts_nothing(
    host: RecordConsumerHost,
) -> None:
    def withdraw(query: Any) -> None:
        if isinstance(query, AdoptAssignment):
            host.receives(P0, P1, epoch=4)

    host.receives(P0, P1, P2, epoch=3)
    host.before = withdraw
    host.run(host.rule.apply_assignment())
    assert P2 not in host.rule.positions
    assert host.named(CallListener) == []


def test_an_adoption_that_takes_effect_late_starts_its_partitions_in_a_later_poll(
    host: RecordConsumerHost,
) -> None:
    host.receives(P0, P1, P2, epoch=3)
    # The member's thread has not come to the adoption when the rule reads its state.
    host.is_adopting = False
    host.poll(limit=0)
    assert P2 not in host.rule.positions
    host.is_adopting = True
    host.view = replace(host.view, owned=owned(P0, P1, P2))
    host.poll(limit=0)
    assert sorted(host.rule.positions) == [P0, P1, P2]


@pytest.mark.parametrize("state", [MembershipState.LEAVING, MembershipState.STALE])
def test_a_member_that_left_because_of_a_late_poll_delivers_and_commits_nothing(
    host: RecordConsumerHost, state: MembershipState
) -> None:
    host.view = replace(host.view, state=state, target=None, owned=())
    assert host.poll() == []
    assert host.named(CallListener, CommitOffsets) == [CallListener("on_lost", (P0, P1))]
    assert host.rule.positions == {}


def test_closing_after_a_lost_membership_commits_nothing(host: RecordConsumerHost) -> None:
    host.view = replace(host.view, state=MembershipState.STALE, target=None, owned=())
    host.run(host.rule.close())
    assert host.named(CallListener, CommitOffsets) == [CallListener("on_lost", (P0, P1))]


def test_a_partition_without_a_fetched_offset_is_started_by_a_later_poll(
    host: RecordConsumerHost,
) -> None:
    def lose(query: Any) -> None:
        if isinstance(query, FetchCommitted):
            raise Unanswerable("no broker")

    host.receives(P0, P1, P2, epoch=3)
    host.before = lose
    host.poll()
    assert P2 not in host.rule.positions
    host.before = lambda query: None
    host.offsets[P2] = 4
    host.poll(limit=0)
    assert host.rule.positions[P2] == 4
    assert [call.name for call in host.named(CallListener)] == ["on_assigned"]


def test_a_lost_membership_drops_its_partitions_without_a_commit(host: RecordConsumerHost) -> None:
    assert host.poll(limit=1) == [(0, 2)]
    host.view = replace(host.view, incarnation=2, target=None, owned=(), epoch=0)
    assert host.poll() == []
    assert [(call.name, call.partitions) for call in host.named(CallListener)] == [
        ("on_lost", (P0, P1))
    ]
    assert host.named(CommitOffsets) == []
    assert host.rule.positions == {}


def test_an_error_that_ends_the_membership_comes_after_the_partitions_are_lost(
    host: RecordConsumerHost,
) -> None:
    failed = Failed(Code.GROUP_AUTHORIZATION_FAILED, "no")
    host.view = replace(host.view, state=MembershipState.FATAL, error=failed)
    with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
        host.poll()
    assert [call.name for call in host.named(CallListener)] == ["on_lost"]


def test_an_error_of_on_lost_comes_out_of_close_if_a_poll_ended_before(
    host: RecordConsumerHost,
) -> None:
    host.listener_errors = {"on_lost": ValueError("mine")}
    host.run(host.rule.lose_partitions())
    with pytest.raises(ValueError, match="mine"):
        host.run(host.rule.close())
    host.run(host.rule.close())


def test_a_topic_that_was_created_anew_keeps_nobody_from_committing(
    host: RecordConsumerHost,
) -> None:
    """The cached topic has the old id, which the coordinator refuses for ever."""
    assert host.poll(limit=1) == [(0, 2)]
    host.rule.topics = ("t", "other")
    host.cached = Topics([*host.topics, Topic("other", b"old".rjust(16), 1)])
    host.topics = Topics([*host.topics, Topic("other", b"new".rjust(16), 1)])
    host.view = replace(host.view, epoch=3)
    host.run(host.rule.commit(host.rule.uncommitted()))
    assert host.offsets[P0] == 3


def test_partitions_of_a_deleted_topic_are_not_started(host: RecordConsumerHost) -> None:
    gone = TopicIdPartition("gone", b"g" * 16, 0)
    resolve = host.topics
    host.topics = Topics([*resolve, Topic("gone", gone.topic_id, 1)])

    def delete(query: Any) -> None:
        if isinstance(query, FetchCommitted):
            host.topics = resolve

    host.before = delete
    host.receives(P0, P1, gone, epoch=3)
    host.poll()
    assert gone not in host.rule.positions
    assert host.named(CallListener) == []


def test_nothing_is_committed_before_the_first_join() -> None:
    host = RecordConsumerHost()
    with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
        host.run(host.rule.commit({P0: 1}))
    assert host.queries == []


def test_an_automatic_commit_that_fails_is_logged_and_made_again(host: RecordConsumerHost) -> None:
    def lose(query: Any) -> None:
        if isinstance(query, CommitOffsets):
            raise Unanswerable("no broker")

    assert host.poll(limit=1) == [(0, 2)]
    host.before, host.now_ms = lose, 2_000
    assert host.poll(limit=1) == [(0, 3)]
    assert [note.text for note in host.named(Note)] == ["automatic commit failed: no broker"]
    host.before, host.now_ms = lambda query: None, 3_500
    host.poll(limit=1)
    assert host.offsets[P0] == 4


def test_a_poll_shows_the_member_that_the_application_lives(host: RecordConsumerHost) -> None:
    host.now_ms += 10_000
    host.poll()
    host.now_ms += 9_999  # too early to show it again
    host.poll()
    assert host.named(PollMembership) == [PollMembership()]


def test_a_poll_without_records_waits_for_the_next_change() -> None:
    host = RecordConsumerHost()
    assert host.poll() == []
    assert host.named(AwaitMembershipChange) == [AwaitMembershipChange(0)]


def test_a_poll_without_records_lasts_as_long_as_it_may_and_no_longer() -> None:
    host = RecordConsumerHost()
    host.now_ms = 100

    def wait(query: Any) -> None:
        if isinstance(query, AwaitMembershipChange):
            host.now_ms += max(1, query.timeout_ms)

    host.before = wait
    assert host.run(host.rule.poll(600, 1)) == []
    assert host.named(AwaitMembershipChange) == list(map(AwaitMembershipChange, (250, 250, 100)))


def test_records_are_taken_at_once_while_nothing_has_changed(host: RecordConsumerHost) -> None:
    def at_once() -> list[int]:
        records = host.rule.take_at_once(MembershipSnapshot(host.view, host.now_ms, 0), 1)
        return [record.offset for record in records]

    assert host.poll(limit=1) == [(0, 2)]
    assert at_once() == [3]
    host.now_ms += 1_000  # a commit is due
    assert at_once() == []
    host.now_ms -= 1_000
    host.view = replace(host.view, epoch=3)
    assert at_once() == []


def test_a_position_that_is_out_of_range_is_reset_by_the_policy(host: RecordConsumerHost) -> None:
    host.rule.buffer.positions[P1] = 77
    answer = host.fetched

    def fetched(partition: TopicIdPartition, position: int) -> PartitionFetch:
        if partition == P1:
            return PartitionFetch((), 0, Code.OFFSET_OUT_OF_RANGE)
        return answer(partition, position)

    host.fetched = fetched  # type: ignore[method-assign]
    seen: list[Any] = []
    host.before = seen.append
    host.poll(limit=0)
    assert host.rule.positions[P1] == 0
    assert [query for query in seen if isinstance(query, Note)] == [
        Note("warning", "t-1: offset 77 is out of range")
    ]


def test_an_offset_without_a_policy_is_an_error() -> None:
    host = RecordConsumerHost(reset=None)
    host.receives(P0)
    with pytest.raises(Refused, match="auto_offset_reset is 'error'"):
        host.poll()


def test_a_poll_raises_which_topics_are_refused_until_they_are_allowed(
    host: RecordConsumerHost,
) -> None:
    denied = Failed(Code.TOPIC_AUTHORIZATION_FAILED, "one of them")
    host.view = replace(host.view, refusal=denied)
    host.before = raising(ExistingTopics, Refused(Code.TOPIC_AUTHORIZATION_FAILED, "the topic 't'"))
    for _ in range(2):
        with pytest.raises(Refused, match=r"^TOPIC_AUTHORIZATION_FAILED: the topic 't'$"):
            host.poll()
    # Allowed since, and the member does not know it yet.
    host.before = raising(ExistingTopics, None)
    with pytest.raises(Refused, match=r"^TOPIC_AUTHORIZATION_FAILED: one of them$"):
        host.poll()
    host.view = replace(host.view, refusal=None)
    assert host.poll(limit=1) == [(0, 2)]


@pytest.mark.parametrize(
    "error", [Unanswerable("no broker"), Refused(Code.REQUEST_TIMED_OUT, "busy")]
)
def test_an_outage_hides_no_records_behind_an_old_refusal(
    host: RecordConsumerHost, error: Exception
) -> None:
    host.view = replace(host.view, refusal=Failed(Code.TOPIC_AUTHORIZATION_FAILED, "old"))
    host.before = raising(ExistingTopics, error)
    assert host.poll(limit=1) == [(0, 2)]
