"""The reader for Spark 4.0 and 4.1, called in their order: they do not say where a batch starts."""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.spark.options.stream import SourceOptions
from apportion.spark.reading.admission_control import (
    ONE_BATCH,
    WRAPPED,
    ReaderWithoutStart,
    suited_to_spark,
)
from apportion.spark.source import GroupStreamReader
from apportion.spark.versions import UnsupportedTrigger
from apportion.topics import TopicIdPartition
from tests.spark.batch_members import SHORT_SESSIONS, create_topic, produce

Offset = dict[str, Any]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(**SHORT_SESSIONS) as running:
        yield running


class Query:
    """A run of a query, as Spark 4.0 makes it: one reader, called by one thread."""

    def __init__(self, broker: EmbeddedBroker, topic: str, **options: str) -> None:
        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.group.id": f"{topic}-group",
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
        }
        self.reader = ReaderWithoutStart(GroupStreamReader(SourceOptions.parse(given)))
        # not the main thread, where the reader would take SIGTERM from pytest
        self._thread = ThreadPoolExecutor(1)

    def latest(self) -> Offset:
        return self._thread.submit(self.reader.latestOffset).result()

    def records(self, start: Offset, end: Offset) -> int:
        """How many records the batch from `start` to `end` has."""
        tasks = self._thread.submit(self.reader.partitions, start, end).result()
        return sum(rows.num_rows for task in tasks for rows in self.reader.read(task))

    def next_batch(self, last: Offset) -> Offset:
        """The offset after `last`, which a query gets again while it waits for its assignment."""
        deadline = time.monotonic() + 60
        while (latest := self.latest()) == last:
            assert time.monotonic() < deadline, last
        return latest

    def stop(self) -> None:
        self._thread.submit(self.reader.stop).result()

    def close(self) -> None:
        self._thread.shutdown()


@pytest.fixture
def run(broker: EmbeddedBroker) -> Iterator[Callable[..., Query]]:
    """`run(topic, **options)`: a run of a query; it is stopped at the end of the test."""
    queries: list[Query] = []

    def make(topic: str, **options: str) -> Query:
        queries.append(Query(broker, topic, **options))
        return queries[-1]

    yield make
    for query in queries:
        query.stop()
        query.close()


@pytest.fixture
def partition(cluster: Cluster) -> TopicIdPartition:
    """The one partition of a topic of the test's own, with ten records."""
    (made,) = create_topic(cluster, f"topic-{next(_numbers)}", records=10)
    return made


def committed(cluster: Cluster, partition: TopicIdPartition) -> int | None:
    return cluster.committed(f"{partition.topic}-group", (partition,))[partition]


def first_batch(query: Query) -> Offset:
    """The first batch with records of a new checkpoint; the one before asks the query's writers."""
    question = query.latest()
    assert query.records(query.reader.initialOffset(), question) == 0
    batch = query.latest()
    assert query.records(question, batch) == 10
    return batch


def test_every_batch_goes_on_where_the_last_one_ended(
    cluster: Cluster, run: Callable[..., Query], partition: TopicIdPartition
) -> None:
    query = run(partition.topic)
    first = first_batch(query)
    produce(cluster, partition, 3)
    second = query.latest()
    assert (query.records(first, second), committed(cluster, partition)) == (3, 10)
    # the same offset again, so that Spark starts no batch
    assert (query.latest(), committed(cluster, partition)) == (second, 13)


def test_a_restart_goes_on_at_the_offset_that_spark_shows_first(
    cluster: Cluster, run: Callable[..., Query], partition: TopicIdPartition
) -> None:
    query = run(partition.topic)
    first = first_batch(query)
    query.stop()
    produce(cluster, partition, 3)
    again = run(partition.topic)
    assert again.records(first, first) == 0
    second = again.next_batch(first)
    assert (again.records(first, second), committed(cluster, partition)) == (3, 10)


def test_a_batch_that_was_not_committed_is_replayed_and_then_followed(
    cluster: Cluster, run: Callable[..., Query], partition: TopicIdPartition
) -> None:
    query = run(partition.topic)
    question = query.latest()
    batch = query.latest()
    query.stop()
    produce(cluster, partition, 3)
    again = run(partition.topic)
    assert again.records(batch, batch) == 0
    assert again.records(question, batch) == 10
    assert again.records(batch, again.next_batch(batch)) == 3


def test_an_older_batch_that_is_read_late_does_not_set_the_query_back(
    cluster: Cluster, run: Callable[..., Query], partition: TopicIdPartition
) -> None:
    query = run(partition.topic)
    first = first_batch(query)
    produce(cluster, partition, 3)
    second = query.latest()
    assert query.records(query.reader.initialOffset(), first) == 10
    assert (query.latest(), committed(cluster, partition)) == (second, 13)


def test_a_batch_has_no_more_records_than_the_option_allows(
    run: Callable[..., Query], partition: TopicIdPartition
) -> None:
    query = run(partition.topic, maxOffsetsPerTrigger="4")
    offsets = [query.latest() for _ in range(4)]
    batches = itertools.pairwise(offsets)
    assert [run(partition.topic).records(*batch) for batch in batches] == [4, 4, 2]


def test_an_offset_that_is_shown_too_late_is_refused(
    run: Callable[..., Query], partition: TopicIdPartition
) -> None:
    query = run(partition.topic)
    batch = first_batch(query)
    wrapped = run(partition.topic)
    wrapped.latest()
    with pytest.raises(UnsupportedTrigger) as refusal:
        wrapped.records(batch, batch)
    assert str(refusal.value) == WRAPPED


@pytest.mark.parametrize(("batches", "warnings"), [(1, [ONE_BATCH]), (2, [])])
def test_a_query_that_ends_with_its_first_batch_warns_that_it_may_have_left_records(
    run: Callable[..., Query],
    partition: TopicIdPartition,
    caplog: pytest.LogCaptureFixture,
    batches: int,
    warnings: list[str],
) -> None:
    query = run(partition.topic)
    for _ in range(batches):
        query.latest()
    caplog.clear()
    query.reader.stop()
    assert [record.message for record in caplog.records] == warnings


def test_spark_4_2_and_later_get_the_reader_itself(broker: EmbeddedBroker) -> None:
    options = {"kafka.bootstrap.servers": "h:1", "kafka.group.id": "g", "subscribe": "t"}
    reader = GroupStreamReader(SourceOptions.parse(options))
    assert suited_to_spark(reader) is reader
