"""Where a group is in the logs of its partitions, and its lag."""

from collections.abc import Iterator

import pytest

from apportion.client.cluster import Cluster
from apportion.client.group_positions import (
    GroupPosition,
    all_group_positions,
    group_positions,
)
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import Topic, TopicPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes


@pytest.mark.parametrize(
    ("position", "lag", "unread"),
    [
        (GroupPosition(3, 10), 7, 7),
        (GroupPosition(10, 10), 0, 0),
        # A log that was truncated may end below the committed offset.
        (GroupPosition(12, 10), 0, 0),
        (GroupPosition(None, 0), None, 0),
        (GroupPosition(None, 10), None, None),
    ],
)
def test_only_a_committed_offset_has_a_lag_and_an_empty_log_has_nothing_unread(
    position: GroupPosition, lag: int | None, unread: int | None
) -> None:
    assert (position.lag, position.unread) == (lag, unread)


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
        requested[0]: GroupPosition(1, 2, metadata="of the commit"),
        requested[1]: GroupPosition(None, 2),
    }


def test_all_positions_are_those_with_a_commit_and_the_owned_ones(
    cluster: Cluster, topic: Topic
) -> None:
    first, second = (partition.topic_partition for partition in partitions_of(topic))
    assert all_group_positions(cluster, "g", [TopicPartition("no-such-topic", 0), second]) == {
        first: GroupPosition(1, 2, metadata="of the commit"),
        second: GroupPosition(None, 2),
    }
    assert [*all_group_positions(cluster, "g")] == [first]
    assert all_group_positions(cluster, "no-such-group") == {}


def test_partitions_that_do_not_exist_are_left_out(cluster: Cluster, topic: Topic) -> None:
    beyond, missing = TopicPartition(topic.name, 2), TopicPartition("no-such-topic", 0)
    first = TopicPartition(topic.name, 0)
    assert [*group_positions(cluster, "g", [beyond, first, missing])] == [first]
    assert group_positions(cluster, "g", [beyond, missing]) == {}
