"""A stream with assign reads its partitions without a membership; here without Spark."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from apportion.client.cluster import Cluster
from apportion.log_bounds import LogBounds
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.monitoring.source_report import LogPosition, SourceReport
from apportion.spark.options.stream import SourceOptions
from apportion.topics import TopicIdPartition, partitions_of
from tests.client import changes
from tests.spark.batch_members import produce
from tests.spark.in_process_broker import bootstrap, clients

__all__ = ["bootstrap", "clients"]


@pytest.fixture
def partitions(clients: Cluster) -> tuple[TopicIdPartition, ...]:
    """Two partitions with four records each, of a topic whose name is also the group's."""
    made = partitions_of(clients.create_topic(f"assign-{uuid4().hex[:8]}", 2))
    for partition in made:
        produce(clients, partition, 4)
    return made


@pytest.fixture
def stream(bootstrap: str) -> Iterator[Callable[..., BatchMember]]:
    """`stream(topic, number, **options)`: it reads that partition, in a group of that name."""
    begun: list[BatchMember] = []

    def begin(topic: str, number: int, **options: str) -> BatchMember:
        given = {
            "kafka.bootstrap.servers": bootstrap,
            "kafka.group.id": topic,
            "assign": f'{{"{topic}":[{number}]}}',
            "startingOffsets": "earliest",
            **options,
        }
        begun.append(BatchMember(SourceOptions.parse(given)))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


def first_batch(stream: BatchMember) -> Span:
    asking = stream.next_span(EMPTY_SPAN, None)  # the writers, of whom there are none
    return stream.next_span(asking, None)


def test_an_assigned_partition_is_read_and_committed_without_a_member(
    clients: Cluster,
    partitions: tuple[TopicIdPartition, ...],
    stream: Callable[..., BatchMember],
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = partitions
    topic = first.topic
    reading = stream(topic, 0)
    span = first_batch(reading)
    assert dict(span.ranges) == {first: (0, 4)}
    assert reading.next_span(span, None) is span
    assert reading.source_report() == SourceReport(
        topic, None, {first.topic_partition: LogPosition(4, LogBounds(0, 4))}
    )
    assert clients.committed(topic, partitions) == {first: 4, second: None}
    assert (
        f"group {topic}: option assign: the stream reads {topic}-0 without a membership; no other "
        "query takes them over, and the group only keeps the offsets"
    ) in caplog.messages
    reading.close()
    produce(clients, first, 2)
    assert dict(first_batch(stream(topic, 0)).ranges) == {first: (4, 6)}


def test_two_streams_of_one_group_share_what_they_were_assigned(
    clients: Cluster,
    partitions: tuple[TopicIdPartition, ...],
    stream: Callable[..., BatchMember],
) -> None:
    topic = partitions[0].topic
    for number in range(2):
        reading = stream(topic, number)
        reading.stop_at_present_ends()
        span = first_batch(reading)
        assert dict(span.ranges) == {partitions[number]: (0, 4)}
        assert reading.next_span(span, None) is span
    assert clients.committed(topic, partitions) == dict.fromkeys(partitions, 4)


def test_a_group_with_members_takes_no_offsets_of_an_assigned_partition(
    bootstrap: str,
    partitions: tuple[TopicIdPartition, ...],
    stream: Callable[..., BatchMember],
) -> None:
    topic = partitions[0].topic
    member = BatchMember(
        SourceOptions.parse(
            {"kafka.bootstrap.servers": bootstrap, "kafka.group.id": topic, "subscribe": topic}
        )
    )
    first_batch(member)
    with pytest.raises(MembershipFailed) as failure:
        first_batch(stream(topic, 0))
    assert str(failure.value) == (
        f"group {topic} has members, beside which a stream with assign cannot commit: give the "
        "stream a group of its own, or stop them"
    )
    member.close()


def test_an_assigned_partition_that_does_not_exist_ends_the_stream(
    partitions: tuple[TopicIdPartition, ...], stream: Callable[..., BatchMember]
) -> None:
    topic = partitions[0].topic
    with pytest.raises(MembershipFailed) as failure:
        first_batch(stream(topic, 7))
    assert str(failure.value) == (
        f"option assign names {topic}-7, which does not exist: create the "
        "partition, or correct the option"
    )


def test_a_topic_made_again_is_data_loss_of_an_assigned_partition(
    clients: Cluster,
    partitions: tuple[TopicIdPartition, ...],
    stream: Callable[..., BatchMember],
) -> None:
    topic = partitions[0].topic
    span = first_batch(stream(topic, 0))
    changes.delete_topic(clients, topic)
    clients.create_topic(topic, 2)
    with pytest.raises(RuntimeError, match=f"topic {topic} .* was deleted or created again"):
        stream(topic, 0).next_span(span, None)
