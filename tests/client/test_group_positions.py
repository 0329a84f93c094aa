"""Where a group is in the logs of its partitions, and its lag."""

from collections.abc import Iterator

import pytest

from apportion.client.cluster import Cluster
from apportion.client.group_positions import (
    GroupPosition,
    all_group_positions,
    group_positions,
    positions_in,
    read_logs,
)
from apportion.log_bounds import LogBounds, OutOfRange
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import Topic, TopicPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes

BEFORE, AFTER = OutOfRange.BEFORE_START, OutOfRange.AFTER_END


@pytest.mark.parametrize(
    ("committed", "log", "out_of_range", "lag", "unread"),
    [
        (3, LogBounds(0, 10), None, 7, 7),
        (10, LogBounds(0, 10), None, 0, 0),
        # Of a reader of uncommitted records, beyond the last stable offset.
        (12, LogBounds(0, 10, high_watermark=12), None, 0, 0),
        (13, LogBounds(0, 10, high_watermark=12), AFTER, None, None),
        (12, LogBounds(0, 10), AFTER, None, None),
        # From another broker, which does not know of the last records yet.
        (10, LogBounds(0, 10, high_watermark=9), None, 0, 0),
        (2, LogBounds(10, 10), BEFORE, None, None),
        (50, LogBounds(0, 0), AFTER, None, None),
        (None, LogBounds(0, 0), None, None, 0),
        (None, LogBounds(10, 10), None, None, 0),
        (None, LogBounds(0, 10), None, None, None),
    ],
)
def test_an_offset_in_its_log_has_a_lag_and_an_empty_log_has_nothing_unread(
    committed: int | None,
    log: LogBounds,
    out_of_range: OutOfRange | None,
    lag: int | None,
    unread: int | None,
) -> None:
    found = log.out_of_range(committed), log.lag(committed), log.unread(committed)
    assert found == (out_of_range, lag, unread)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        yield cluster
        cluster.close()


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> Topic:
    """A topic of two partitions with two records each, of which the group g has read one."""
    topic = cluster.create_topic("t", 2)
    records: list[tuple[None, bytes, tuple[()]]] = [(None, b"a", ()), (None, b"b", ())]
    for partition in partitions_of(topic):
        cluster.produce(partition, encode_batch(records, timestamp_ms=1))
    changes.commit(cluster, "g", {partitions_of(topic)[0]: 1}, metadata="of the commit")
    return topic


def test_each_partition_has_its_committed_offset_and_its_end(
    cluster: Cluster, topic: Topic
) -> None:
    requested = [partition.topic_partition for partition in partitions_of(topic)]
    assert group_positions(cluster, "g", requested) == {
        requested[0]: GroupPosition(1, LogBounds(0, 2), metadata="of the commit"),
        requested[1]: GroupPosition(None, LogBounds(0, 2)),
    }


def test_all_positions_are_those_with_a_commit_and_the_owned_ones(
    cluster: Cluster, topic: Topic
) -> None:
    first, second = (partition.topic_partition for partition in partitions_of(topic))
    assert all_group_positions(cluster, "g", [TopicPartition("no-such-topic", 0), second]) == {
        first: GroupPosition(1, LogBounds(0, 2), metadata="of the commit"),
        second: GroupPosition(None, LogBounds(0, 2)),
    }
    assert [*all_group_positions(cluster, "g")] == [first]
    assert all_group_positions(cluster, "no-such-group") == {}


def test_partitions_that_do_not_exist_are_left_out(cluster: Cluster, topic: Topic) -> None:
    beyond, missing = TopicPartition(topic.name, 2), TopicPartition("no-such-topic", 0)
    first = TopicPartition(topic.name, 0)
    assert [*group_positions(cluster, "g", [beyond, first, missing])] == [first]
    assert group_positions(cluster, "g", [beyond, missing]) == {}


def test_an_offset_outside_of_its_log_is_out_of_range_and_has_no_lag(cluster: Cluster) -> None:
    low, high = partitions_of(cluster.create_topic("lost", 2))
    records: list[tuple[None, bytes, tuple[()]]] = [(None, b"a", ())] * 10
    for partition in (low, high):
        cluster.produce(partition, encode_batch(records, timestamp_ms=1))
    changes.commit(cluster, "lost", {low: 2, high: 50})
    changes.delete_records(cluster, low, 7)
    assert all_group_positions(cluster, "lost") == {
        low.topic_partition: GroupPosition(2, LogBounds(7, 10, high_watermark=10)),
        high.topic_partition: GroupPosition(50, LogBounds(0, 10, high_watermark=10)),
    }


def test_an_offset_that_moves_on_between_two_looks_is_not_out_of_range(cluster: Cluster) -> None:
    (partition,) = partitions_of(cluster.create_topic("moves", 1))
    records: list[tuple[None, bytes, tuple[()]]] = [(None, b"a", ())] * 10
    cluster.produce(partition, encode_batch(records, timestamp_ms=1))
    changes.delete_records(cluster, partition, 7)
    name = partition.topic_partition
    before, after = {name: OffsetAndMetadata(2)}, {name: OffsetAndMetadata(8)}
    logs = read_logs(cluster, [name])
    assert positions_in(cluster, logs, before, lambda: after) == {
        name: GroupPosition(8, LogBounds(7, 10, high_watermark=10))
    }
