"""A batch cut into tasks, and what a task reads, without Spark."""

import pickle
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from apportion.client.cluster import Cluster
from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.span import sorted_span
from apportion.server.embedded import EmbeddedBroker
from apportion.spark.options.batch_read import BatchOptions
from apportion.spark.options.stream import SourceOptions
from apportion.spark.options.task_limits import MOST_TASKS, TaskLimits
from apportion.spark.options.values import OptionError
from apportion.spark.reading.batch_reader import BatchReader
from apportion.spark.reading.slices import (
    OFFSETS_A_TASK,
    PartitionSlice,
    ReadingOptions,
    TaskSlices,
    divide,
    read_task,
    split_into_tasks,
)
from apportion.spark.source import GroupStreamReader
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes
from tests.spark.error_page import assert_on_page

PLACES = [TopicIdPartition("t", b"i" * 16, number) for number in range(6)]
ranges = st.dictionaries(
    st.sampled_from(PLACES),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).map(
        lambda ends: (min(ends), max(ends))
    ),
)


@given(ranges, st.integers(1, 8))
def test_the_tasks_read_exactly_the_span_and_are_at_least_as_many_as_the_cores(
    bounds: dict[TopicIdPartition, tuple[int, int]], cores: int
) -> None:
    batch = sorted_span("c", bounds)
    tasks = split_into_tasks(batch, cores=cores)
    wanted = [
        PartitionSlice(partition, *ends)
        for partition, ends in batch.ranges.items()
        if ends[1] > ends[0]
    ]
    assert sorted(part for task in tasks for part in task.slices) == wanted
    much = -(-sum(part.end - part.start for part in wanted) // OFFSETS_A_TASK)
    assert len(tasks) == min(len(wanted), max(cores, much))
    assert all(task.slices for task in tasks)


def test_each_range_from_the_largest_on_goes_to_the_task_with_the_fewest_records() -> None:
    ends = ((1, 101), (50, 110), (50, 100), (1, 11))
    whole = [PartitionSlice(place, *each) for place, each in zip(PLACES, ends, strict=False)]
    span = sorted_span("c", {part.partition: (part.start, part.end) for part in whole})
    tasks = [task.slices for task in split_into_tasks(span, cores=2)]
    assert tasks == [(whole[0], whole[3]), (whole[1], whole[2])]


limits = st.builds(
    TaskLimits, st.none() | st.integers(1, 40), st.none() | st.integers(10**5, 10**6)
)


@given(ranges, limits, st.integers(1, 8))
def test_divided_ranges_are_the_span_within_the_limits(
    bounds: dict[TopicIdPartition, tuple[int, int]], limits: TaskLimits, cores: int
) -> None:
    batch = sorted_span("c", bounds)
    tasks = split_into_tasks(batch, limits, cores)
    parts = sorted(part for task in tasks for part in task.slices)
    assert all(part.size > 0 for part in parts)
    joined: dict[TopicIdPartition, tuple[int, int]] = {}
    for part in parts:
        start, end = joined.get(part.partition, (part.start, part.start))
        assert end == part.start
        joined[part.partition] = start, part.end
    assert joined == {each: ends for each, ends in batch.ranges.items() if ends[1] > ends[0]}
    total = sum(part.size for part in parts)
    assert len(tasks) >= min(total, limits.least_tasks or 0)
    if limits.most_offsets is not None:
        assert all(sum(part.size for part in task.slices) <= limits.most_offsets for task in tasks)


def sizes(*records: int, **limits: int) -> list[int]:
    """The sizes of the parts of ranges of so many offsets."""
    whole = [
        PartitionSlice(place, 5, 5 + size) for place, size in zip(PLACES, records, strict=False)
    ]
    return [part.size for part in divide(whole, TaskLimits(**limits))]


def test_the_largest_ranges_are_divided_until_there_are_enough_tasks() -> None:
    assert sizes(90, 10, least_tasks=4) == [30, 30, 30, 10]
    assert sizes(90, 10, least_tasks=2) == [90, 10]
    assert sizes(2, 1, least_tasks=9) == [1, 1, 1]


def test_ranges_above_the_limit_are_divided_equally() -> None:
    assert sizes(90, 10, most_offsets=40) == [30, 30, 30, 10]
    assert sizes(90, 10, most_offsets=40, least_tasks=5) == [22, 23, 22, 23, 10]


def test_as_many_tasks_are_made_as_there_may_be() -> None:
    span = sorted_span("c", {PLACES[0]: (0, 10**9)})
    # A search through all tasks for each of them would take hours.
    tasks = split_into_tasks(span, TaskLimits(least_tasks=MOST_TASKS))
    assert len(tasks) == MOST_TASKS
    assert {part.size for task in tasks for part in task.slices} == {10**9 // MOST_TASKS}


def test_a_limit_that_makes_too_many_tasks_is_refused_before_they_are_made() -> None:
    span = sorted_span("c", {PLACES[0]: (5, 5 + 10**18), PLACES[1]: (0, 7)})
    with pytest.raises(OptionError) as refused:
        split_into_tasks(span, TaskLimits(most_offsets=10**6))
    assert str(refused.value) == (
        "option maxRecordsPerPartition is 1000000, which makes 1000000000001 tasks of this read, "
        "and 100000 are the most: raise it, or read less at once (maxOffsetsPerTrigger for the "
        "next batches of a stream, a later beginning or an earlier end in a batch read)."
    )


def options(bootstrap: str, **more: str) -> ReadingOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "kafka.group.id": "g", "subscribe": "t", **more}
    return ReadingOptions.of(SourceOptions.parse(given))


def offsets(batches: Iterable[Any]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], EmbeddedBroker]]:
    """Starts the broker, each time on the same port and directory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listeners = f"127.0.0.1:{free.getsockname()[1]}"
    running: list[EmbeddedBroker] = []

    def begin() -> EmbeddedBroker:
        running.append(EmbeddedBroker(tmp_path, listeners=listeners))
        return running[-1]

    yield begin
    for broker in running:
        broker.close()


def filled(broker: EmbeddedBroker, count: int) -> tuple[Cluster, TopicIdPartition]:
    """A topic t with so many records in its one partition."""
    cluster = Cluster(broker.bootstrap)
    (partition,) = partitions_of(cluster.create_topic("t", 1))
    cluster.produce(partition, encode_batch([(None, b"x", ())] * count, timestamp_ms=1))
    return cluster, partition


def test_a_task_waits_for_a_broker_that_is_away_longer_than_a_request(
    start: Callable[[], EmbeddedBroker],
) -> None:
    broker = start()
    cluster, partition = filled(broker, 5)
    cluster.close()
    broker.close()
    seen: list[int] = []
    task = TaskSlices((PartitionSlice(partition, 1, 4),))
    impatient = options(broker.bootstrap, **{"kafka.request.timeout.ms": "100"})
    reader = threading.Thread(target=lambda: seen.extend(offsets(read_task(task, impatient))))
    reader.start()
    reader.join(0.5)  # so long nobody is there
    assert reader.is_alive()
    start()
    reader.join(60)
    assert seen == [1, 2, 3]


def test_a_task_whose_topic_is_gone_says_which_offsets_or_reads_what_is_left(
    start: Callable[[], EmbeddedBroker],
) -> None:
    broker = start()
    cluster, partition = filled(broker, 5)
    changes.delete_topic(cluster, "t")
    cluster.close()
    task = TaskSlices((PartitionSlice(partition, 1, 4),))
    with pytest.raises(DataLoss, match=r"this batch reads t-0 from 1 to 4\.") as refused:
        list(read_task(task, options(broker.bootstrap)))
    assert_on_page("a topic deleted while a batch reads it", refused.value)
    assert list(read_task(task, options(broker.bootstrap, failOnDataLoss="false"))) == []


GIVEN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
READERS = {
    "stream": GroupStreamReader(SourceOptions.parse(GIVEN | {"kafka.group.id": "g"})),
    "batch read": BatchReader(BatchOptions.parse(GIVEN)),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_readers_refuse_what_is_none_of_their_tasks_in_an_executor_too(
    reader: DataSourceStreamReader | DataSourceReader,
) -> None:
    for each in reader, pickle.loads(pickle.dumps(reader)):
        assert list(each.read(TaskSlices(()))) == []
        with pytest.raises(AssertionError):
            each.read(InputPartition(None))
