"""The query by which a tool describes topics: Metadata with replicas."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from apportion.errors import UNKNOWN_TOPIC, Code
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.member.cluster_queries.topics import refused_topics
from apportion.topics import TopicId
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)


class PartitionReplicas(NamedTuple):
    """A partition's brokers. leader: None where it has none now."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class TopicReplicas(NamedTuple):
    """A topic with the brokers of its partitions, in order of number."""

    name: str
    id: TopicId
    is_internal: bool
    partitions: tuple[PartitionReplicas, ...]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the partition that has the most."""
        return max((len(each.replicas) for each in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class TopicReplicasQuery(BrokerQuery[tuple[TopicReplicas, ...]]):
    """Describe the named topics that exist, or every topic of the cluster. Never creates one.

    names: None for every topic.
    """

    api: ClassVar[str] = "Metadata"

    names: tuple[str, ...] | None

    def request(self) -> MetadataRequest:
        """Return the request for the metadata of these topics."""
        topics = (
            None
            if self.names is None
            else tuple(MetadataRequestTopic(name=name) for name in self.names)
        )
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def parse(self, response: MetadataResponse) -> tuple[TopicReplicas, ...]:
        """Return the topics that exist, by name; raise Refused for another error of a topic."""
        found = []
        for topic in response.topics:
            code = Code.of(topic.error_code)
            if code is Code.NONE and topic.name is not None:
                found.append(_replicas(topic, topic.name))
            # Absence is an answer here and no error: the caller sees which topics exist.
            elif code not in UNKNOWN_TOPIC:
                raise refused_topics(code, (topic,))
        return tuple(sorted(found))


def _replicas(topic: MetadataResponseTopic, name: str) -> TopicReplicas:
    """Return one topic of a Metadata response."""
    partitions = tuple(
        PartitionReplicas(
            each.partition_index,
            each.leader_id if each.leader_id >= 0 else None,
            each.replica_nodes,
            each.isr_nodes,
        )
        for each in topic.partitions
    )
    return TopicReplicas(name, bytes(topic.topic_id), topic.is_internal, tuple(sorted(partitions)))
