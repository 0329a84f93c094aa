"""A broker with one topic, and members of one group that read it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from apportion.client.cluster import Cluster
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.member.membership import Event
from apportion.server.embedded import EmbeddedBroker

FAST_HEARTBEATS = {"group.consumer.heartbeat.interval.ms": 100}


@contextmanager
def cluster_with_topic(broker_settings: dict[str, Any] | None = None) -> Iterator[Cluster]:
    """Start a broker, and create the topic "t" of one partition."""
    with (
        EmbeddedBroker(**(broker_settings or {})) as broker,
        closing(Cluster(broker.bootstrap)) as cluster,
    ):
        cluster.create_topic("t", 1)
        yield cluster


def new_session(cluster: Cluster, **settings: Any) -> GroupMembership[Event]:
    """Return a membership in the group "g", subscribed to "t", that has not joined yet."""
    return GroupMembership(cluster, new_member("g", **settings), ["t"])
