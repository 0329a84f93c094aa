"""Where reads begin and end, on a broker and without Spark; tests/kafka plays the same on Kafka."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.types import StructType

from apportion.client.cluster import Cluster
from apportion.member.batch.bounded_read import ReadRefused
from apportion.member.batch.offset_times import NoRecordAtTime
from apportion.member.batch.span import EMPTY_SPAN
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.options.stream import SourceOptions
from apportion.spark.reading.batch_reader import BatchReader
from apportion.spark.source import GroupSource
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes
from tests.spark.in_process_broker import bootstrap, clients

__all__ = ["bootstrap", "clients"]

Rows = list[tuple[str, int, int]]


@pytest.fixture
def timed(clients: Cluster) -> tuple[TopicIdPartition, ...]:
    """A topic whose two partitions have six and three records, of 1, 2, 3... seconds after 1970."""
    partitions = partitions_of(clients.create_topic(f"reads-{uuid4().hex[:8]}", 2))
    for partition, count in zip(partitions, (6, 3), strict=True):
        for second in range(1, count + 1):
            batch = encode_batch([(None, b"x", ())], timestamp_ms=second * 1_000)
            clients.produce(partition, batch)
    return partitions


@pytest.fixture
def member(bootstrap: str) -> Iterator[Callable[..., BatchMember]]:
    """`member(group, topic, **options)`: a batch member that reads up to the present ends."""
    members: list[BatchMember] = []

    def begin(group: str, topic: str, **options: str) -> BatchMember:
        given = {"kafka.bootstrap.servers": bootstrap, "kafka.group.id": group, **options}
        if "subscribePattern" not in options:
            given["subscribe"] = topic
        members.append(BatchMember(SourceOptions.parse(given)))
        members[-1].stop_at_present_ends()
        return members[-1]

    yield begin
    for each in members:
        each.close()


def reader(bootstrap: str, **options: str) -> BatchReader:
    source = GroupSource(options={"kafka.bootstrap.servers": bootstrap, **options})
    return source.reader(StructType())


def read(bootstrap: str, **options: str) -> Rows:
    """Topic, partition and offset of each row of a batch read."""
    made = reader(bootstrap, **options)
    return sorted(
        (row["topic"], row["partition"], row["offset"])
        for task in made.partitions()
        for batch in made.read(task)
        for row in batch.to_pylist()
    )


def rows(partition: TopicIdPartition, start: int, end: int) -> Rows:
    return [(partition.topic, partition.partition, offset) for offset in range(start, end)]


def test_a_batch_read_has_all_records_or_those_of_its_offsets(
    bootstrap: str, timed: tuple[TopicIdPartition, ...]
) -> None:
    first, second = timed
    topic = first.topic
    assert read(bootstrap, subscribe=topic) == rows(first, 0, 6) + rows(second, 0, 3)
    start, end = f'{{"{topic}":{{"0":2,"1":-2}}}}', f'{{"{topic}":{{"0":4,"1":-1}}}}'
    bounded = read(bootstrap, subscribe=topic, startingOffsets=start, endingOffsets=end)
    assert bounded == rows(first, 2, 4) + rows(second, 0, 3)


def test_a_batch_read_of_times_begins_and_ends_at_the_first_record_of_each(
    bootstrap: str, timed: tuple[TopicIdPartition, ...]
) -> None:
    first, second = timed
    times = {"startingTimestamp": "1500", "endingTimestamp": "4000"}
    assert read(bootstrap, subscribe=first.topic, **times) == rows(first, 1, 3) + rows(second, 1, 3)
    late: dict[str, Any] = {"subscribe": first.topic, "startingTimestamp": "4000"}
    with pytest.raises(NoRecordAtTime, match=r"-1 has no record at or after 4000 ms"):
        read(bootstrap, **late)
    late["startingOffsetsByTimestampStrategy"] = "latest"
    assert read(bootstrap, **late) == rows(first, 3, 6)


def test_the_range_of_a_group_is_read_without_a_trace_in_it(
    bootstrap: str, clients: Cluster, timed: tuple[TopicIdPartition, ...]
) -> None:
    first, second = timed
    changes.commit(clients, first.topic, {first: 5})
    begin = {"kafka.group.id": first.topic, "startingOffsets": "committed"}
    assert read(bootstrap, subscribe=first.topic, **begin) == rows(first, 5, 6) + rows(second, 0, 3)
    assert clients.committed(first.topic, timed) == {first: 5, second: None}


def test_a_batch_read_finds_topics_by_a_pattern_and_partitions_by_assign(
    bootstrap: str, timed: tuple[TopicIdPartition, ...]
) -> None:
    first, second = timed
    both = rows(first, 0, 6) + rows(second, 0, 3)
    assert read(bootstrap, subscribePattern=f"x|{first.topic}") == both
    with pytest.raises(ReadRefused, match=r"there is no topic that matches reads-, and a batch"):
        read(bootstrap, subscribePattern="reads-")
    assert read(bootstrap, assign=f'{{"{first.topic}":[1]}}') == rows(second, 0, 3)


def test_a_batch_read_of_nothing_is_one_task_without_rows(bootstrap: str, clients: Cluster) -> None:
    topic = f"reads-{uuid4().hex[:8]}"
    clients.create_topic(topic, 2)
    made = reader(bootstrap, subscribe=topic)
    (task,) = made.partitions()  # for none, Spark makes a task that is none of ours
    assert list(made.read(task)) == []


def test_tasks_of_at_most_so_many_offsets_read_the_same(
    bootstrap: str, timed: tuple[TopicIdPartition, ...]
) -> None:
    first, second = timed
    options = {"subscribe": first.topic, "maxRecordsPerPartition": "2"}
    assert len(reader(bootstrap, **options).partitions()) == 5
    assert read(bootstrap, **options) == rows(first, 0, 6) + rows(second, 0, 3)


def test_a_stream_begins_at_a_time_where_its_group_has_no_offset(
    clients: Cluster,
    member: Callable[..., BatchMember],
    timed: tuple[TopicIdPartition, ...],
) -> None:
    first, second = timed
    changes.commit(clients, first.topic, {second: 0})
    begun = member(first.topic, first.topic, startingTimestamp="2500")
    asking = begun.next_span(EMPTY_SPAN, None)  # the writers, of whom there are none
    span = begun.next_span(asking, None)
    assert dict(span.ranges) == {first: (2, 6), second: (0, 3)}
    assert clients.committed(first.topic, timed) == {first: 2, second: 0}


def test_a_stream_of_a_pattern_reads_what_is_there_before_it_ends(
    member: Callable[..., BatchMember], timed: tuple[TopicIdPartition, ...]
) -> None:
    first, second = timed
    begun = member(first.topic, "", subscribePattern=f"{first.topic}|y", startingOffsets="earliest")
    asking = begun.next_span(EMPTY_SPAN, None)
    span = begun.next_span(asking, None)
    assert dict(span.ranges) == {first: (0, 6), second: (0, 3)}
    assert begun.next_span(span, None) is span
