"""A cluster's operations: read and write logs, a group's offsets, topics.

Each retries what `member/reactions.py` calls retriable until its timeout, then raises the last
error: `Refused` with Kafka's code, or `Disconnected`. Thread-safe.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from apportion.client.connection import Disconnected
from apportion.client.network_client import RetryTimer
from apportion.client.partition_logs import PartitionLogs
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.groups import ListGroupsQuery
from apportion.member.cluster_queries.offsets import (
    NO_MEMBER,
    Membership,
    OffsetAndMetadata,
    OffsetCommitQuery,
    OffsetFetchQuery,
)
from apportion.member.cluster_queries.query import GroupQuery
from apportion.member.reactions import Reaction, reaction
from apportion.topics import Topic, TopicIdPartition
from apportion.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.list_groups import ListedGroup

BROKER_RESOURCE = 4  # the resource type of a broker in DescribeConfigs
V = TypeVar("V")


class Cluster(PartitionLogs):
    """A Kafka cluster, ours or Apache's, as a client sees it. Connects with the first operation."""

    # groups

    def ask_coordinator(self, query: GroupQuery[V], *, timeout_ms: int | None = None) -> V:
        """Send a query to its group's coordinator, with retries; return the result."""
        retry_timer = RetryTimer(self.timeout_ms if timeout_ms is None else timeout_ms)
        request = query.request()
        while True:
            failure: Exception
            try:
                response = self.call(
                    request,
                    coordinator=query.group_id,
                    timeout_ms=retry_timer.left_ms(),
                    version=query.version,
                )
            except Disconnected as error:
                failure, meant = error, Reaction.FIND_COORDINATOR
            except Refused as error:
                # From FindCoordinator, which `call` sends first.
                failure, meant = error, reaction("FindCoordinator", error.code)
            else:
                try:
                    return query.parse(response)
                except Refused as error:
                    failure, meant = error, reaction(query.api, error.code)
            if meant is Reaction.FIND_COORDINATOR:
                self.forget_coordinator(query.group_id)
            elif meant is not Reaction.RETRY:
                raise failure
            retry_timer.pause(failure)

    def list_groups(self) -> list[ListedGroup]:
        """Return every group of the cluster, in order of name (ListGroups).

        Each broker lists the groups that it coordinates, so every broker is queried.
        """
        groups = (group for node in self.nodes() for group in self._list_groups(node))
        return sorted(groups, key=lambda group: group.group_id)

    def _list_groups(self, node: int) -> tuple[ListedGroup, ...]:
        """Return the groups of one broker; wait until it has loaded them."""
        query = ListGroupsQuery()
        retry_timer = RetryTimer(self.timeout_ms)
        while True:
            response = self.call(query.request(), node=node, timeout_ms=retry_timer.left_ms())
            try:
                return query.parse(response)
            except Refused as error:
                if reaction(query.api, error.code) is Reaction.RAISE:
                    raise
                retry_timer.pause(error)

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicIdPartition, int],
        membership: Membership = NO_MEMBER,
        *,
        metadata: str = "",
        timeout_ms: int | None = None,
    ) -> None:
        """Commit all these offsets (OffsetCommit). Raises Refused if any was not committed."""
        if offsets:
            query = OffsetCommitQuery(group_id, offsets, membership, metadata)
            self.ask_coordinator(query, timeout_ms=timeout_ms)

    def committed(
        self,
        group_id: str,
        partitions: Iterable[TopicIdPartition],
        membership: Membership = NO_MEMBER,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, int | None]:
        """Return the group's committed offset of each partition. Raises Refused if any fails."""
        committed = self.committed_offsets(group_id, partitions, membership, timeout_ms=timeout_ms)
        return {partition: each.offset for partition, each in committed.items()}

    def committed_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicIdPartition],
        membership: Membership = NO_MEMBER,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Return committed offsets with their metadata (OffsetFetch).

        Raises Refused if any fails.
        """
        requested = tuple(partitions)
        if not requested:
            return {}
        query = OffsetFetchQuery(group_id, requested, membership)
        return self.ask_coordinator(query, timeout_ms=timeout_ms)

    # topics and settings

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic and wait for its leaders."""
        configs = tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()
        )
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        response = self.call(CreateTopicsRequest(topics=(topic,), timeout_ms=self.timeout_ms))
        _raise_error(response.topics[0])
        return self._wait_for_leaders(name, partitions)

    def grow_topic(self, name: str, partitions: int) -> Topic:
        """Increase the topic to `partitions` partitions and wait for their leaders."""
        topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        response = self.call(CreatePartitionsRequest(topics=(topic,), timeout_ms=self.timeout_ms))
        _raise_error(response.results[0])
        return self._wait_for_leaders(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete the topic, and wait until Metadata no longer shows it.

        Metadata of another broker may show it for a moment longer.
        """
        # DeleteTopics names topics by `topics` since version 6, by `topic_names` before.
        request = DeleteTopicsRequest(
            topics=(DeleteTopicState(name=name),), topic_names=(name,), timeout_ms=self.timeout_ms
        )
        _raise_error(self.call(request).responses[0])
        retry_timer = RetryTimer(self.timeout_ms)
        while self.topics([name], fresh=True):
            retry_timer.pause(
                Refused(
                    Code.REQUEST_TIMED_OUT, f"topic {name!r} is still shown after it was deleted"
                )
            )

    def _wait_for_leaders(self, name: str, partitions: int) -> Topic:
        """Return the topic once it has that many partitions and each has a leader.

        CreateTopics and CreatePartitions answer before every broker's metadata shows the change.
        """
        retry_timer = RetryTimer(self.timeout_ms)
        while True:
            topic = self.topics([name], fresh=True).named(name)
            if topic is not None and topic.partitions >= partitions:
                leaders = [self._leaders.get((topic.id, number)) for number in range(partitions)]
                if None not in leaders:
                    return topic
            retry_timer.pause(
                Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not show up")
            )

    def broker_setting(self, name: str, *, node: int | None = None) -> str | None:
        """Return the value of a broker's setting (DescribeConfigs); None if there is none."""
        node = min(self.nodes()) if node is None else node
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(node), configuration_keys=(name,)
        )
        for result in self.call(DescribeConfigsRequest(resources=(resource,)), node=node).results:
            for config in result.configs:
                if config.name == name:
                    return None if config.value is None else str(config.value)
        return None


def _raise_error(result: Any) -> None:
    """Raise Refused for the error of one topic in a response."""
    if result.error_code != Code.NONE:
        raise Refused(Code.of(result.error_code), result.error_message or "")
