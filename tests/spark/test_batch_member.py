"""A batch member plans spans and commits them, on a broker in this process and without Spark."""

import functools
import re
from collections.abc import Callable

import pytest

import apportion.client.group_membership
import apportion.member.batch.retry_limits
from apportion.assign.by_name import Given, TopicParts
from apportion.client.cluster import Cluster
from apportion.drive.clocks import now
from apportion.machine import Instant
from apportion.member.assignors.serde import encode_assignment
from apportion.member.assignors.strategy import strategy
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.span import EMPTY_SPAN
from apportion.member.classic.generation import NO_GENERATION, Generation
from apportion.member.classic.requests import ClassicSettings, join_request, sync_request
from apportion.spark.membership.batch_member import BatchMember
from apportion.topics import partitions_of
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.client import changes
from tests.spark.batch_members import GroupProtocol, broker, create_topic, produce, span_where

__all__ = ["broker"]


@pytest.fixture
def join_silent_member(cluster: Cluster, protocol: GroupProtocol) -> Callable[[str, str], None]:
    """`join_silent_member(group, topic)`: the member is assigned both partitions, and never sends a
    request again.
    """
    join = join_as_silent_classic_member if protocol == "classic" else join_as_silent_consumer
    return functools.partial(join, cluster)


def join_as_silent_classic_member(cluster: Cluster, group: str, topic: str) -> None:
    ghost = ClassicSettings(group, strategy("cooperative-sticky"), session_timeout_ms=2_000)
    named = cluster.call(
        join_request(ghost, "", (topic,), owned=(), owned_generation=NO_GENERATION, reason=None),
        coordinator=group,
    )
    joined = cluster.call(
        join_request(
            ghost, named.member_id, (topic,), owned=(), owned_generation=NO_GENERATION, reason=None
        ),
        coordinator=group,
    )
    everything = encode_assignment(Given((TopicParts(topic, (0, 1)),)))
    plan = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=everything),)
    generation = Generation(joined.generation_id, "cooperative-sticky", assignments=plan)
    assert (
        cluster.call(
            sync_request(ghost, joined.member_id, generation), coordinator=group
        ).assignment
        == everything
    )


def join_as_silent_consumer(cluster: Cluster, group: str, topic: str) -> None:
    beat = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="ghost",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )
    answer = cluster.call(beat, coordinator=group)
    # The group's next target may be due only after its assignment interval.
    while answer.assignment is None or not answer.assignment.topic_partitions:
        steady = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="ghost", member_epoch=answer.member_epoch
        )
        answer = cluster.call(steady, coordinator=group)
        assert answer.error_code == 0


def test_a_topic_made_again_is_read_from_its_beginning_even_with_latest(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember]
) -> None:
    (old,) = create_topic(cluster, "again", records=3)
    member = batch_member_of(
        "made-again", "again", startingOffsets="latest", failOnDataLoss="false"
    )
    first = span_where(member, EMPTY_SPAN, lambda span: old in span.ranges)
    changes.delete_topic(cluster, "again")
    (new,) = create_topic(cluster, "again", records=5)
    second = span_where(member, first, lambda span: new in span.ranges)
    assert (dict(first.ranges), dict(second.ranges)) == ({old: (3, 3)}, {new: (0, 5)})


def test_the_group_hears_of_a_batch_when_it_comes_back_and_of_its_start_before(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember]
) -> None:
    (partition,) = create_topic(cluster, "late", records=8)
    member = batch_member_of("late-commit", "late", startingOffsets="earliest")
    batch = span_where(member, EMPTY_SPAN, lambda span: partition in span.ranges, limit=5)
    assert (dict(batch.ranges), cluster.committed("late-commit", [partition])) == (
        {partition: (0, 5)},
        {partition: 0},
    )
    following = span_where(member, batch, lambda span: span != batch, limit=5)
    assert (dict(following.ranges), cluster.committed("late-commit", [partition])) == (
        {partition: (5, 8)},
        {partition: 5},
    )


def test_a_restart_tells_the_group_of_a_batch_that_it_never_heard_of(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember]
) -> None:
    (partition,) = create_topic(cluster, "restart", records=8)
    first = batch_member_of("restarted", "restart", startingOffsets="earliest")
    batch = span_where(first, EMPTY_SPAN, lambda span: partition in span.ranges, limit=5)
    first.close()
    again = batch_member_of("restarted", "restart", startingOffsets="earliest")
    following = span_where(again, batch, lambda span: span != batch, limit=5)
    assert (dict(following.ranges), cluster.committed("restarted", [partition])) == (
        {partition: (5, 8)},
        {partition: 5},
    )


def test_a_broker_that_never_answers_ends_the_query_with_the_remedy(
    batch_member_of: Callable[..., BatchMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apportion.member.batch.retry_limits, "FIRST_ASSIGNMENT_TIMEOUT_S", 0.5)
    member = batch_member_of("nobody-group", "any", **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(MembershipFailed) as failure:
        span_where(member, EMPTY_SPAN, lambda span: span.ranges)
    message = re.sub(r"for \d+ s", "for N s", str(failure.value))
    assert message == (
        "group nobody-group at 127.0.0.1:1: nothing to read for N s: "
        "no connection to the broker at 127.0.0.1:1: Connection refused; "
        "see that a broker listens there and can be reached from this host, or give "
        "another kafka.bootstrap.servers"
    )


@pytest.mark.parametrize("trigger", ["processingTime", "availableNow"])
def test_a_query_that_waits_for_a_broker_says_for_how_long_and_how_to_help_it(
    batch_member_of: Callable[..., BatchMember],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trigger: str,
) -> None:
    monkeypatch.setattr(apportion.member.batch.retry_limits, "FIRST_ASSIGNMENT_TIMEOUT_S", 5.0)
    monkeypatch.setattr(apportion.member.batch.retry_limits, "NO_PROGRESS_TIMEOUT_S", 2.0)
    member = batch_member_of("nobody-group", "any", **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    remedy = (
        "see that a broker listens there and can be reached from this host, or give another "
        "kafka.bootstrap.servers"
    )
    with pytest.raises(MembershipFailed, match=f"{remedy}$"):
        if trigger == "availableNow":
            member.stop_at_present_ends()
        span_where(member, EMPTY_SPAN, lambda span: span.ranges)
    assert [each.getMessage() for each in caplog.records if each.name == "apportion.spark"] == [
        "group nobody-group: no connection to the broker at 127.0.0.1:1: Connection refused; the "
        f"query tries again, and ends after {5 if trigger == 'processingTime' else 2} s without an "
        f"answer; {remedy}"
    ]


def test_a_batch_of_more_than_half_of_the_poll_interval_is_warned_of(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def warnings() -> list[str]:
        logged = [each.getMessage() for each in caplog.records if "last batch" in each.getMessage()]
        caplog.clear()
        return logged

    def passes(seconds: int) -> None:
        shift_s.append(shift_s[-1] + seconds)

    def shifted() -> Instant:
        real = now()
        return real._replace(mono_ms=real.mono_ms + shift_s[-1] * 1_000)

    shift_s = [0]
    monkeypatch.setattr(apportion.client.group_membership, "now", shifted)
    create_topic(cluster, "long", records=1)
    interval = {"kafka.max.poll.interval.ms": "120000"}
    member = batch_member_of("long-batches", "long", startingOffsets="earliest", **interval)
    batch = span_where(member, EMPTY_SPAN, lambda span: span.ranges)
    passes(50)
    batch = member.next_span(batch, None)
    assert warnings() == []
    passes(70)
    member.next_span(batch, None)
    assert warnings() == [
        "group long-batches: the last batch took 70 s; after 120 s (kafka.max.poll.interval.ms) "
        "the query loses its partitions: lower maxOffsetsPerTrigger or raise that option"
    ]


def test_a_first_join_may_take_as_long_as_the_slowest_member_of_a_classic_group(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    join_silent_member: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apportion.member.batch.retry_limits, "FIRST_ASSIGNMENT_TIMEOUT_S", 1.0)
    partitions = partitions_of(cluster.create_topic("slow", 2))
    join_silent_member("slow-group", "slow")
    member = batch_member_of("slow-group", "slow", startingOffsets="earliest")
    produce(cluster, partitions[0], 1)
    assert set(span_where(member, EMPTY_SPAN, lambda span: len(span.ranges) == 2).ranges) == set(
        partitions
    )


def test_a_restart_waits_for_its_share_before_it_forgets_where_it_stood(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    join_silent_member: Callable[[str, str], None],
) -> None:
    partitions = create_topic(cluster, "haunted", 2, records=8)
    first = batch_member_of("haunted-group", "haunted", startingOffsets="earliest")
    batch = span_where(first, EMPTY_SPAN, lambda span: span.ranges, limit=10)
    assert dict(batch.ranges) == dict.fromkeys(partitions, (0, 5))
    first.close()
    join_silent_member("haunted-group", "haunted")
    again = batch_member_of("haunted-group", "haunted", startingOffsets="earliest")
    following = span_where(again, batch, lambda span: span != batch)
    assert dict(following.ranges) == dict.fromkeys(partitions, (5, 8))
    assert cluster.committed("haunted-group", partitions) == dict.fromkeys(partitions, 5)


def test_reading_what_is_there_does_not_end_before_the_share_has_come(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    join_silent_member: Callable[[str, str], None],
) -> None:
    partitions = create_topic(cluster, "now", 2, records=8)
    join_silent_member("now-group", "now")
    member = batch_member_of("now-group", "now", startingOffsets="earliest")
    member.stop_at_present_ends()
    produce(cluster, partitions[0], 2)
    asking = member.next_span(EMPTY_SPAN, None)  # the writers, of whom there are none
    spans = [asking]
    while (following := member.next_span(spans[-1], None)) is not spans[-1]:
        spans.append(following)
    read = [
        (each, (start, end))
        for span in spans
        for each, (start, end) in span.ranges.items()
        if start < end
    ]
    # Each once, in one batch or in two: the share of the silent member may come after the first.
    assert sorted(read) == [(each, (0, 8)) for each in sorted(partitions)]
    assert spans[-1].end_offsets() == dict.fromkeys(partitions, 8)


def test_a_partition_is_handed_over_where_its_old_owner_stands(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember]
) -> None:
    partitions = create_topic(cluster, "shared", 2, records=10)
    one = batch_member_of("handed", "shared", startingOffsets="earliest")
    before = span_where(one, EMPTY_SPAN, lambda span: len(span.ranges) == 2, limit=4)
    other = batch_member_of("handed", "shared", startingOffsets="earliest")
    joined = other.next_span(other.next_span(EMPTY_SPAN, None), None)
    spans = [before]
    while len(spans[-1].ranges) == 2:
        spans.append(one.next_span(spans[-1], 1))
    theirs = span_where(other, joined, lambda span: span.ranges and not span.question_number)
    (kept,), (given,) = spans[-1].ranges, theirs.ranges
    assert {kept, given} == {*partitions}
    assert theirs.ranges[given] == (spans[-2].ranges[given][1], 10)
