"""A cluster's settings as a client alters and reads them."""

import socket
from contextlib import closing

from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.configs import (
    AlterConfigsQuery,
    DescribeConfigsQuery,
    DescribedSetting,
)
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.describe_configs import BROKER, GROUP, TOPIC
from tests.client.sessions import cluster_with_topic

SESSION = "consumer.session.timeout.ms"


def test_a_group_has_its_own_session_timeout_or_the_brokers() -> None:
    with cluster_with_topic({"group_consumer_session_timeout_ms": 6_000}) as cluster:
        assert cluster.group_setting("g", SESSION) == "6000"
        cluster.run(send_until_accepted(AlterConfigsQuery(GROUP, "g", {SESSION: "7000"})))
        assert cluster.group_setting("g", SESSION) == "7000"
        assert cluster.broker_setting("group.consumer.session.timeout.ms") == "6000"
        assert cluster.group_setting("g", "no.such") is None


def test_a_topic_shows_its_altered_settings() -> None:
    with cluster_with_topic() as cluster:
        cluster.run(send_until_accepted(AlterConfigsQuery(TOPIC, "t", {"retention.ms": "5000"})))
        settings = cluster.run(send_until_accepted(DescribeConfigsQuery(TOPIC, "t")))
        assert settings["retention.ms"] == DescribedSetting("5000", 1, "-1")


def test_a_broker_takes_no_more_connections_than_its_altered_limit() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        query = AlterConfigsQuery(BROKER, "1", {"max.connections": "1"})
        cluster.run(send_until_accepted(query))
        host, _, port = broker.bootstrap.rpartition(":")
        with closing(socket.create_connection((host, int(port)), timeout=10)) as late:
            assert late.recv(1) == b""
