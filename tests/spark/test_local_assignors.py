"""Batch members that compute their group's target themselves, without Spark."""

import time
from collections.abc import Callable, Iterator

import pytest

from apportion.client.cluster import Cluster
from apportion.member.batch.span import EMPTY_SPAN
from apportion.server.embedded import EmbeddedBroker
from apportion.spark.membership.batch_member import BatchMember
from apportion.topics import partitions_of
from tests.spark.batch_members import SHORT_SESSIONS, GroupProtocol, produce


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(**SHORT_SESSIONS) as running:
        yield running


@pytest.fixture(scope="module")
def protocol() -> GroupProtocol:
    return "consumer"


def test_queries_share_a_skewed_topic_by_lag(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember]
) -> None:
    partitions = partitions_of(cluster.create_topic("skewed", 4))
    for partition, count in zip(partitions, (9_000, 3_000, 3_000, 3_000), strict=True):
        produce(cluster, partition, count)
    options = {"kafka.group.local.assignors": "lag-weighted", "startingOffsets": "earliest"}
    members = [batch_member_of("by-lag", "skewed", **options) for _ in range(2)]
    spans = [EMPTY_SPAN, EMPTY_SPAN]
    deadline = time.monotonic() + 60
    while sorted(sorted(each.partition for each in span.ranges) for span in spans) != [
        [0],
        [1, 2, 3],
    ]:
        assert time.monotonic() < deadline, spans
        # Few records in a batch, so that the lag stays about what it was.
        spans = [member.next_span(span, 4) for member, span in zip(members, spans, strict=True)]
