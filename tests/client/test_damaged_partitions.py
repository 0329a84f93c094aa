"""Fetches of which some partitions have errors, through a proxy that writes them in."""

import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import free_ports
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.fields import replaced
from apportion.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from apportion.wire.table import api_of, decode_response, encode_response
from tests.kafka.golden.proxy import Asked, RecordingProxy

BATCH = encode_batch([(None, b"v", ())], timestamp_ms=0)


class DamagingProxy(RecordingProxy):
    """A proxy that gives the partitions in `codes` these errors in the responses to Fetch.

    codes: by partition number. code: the error of whole responses. fetches: how many have passed.
    """

    def __init__(self, upstream_port: int, port: int) -> None:
        super().__init__(upstream_port, port)
        self.codes: dict[int, Code] = {}
        self.code = Code.NONE
        self.fetches = 0

    def passed_on(self, asked: Asked, response: bytes) -> bytes:
        """Put the errors into a response to Fetch."""
        key, version = struct.unpack_from(">hh", asked.frame)
        if key != api_of(FetchRequest).key:
            return response
        self.fetches += 1
        correlation_id, body = decode_response(FetchRequest, version, response)
        damaged = self._damaged(body)
        return b"".join(encode_response(api_of(FetchRequest), version, correlation_id, damaged))[4:]

    def _damaged(self, body: FetchResponse) -> FetchResponse:
        if self.code is not Code.NONE:
            return FetchResponse(error_code=self.code)
        topics = tuple(
            replaced(topic, partitions=tuple(map(self._damaged_part, topic.partitions)))
            for topic in body.responses
        )
        return replaced(body, responses=topics)

    def _damaged_part(self, data: PartitionData) -> PartitionData:
        code = self.codes.get(data.partition_index)
        return data if code is None else replaced(data, error_code=code, records=b"")


@pytest.fixture
def proxy() -> Iterator[DamagingProxy]:
    """A proxy before a broker that has a topic `t` of two partitions with a record each."""
    front, back = free_ports(2)
    listeners: dict[str, Any] = {
        "listeners": f"PLAINTEXT://127.0.0.1:{back}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{front}",
    }
    with EmbeddedBroker(**listeners):
        made = DamagingProxy(back, front)
        made.start()
        with closing(cluster_behind(made)) as cluster:
            for partition in partitions_of(cluster.create_topic("t", 2)):
                cluster.produce(partition, BATCH)
        yield made


@pytest.fixture
def cluster(proxy: DamagingProxy) -> Iterator[Cluster]:
    with closing(cluster_behind(proxy)) as made:
        yield made


def cluster_behind(proxy: DamagingProxy) -> Cluster:
    return Cluster(f"127.0.0.1:{proxy.port}", timeout_ms=5_000)


def both(cluster: Cluster) -> tuple[TopicIdPartition, ...]:
    (topic,) = cluster.topics(["t"])
    return partitions_of(topic)


def test_a_damaged_partition_is_logged_once_and_the_others_are_read(
    proxy: DamagingProxy, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def messages() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "apportion.consumer"]

    proxy.codes = {0: Code.CORRUPT_MESSAGE}
    with apportion.Consumer(
        cluster.bootstrap_servers, "g", topics="t", auto_offset_reset="earliest"
    ) as consumer:
        seen = []
        for offset in range(5):
            while (1, offset) not in seen:
                seen += [(record.partition, record.offset) for record in consumer.poll(20_000)]
            cluster.produce(both(cluster)[1], BATCH)
        assert seen == [(1, offset) for offset in range(5)]
        (began,) = messages()
        assert began == (
            "group g: cannot fetch t-0 now, and tries again until it can: "
            f"CORRUPT_MESSAGE: Fetch of t-0: {Code.CORRUPT_MESSAGE.sentence}"
        )
        proxy.codes = {}
        while (0, 0) not in seen:
            seen += [(record.partition, record.offset) for record in consumer.poll(20_000)]
        assert messages() == [began, "group g: t-0 is fetched again"]


def test_a_partition_that_may_not_be_read_is_raised_and_the_others_are_read(
    proxy: DamagingProxy, cluster: Cluster
) -> None:
    proxy.codes = {0: Code.TOPIC_AUTHORIZATION_FAILED}
    with apportion.Consumer(
        cluster.bootstrap_servers, "g", topics="t", auto_offset_reset="earliest"
    ) as consumer:
        with pytest.raises(Refused, match=r"TOPIC_AUTHORIZATION_FAILED: Fetch of t-0"):
            while True:
                assert consumer.poll(20_000) == []
        assert [record.partition for record in consumer.poll(20_000)] == [1]


def test_the_error_of_a_whole_response_is_that_of_each_partition_in_it(
    proxy: DamagingProxy, cluster: Cluster
) -> None:
    code = proxy.code = Code.FETCH_SESSION_ID_NOT_FOUND
    positions = dict.fromkeys(both(cluster), 0)
    why = f"fetch from broker 1: {code.sentence}"
    assert cluster.fetch(positions, max_wait_ms=0) == dict.fromkeys(
        positions, PartitionFetch((), 0, code, why)
    )


def test_a_leader_that_is_refused_is_the_error_of_its_partition(cluster: Cluster) -> None:
    first, second = both(cluster)
    absent = first._replace(partition=7)
    fetched = cluster.fetch({absent: 3, second: 0}, max_wait_ms=0)
    assert fetched[absent] == PartitionFetch(
        (), 3, Code.LEADER_NOT_AVAILABLE, "partition t-7 has no leader now"
    )
    assert fetched[second].code is Code.NONE


@pytest.mark.parametrize("code", [Code.CORRUPT_MESSAGE, Code.NOT_LEADER_OR_FOLLOWER])
def test_a_range_is_read_again_after_an_error_that_a_retry_may_mend(
    proxy: DamagingProxy, cluster: Cluster, code: Code
) -> None:
    proxy.codes = {0: code}
    with pytest.raises(Refused, match=rf"{code.name}: t-0: nothing came at offset 0 of \[0, 1\)"):
        list(cluster.fetch_range(both(cluster)[0], 0, 1, timeout_ms=300))
    assert proxy.fetches > 1


def test_a_range_that_may_not_be_read_is_an_error_at_once(
    proxy: DamagingProxy, cluster: Cluster
) -> None:
    proxy.codes = {0: Code.TOPIC_AUTHORIZATION_FAILED}
    with pytest.raises(Refused, match=r"TOPIC_AUTHORIZATION_FAILED: Fetch of t-0"):
        list(cluster.fetch_range(both(cluster)[0], 0, 1))
    assert proxy.fetches == 1
