"""Brokers that are no more at the address where a client knows them (KIP-1242)."""

import re
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from apportion.client.bootstrap import addresses
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.member.cluster_queries.groups import DescribeGroupsQuery
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import free_ports
from apportion.topics import Topics, partitions_of
from apportion.wire.messages.list_offsets import LATEST
from apportion.wire.messages.metadata import MetadataRequest
from tests.kafka.golden.proxy import Asked, RecordingProxy

if TYPE_CHECKING:
    from collections.abc import Callable


def moved(cluster: Cluster, gone: EmbeddedBroker) -> None:
    """Let the client know a broker at an address where it is no more."""
    cluster.topics(["t"], fresh=True)
    [node] = cluster.metadata.nodes
    cluster.metadata.nodes[node] = addresses(gone.bootstrap)[0]


def test_a_client_begins_again_where_another_broker_has_the_address_of_its_own() -> None:
    with (
        EmbeddedBroker() as broker,
        EmbeddedBroker(node_id=7) as another,
        closing(Cluster(broker.bootstrap)) as cluster,
    ):
        moved(cluster, another)
        own = cluster.metadata.cluster_id
        with pytest.raises(
            Disconnected,
            match=f"at {another.bootstrap} is not broker 1 of the cluster {own}, whose",
        ):
            cluster.call(MetadataRequest(), node=1)
        assert (cluster.metadata.nodes, cluster.metadata.cluster_id) == ({}, None)
        assert cluster.nodes() == {1: addresses(broker.bootstrap)[0]}
        assert cluster.metadata.cluster_id == own


def test_a_group_is_found_again_where_another_broker_has_its_coordinators_address() -> None:
    with (
        EmbeddedBroker() as broker,
        EmbeddedBroker(node_id=7) as another,
        closing(Cluster(broker.bootstrap)) as cluster,
    ):
        first = partitions_of(cluster.create_topic("t", 1))
        cluster.ask_coordinator(DescribeGroupsQuery("g"))
        moved(cluster, another)
        cluster.ask_coordinator(DescribeGroupsQuery("g"))
        moved(cluster, another)
        assert cluster.list_offsets(first, LATEST) == dict.fromkeys(first, 0)
        assert cluster.nodes() == {1: addresses(broker.bootstrap)[0]}
        assert cluster.interruptions == 2


class LateProxy(RecordingProxy):
    """A proxy whose client does `meanwhile` before it gets a response."""

    meanwhile: "Callable[[], object]"

    def answered(self, asked: Asked, response: bytes) -> None:
        self.meanwhile()


def test_a_client_that_has_begun_again_meanwhile_does_not_begin_again() -> None:
    with (
        EmbeddedBroker() as broker,
        EmbeddedBroker(node_id=7) as another,
        closing(Cluster(broker.bootstrap)) as cluster,
    ):
        cluster.ask_coordinator(DescribeGroupsQuery("g"))
        [(node, address)] = cluster.nodes().items()
        [port] = free_ports(1)
        proxy = LateProxy(addresses(another.bootstrap)[0][1], port)

        def meet_it_first() -> None:
            cluster.metadata.forget_brokers()
            cluster.nodes()

        proxy.meanwhile = meet_it_first
        proxy.start()
        cluster.metadata.nodes[node] = ("127.0.0.1", port)
        with pytest.raises(Disconnected, match="is not broker 1 of the cluster"):
            cluster.call(MetadataRequest(), node=node)
        assert cluster.metadata.nodes == {node: address}
        assert cluster.interruptions == 0


def test_a_bootstrap_server_may_be_another_broker_than_it_was() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        cluster.metadata.cluster_id = "of before"
        cluster.metadata.nodes[1] = addresses(broker.bootstrap)[0]
        assert cluster.topics(["t"]) == Topics()
        assert cluster.metadata.cluster_id != "of before"


def test_a_bootstrap_server_that_is_another_broker_gets_the_time_that_is_left() -> None:
    [port] = free_ports(1)
    address, never = ("127.0.0.1", port), threading.Event()
    with EmbeddedBroker() as broker, closing(Cluster([f"127.0.0.1:{port}"])) as cluster:
        proxy, waits_s = LateProxy(addresses(broker.bootstrap)[0][1], port), iter((0.3, None))
        proxy.meanwhile = lambda: never.wait(next(waits_s))
        proxy.start()
        cluster.metadata.cluster_id, cluster.metadata.nodes = "of before", {1: address}
        with pytest.raises(Disconnected, match="did not answer ApiVersions") as error:
            cluster.call(MetadataRequest(), timeout_ms=1_000)
        never.set()
    [limit_ms] = re.findall(r"within (\d+) ms", str(error.value))
    assert int(limit_ms) <= 700
