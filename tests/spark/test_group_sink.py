"""A group belongs to one sink: who waits, who is refused, and how a moved table adopts its group.

On a broker in this process and without Spark; `tests/kafka` plays most of it on a real Kafka, too.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.client.consumer import Consumer
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import AnotherSink
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.processes import handover
from apportion.topics import TopicIdPartition, partitions_of
from tests.spark.batch_members import (
    GroupProtocol,
    broker,
    cluster_of,
    create_topic,
    span_where,
    strategy_of,
)

__all__ = ["broker"]


def two_of_eight(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], name: str
) -> tuple[str, str, tuple[TopicIdPartition, ...], BatchMember]:
    """A topic and a group of that name: the topic, the group, the topic's two partitions with eight
    records each, an member.
    """
    partitions = create_topic(cluster, name, 2, records=8)
    return name, name, partitions, batch_member_of(name, name, startingOffsets="earliest")


def begun(member: BatchMember, table: str) -> Span:
    """The first span that reads, of a query whose writer announces this table; the writer plays no
    other part.
    """
    asking = member.next_span(EMPTY_SPAN, None)
    handover.write_report(asking, table)
    return span_where(member, asking, lambda span: span.ranges and not span.question_number)


def test_a_member_with_a_second_sink_for_its_group_is_refused_and_takes_nothing(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    topic, group, partitions, member = two_of_eight(
        cluster, batch_member_of, f"one-sink-{protocol}"
    )
    batch = begun(member, "/lake/flights")
    assert dict(batch.ranges) == dict.fromkeys(partitions, (0, 8))
    beginning = OffsetAndMetadata(0, '{"sinks":["/lake/flights"],"starting":true}')
    assert cluster.committed_offsets(group, partitions) == dict.fromkeys(partitions, beginning)
    stray = batch_member_of(group, topic, startingOffsets="earliest")
    with pytest.raises(
        AnotherSink,
        match=rf"group {group}: it belongs to the sink /lake/flights, .* writes to /lake/other",
    ):
        begun(stray, "/lake/other")
    with Consumer(
        cluster_of(member), group, topics=topic, group_protocol=protocol, **strategy_of(protocol)
    ) as consumer:
        following = member.next_span(batch, None)
        with pytest.raises(
            AnotherSink, match=f"group {group}: it belongs to the sink /lake/flights"
        ):
            while not consumer.poll(100):
                following = member.next_span(following, None)
        assert {event.what for event in consumer.session.history()} == {"left"}, "it has joined"
    claimed = OffsetAndMetadata(8, '{"sinks":["/lake/flights"]}')
    assert cluster.committed_offsets(group, partitions) == dict.fromkeys(partitions, claimed)
    last = span_where(member, following, lambda span: len(span.ranges) == 2)
    assert last.end_offsets() == dict.fromkeys(partitions, 8)


def test_a_consumer_that_joined_before_the_sink_is_refused_at_its_next_partition(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    topic, group, partitions, member = two_of_eight(cluster, batch_member_of, f"early-{protocol}")
    with Consumer(
        cluster_of(member), group, topics=topic, group_protocol=protocol, **strategy_of(protocol)
    ) as consumer:
        while len(consumer.assignment) < 2:
            consumer.poll(100)
        question = member.next_span(EMPTY_SPAN, None)
        # a table of before, which need not wait
        handover.write_report(question, "/lake/flights", has_records=True)
        following = question
        while not following.ranges:
            following = member.next_span(following, None)
            consumer.poll(0)
        member.close()
        with pytest.raises(
            AnotherSink, match=f"group {group}: it belongs to the sink /lake/flights"
        ):
            while True:
                consumer.poll(100)
        assert consumer.session.history()[-1].what == "left"
    (gained,) = following.ranges
    assert cluster.committed_offsets(group, partitions)[gained] == OffsetAndMetadata(
        0, '{"sinks":["/lake/flights"],"starting":true}'
    )


def test_a_newcomer_waits_a_session_for_a_consumer_without_commit_and_is_refused(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    topic, group = f"silent-{protocol}", f"silent-{protocol}"
    partitions = create_topic(cluster, topic, 2, records=8)
    member = batch_member_of(group, topic, startingOffsets="earliest")
    chosen: dict[str, Any] = {
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        **strategy_of(protocol),
    }
    with Consumer(cluster_of(member), group, topics=topic, **chosen) as consumer:
        while len(consumer.assignment) < 2:
            consumer.poll(100)
        question = member.next_span(EMPTY_SPAN, None)
        handover.write_report(question, "/lake/flights")
        with pytest.raises(
            AnotherSink,
            match=(
                rf"group {group}: it has members \(1: .+ at .+\) that have not reported which "
                r"sink they write to"
            ),
        ):
            while True:
                assert member.next_span(question, None) is question
                consumer.poll(0)
        assert len(consumer.assignment) == 2, "the newcomer has joined"
        consumer.commit(dict.fromkeys(consumer.assignment, 8))
    assert cluster.committed_offsets(group, partitions) == dict.fromkeys(
        partitions, OffsetAndMetadata(8, "")
    )


def test_a_newcomer_does_not_wait_for_members_that_read_other_topics_of_its_query(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    group, topics = f"sources-{protocol}", [f"left-{protocol}", f"right-{protocol}"]
    partitions = [partitions_of(cluster.create_topic(topic, 1))[0] for topic in topics]
    members = [batch_member_of(group, topic, startingOffsets="earliest") for topic in topics]
    spans = [member.next_span(EMPTY_SPAN, None) for member in members]
    for span in spans:
        handover.write_report(span, "/lake/both")
    began_s = time.monotonic()
    spans = [
        span_where(member, span, lambda span: span.ranges)
        for member, span in zip(members, spans, strict=True)
    ]
    assert [dict(span.ranges) for span in spans] == [
        {partition: (0, 0)} for partition in partitions
    ]
    assert time.monotonic() - began_s < 7, "one has waited for the other's session"


def test_a_newcomer_goes_on_when_a_member_that_has_not_said_its_sink_is_gone(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    topic, group = f"gone-{protocol}", f"gone-{protocol}"
    (partition,) = create_topic(cluster, topic, records=8)
    member = batch_member_of(group, topic, startingOffsets="earliest")
    question = member.next_span(EMPTY_SPAN, None)
    handover.write_report(question, "/lake/flights")
    with Consumer(
        cluster_of(member), group, topics=topic, group_protocol=protocol, **strategy_of(protocol)
    ) as consumer:
        while not consumer.assignment:
            consumer.poll(100)
        assert member.next_span(question, None) is question
    batch = span_where(member, question, lambda span: not span.question_number)
    assert (batch.ranges, batch.sinks) == ({partition: (0, 8)}, ("/lake/flights",))


def test_a_query_whose_table_was_moved_leaves_its_group_to_adopt_it_and_goes_on(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    _, group, partitions, member = two_of_eight(cluster, batch_member_of, f"moved-{protocol}")
    batch = begun(member, "/lake/flights")
    handover.write_report(batch, "/lake/moved", adopt=True)
    question = member.next_span(batch, None)
    assert (question.question_number, question.ranges) == (1, dict.fromkeys(partitions, (8, 8)))
    handover.write_report(question, "/lake/moved", adopt=True)
    following = span_where(member, question, lambda span: not span.question_number)
    assert (following.sinks, following.end_offsets()) == (("/lake/moved",), question.end_offsets())
    assert cluster.committed_offsets(group, partitions) == dict.fromkeys(
        partitions, OffsetAndMetadata(8, '{"sinks":["/lake/moved"],"starting":true}')
    )


def test_a_static_query_of_a_moved_table_gives_up_its_place_to_adopt_the_group(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    topic, group = f"static-{protocol}", f"static-{protocol}"
    (partition,) = create_topic(cluster, topic, records=8)
    member = batch_member_of(
        group, topic, startingOffsets="earliest", **{"kafka.group.instance.id": "one"}
    )
    batch = begun(member, "/lake/flights")
    handover.write_report(batch, "/lake/moved", adopt=True)
    question = member.next_span(batch, None)
    handover.write_report(question, "/lake/moved", adopt=True)
    following = span_where(member, question, lambda span: not span.question_number)
    assert (following.sinks, following.end_offsets()) == (("/lake/moved",), {partition: 8})


def test_a_copied_checkpoint_claims_a_new_group_only_after_its_writer_was_called(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], protocol: GroupProtocol
) -> None:
    topic, group, partitions, member = two_of_eight(cluster, batch_member_of, f"copied-{protocol}")
    batch = begun(member, "/lake/flights")
    member.close()
    renamed = f"{group}-renamed"
    copy = batch_member_of(renamed, topic, startingOffsets="earliest")
    probe = copy.next_span(batch, None)
    assert (probe.sinks, probe.question_number) == (("/lake/flights",), 1)
    # here the writer of another table refuses the span, and the query ends
    assert cluster.committed_offsets(renamed, partitions) == dict.fromkeys(
        partitions, OffsetAndMetadata(None)
    )
    following = span_where(copy, probe, lambda span: not span.question_number)
    assert following.end_offsets() == batch.end_offsets()
    assert cluster.committed_offsets(renamed, partitions) == dict.fromkeys(
        partitions, OffsetAndMetadata(8, '{"sinks":["/lake/flights"],"starting":true}')
    )
