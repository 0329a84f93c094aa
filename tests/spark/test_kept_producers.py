"""Which producers and look-ups one write leaves for the next: on a broker, without Spark."""

import gc

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.topic_sink.producer import (
    PRODUCERS,
    PRODUCERS_OF_A_WORKER,
    TopicProducer,
)
from apportion.spark.topic_sink.records import NotWritten, record_columns
from apportion.spark.topic_sink.writable_topics import (
    PLANNED_TOPICS,
    QUERIES_OF_A_PLANNER,
    WritableTopics,
)
from apportion.spark.topic_sink.writer import TopicWriter
from tests.spark.test_topic_producer import broker, cluster, record

__all__ = ["broker", "cluster"]


def worker_options(broker: EmbeddedBroker, **options: str) -> TopicWriterOptions:
    return TopicWriterOptions.parse({"kafka.bootstrap.servers": broker.bootstrap, **options})


def worker_producer(options: TopicWriterOptions) -> TopicProducer:
    """The producer that a task with these options has used."""
    with PRODUCERS.using(options) as producer:
        return producer


def planner_topics(options: TopicWriterOptions) -> WritableTopics:
    """The look-ups that a plan with these options has used."""
    with PLANNED_TOPICS.using(options) as topics:
        return topics


def test_the_tasks_of_a_worker_share_a_producer(broker: EmbeddedBroker) -> None:
    options, other = worker_options(broker), worker_options(broker, **{"kafka.linger.ms": "1"})
    first = worker_producer(options)
    assert worker_producer(worker_options(broker)) is first
    assert worker_producer(other) is not first
    PRODUCERS.discard(options)
    assert worker_producer(options) is not first
    for each in (options, other):
        PRODUCERS.discard(each)


def test_after_a_failure_the_other_queries_of_a_worker_keep_their_producers(
    broker: EmbeddedBroker, cluster: Cluster
) -> None:
    cluster.create_topic("kept", 1)
    options, other = worker_options(broker), worker_options(broker, **{"kafka.linger.ms": "1"})
    failing, kept = worker_producer(options), worker_producer(other)
    kept.write([record("kept")])
    fields = StructType().add("value", "binary").add("topic", "string")
    rows = pa.RecordBatch.from_pydict({"value": [b"v"] * 2, "topic": ["kept", "no-such-topic"]})
    with pytest.raises(NotWritten):
        TopicWriter(options, record_columns(fields, None)).write(iter([rows]))
    assert worker_producer(other) is kept
    assert worker_producer(options) is not failing
    del failing
    gc.collect()  # what has a connection still would warn, and so fail this test
    for each in (options, other):
        PRODUCERS.discard(each)


def test_a_worker_keeps_the_producers_that_it_used_last(
    broker: EmbeddedBroker, cluster: Cluster
) -> None:
    cluster.create_topic("used", 1)
    queries = [
        worker_options(broker, **{"kafka.linger.ms": str(number)})
        for number in range(PRODUCERS_OF_A_WORKER + 1)
    ]
    first, second, *others = (worker_producer(options) for options in queries[:-1])
    second.write([record("used")])
    worker_producer(queries[0])
    worker_producer(queries[-1])
    assert [worker_producer(options) for options in (queries[0], *queries[2:-1])] == [
        first,
        *others,
    ]
    assert worker_producer(queries[1]) is not second
    del second
    gc.collect()  # what has a connection still would warn, and so fail this test
    for each in queries:
        PRODUCERS.discard(each)


def test_a_planner_closes_the_connections_of_the_query_that_it_used_least_recently(
    broker: EmbeddedBroker, cluster: Cluster
) -> None:
    cluster.create_topic("looked-up", 1)
    queries = [
        worker_options(broker, **{"kafka.linger.ms": str(number)})
        for number in range(QUERIES_OF_A_PLANNER + 1)
    ]
    first, second, *others = (planner_topics(options) for options in queries[:-1])
    second.require("looked-up")
    planner_topics(queries[0])
    planner_topics(queries[-1])
    kept = [planner_topics(options) for options in (queries[0], *queries[2:-1])]
    assert kept == [first, *others]
    assert planner_topics(queries[1]) is not second
    del second
    gc.collect()  # what has a connection still would warn, and so fail this test
    for each in queries:
        PLANNED_TOPICS.discard(each)
