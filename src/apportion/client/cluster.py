"""A cluster's operations: read and write logs, a group's offsets, topics.

Each retries by the table of `member/reactions.py` until its timeout, then raises the last error:
`Refused` with Kafka's code, or `Disconnected`. Thread-safe.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from apportion.client.partition_logs import PartitionLogs
from apportion.member.cluster_queries.configs import SettingQuery
from apportion.member.cluster_queries.groups import ListGroupsQuery
from apportion.member.cluster_queries.offsets import (
    OffsetAndMetadata,
    OffsetFetchQuery,
)
from apportion.member.cluster_queries.query import GroupQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.topic_changes import (
    CreateTopicsQuery,
    NewTopic,
)
from apportion.member.topic_creation import create_missing_topics
from apportion.topics import Topic, TopicIdPartition
from apportion.wire.messages.describe_configs import BROKER, GROUP
from apportion.wire.messages.list_groups import ListedGroup

V = TypeVar("V")


class Cluster(PartitionLogs):
    """A Kafka cluster, ours or Apache's, as a client sees it. Connects with the first operation."""

    # groups

    def ask_coordinator(self, query: GroupQuery[V], *, timeout_ms: int | None = None) -> V:
        """Send a query to its group's coordinator, with retries; return the result."""
        return self.run(send_until_accepted(query), timeout_ms=timeout_ms)

    def list_groups(self) -> list[ListedGroup]:
        """Return every group of the cluster, in order of name (ListGroups).

        Each broker lists the groups that it coordinates, once it has loaded them, so every broker
        is queried.
        """
        listed = (
            group
            for node in self.nodes()
            for group in self.run(send_until_accepted(ListGroupsQuery()), node=node)
        )
        return sorted(listed, key=lambda group: group.group_id)

    def committed(
        self, group_id: str, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, int | None]:
        """Return the group's committed offset of each partition. Raises Refused if any fails."""
        committed = self.committed_offsets(group_id, partitions)
        return {partition: each.offset for partition, each in committed.items()}

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Return committed offsets with their metadata (OffsetFetch).

        Raises Refused if any fails.
        """
        requested = tuple(partitions)
        if not requested:
            return {}
        return self.ask_coordinator(OffsetFetchQuery(group_id, requested))

    # topics and settings

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic and wait for its leaders."""
        topic = NewTopic(name, partitions, replication_factor, config or {})
        query = CreateTopicsQuery((topic,), self.timeout_ms)
        query.parse(self.call(query.request()))
        metadata = self.run(create_missing_topics((topic,), self.metadata))
        return metadata.existing[0].topic

    def broker_setting(self, name: str) -> str | None:
        """Return the value of a broker's setting; None if the broker does not tell it."""
        node = min(self.nodes())
        query = SettingQuery(BROKER, str(node), name)
        return query.parse(self.call(query.request(), node=node))

    def group_setting(self, group_id: str, name: str) -> str | None:
        """Return the value of a group's setting, its own or its broker's.

        None where a group has no such setting, as before Kafka 4.0.
        """
        query = SettingQuery(GROUP, group_id, name)
        return query.parse(self.call(query.request()))
