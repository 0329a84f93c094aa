"""Queries about topics: Metadata and ListOffsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from apportion.errors import UNKNOWN_TOPIC, Code, Refused
from apportion.member.cluster_queries.query import BrokerQuery, OffsetQuery
from apportion.member.permissions import denial_or_none
from apportion.topics import NO_TOPIC_ID, Topic, TopicId, TopicIdPartition, Topics, values_by_topic
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from apportion.wire.uuids import uuid_text

NO_LEADER_EPOCH = -1
"""The leader epoch of a client that knows none; the leader answers whatever its own is."""


class Leader(NamedTuple):
    """The leader of a partition, and its leader epoch."""

    node_id: int
    epoch: int


class TopicDescription(NamedTuple):
    """Metadata of one topic.

    racks: of each partition's replicas; () where the brokers have no rack.
    """

    name: str
    id: TopicId
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


class TopicWithLeaders(NamedTuple):
    """A topic in a Metadata response. leaders: by partition; None where there is none now."""

    description: TopicDescription
    leaders: dict[int, Leader | None]

    @property
    def topic(self) -> Topic:
        """The topic without racks and leaders."""
        return Topic(self.description.name, self.description.id, self.description.partitions)


class ClusterMetadata(NamedTuple):
    """A Metadata response.

    nodes: host and port by node id. existing: the requested topics that exist. refused: the error
    of the response, or the first of a topic, other than its absence.
    """

    nodes: dict[int, tuple[str, int]]
    existing: tuple[TopicWithLeaders, ...]
    refused: Refused | None = None
    cluster_id: str | None = None

    def accepted(self) -> "ClusterMetadata":
        """Return this; raise Refused for an error of a topic."""
        if self.refused is not None:
            raise self.refused
        return self

    @property
    def topics(self) -> Topics:
        """The topics that exist, without racks and leaders."""
        return Topics(each.topic for each in self.existing)

    @property
    def descriptions(self) -> tuple[TopicDescription, ...]:
        """The topics that exist, with their replicas' racks."""
        return tuple(each.description for each in self.existing)


@dataclass(frozen=True, slots=True)
class MetadataQuery(BrokerQuery[ClusterMetadata]):
    """Fetch metadata of the topics of these names or ids, and the addresses of the brokers.

    Never creates a topic: a consumer that misspells one must not.
    """

    api: ClassVar[str] = "Metadata"

    names_or_ids: tuple[str | TopicId, ...]

    def request(self) -> MetadataRequest:
        """Return the request for the metadata of these topics."""
        topics = tuple(
            MetadataRequestTopic(name=each)
            if isinstance(each, str)
            else MetadataRequestTopic(topic_id=each, name=None)
            for each in self.names_or_ids
        )
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def parse(self, response: MetadataResponse) -> ClusterMetadata:
        """Return the metadata, and the first error of a topic, which need not concern the others.

        The response as a whole has an error since version 13 (KIP-1102).

        Raises Refused where the broker sends no topic ids.
        """
        racks = {broker.node_id: broker.rack for broker in response.brokers if broker.rack}
        existing: list[TopicWithLeaders] = []
        refused: dict[Code, list[MetadataResponseTopic]] = {}
        whole = Code.of(response.error_code)
        for topic in response.topics:
            code = Code.of(topic.error_code)
            if code is Code.NONE and topic.name is not None:
                existing.append(_topic_metadata(topic, topic.name, racks))
            # Absence is an answer here and no error: the caller sees which topics exist.
            elif code not in UNKNOWN_TOPIC:
                refused.setdefault(code, []).append(topic)
        return ClusterMetadata(
            {broker.node_id: (broker.host, broker.port) for broker in response.brokers},
            tuple(existing),
            self.refused(whole)
            if whole is not Code.NONE
            else next((refused_topics(code, topics) for code, topics in refused.items()), None),
            response.cluster_id,
        )


def refused_topics(code: Code, topics: Sequence[MetadataResponseTopic]) -> Refused:
    """Return the error that a Metadata response has for these topics, which may have ids alone."""
    why = denial_or_none(MetadataQuery.api, code, [each.name for each in topics if each.name])
    first = topics[0]
    name = f"topic {first.name!r}" if first.name else f"the topic of id {uuid_text(first.topic_id)}"
    return Refused(code, why or f"{name}: {code.sentence}")


@dataclass(frozen=True, slots=True)
class ListOffsetsQuery(OffsetQuery):
    """Read the offset of each partition at `timestamp`: EARLIEST, LATEST or a time in ms.

    leader_epochs: of each partition, as the client knows it. A leader of another epoch refuses the
    query instead of answering for a log that was truncated. read_uncommitted: LATEST is the high
    watermark, also while a transaction is open.
    """

    api: ClassVar[str] = "ListOffsets"

    timestamp: int
    leader_epochs: Mapping[TopicIdPartition, int]
    read_uncommitted: bool = False

    def request(self) -> ListOffsetsRequest:
        """Return the request for the offsets, to the leader of all these partitions."""
        topics = tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=number,
                        current_leader_epoch=epoch,
                        timestamp=self.timestamp,
                    )
                    for number, epoch in partitions
                ),
            )
            for (topic, _), partitions in values_by_topic(self.leader_epochs).items()
        )
        # read_committed: LATEST is the last stable offset then (KIP-98), beyond which no reader may
        # go.
        level = 0 if self.read_uncommitted else 1
        return ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=topics)

    def results(self, response: ListOffsetsResponse) -> dict[TopicIdPartition, int | Refused]:
        """Return the offset or the error of each partition of the query."""
        # ListOffsets names topics, so the id is put back from the query.
        answers: dict[tuple[str | bytes, int], tuple[int, int]] = {
            (topic.name, result.partition_index): (result.error_code, result.offset)
            for topic in response.topics
            for result in topic.partitions
        }
        return self.read_results(answers, self.leader_epochs)


def _topic_metadata(
    topic: MetadataResponseTopic, name: str, racks: Mapping[int, str]
) -> TopicWithLeaders:
    """Return a topic of a Metadata response; raise Refused where it has no id."""
    topic_id = bytes(topic.topic_id)
    # Without ids a recreated topic cannot be told from its predecessor, and everything here relies
    # on that.
    if topic_id == NO_TOPIC_ID:
        raise Refused(
            Code.UNSUPPORTED_VERSION,
            "the broker sends no topic ids (Metadata 10); Apache Kafka does since 2.8",
        )
    leaders = {
        partition.partition_index: (
            # -1 while the partition has no leader
            Leader(partition.leader_id, partition.leader_epoch)
            if partition.leader_id >= 0
            else None
        )
        for partition in topic.partitions
    }
    return TopicWithLeaders(
        TopicDescription(name, topic_id, len(topic.partitions), _racks(topic, racks)), leaders
    )


def _racks(topic: MetadataResponseTopic, racks: Mapping[int, str]) -> tuple[tuple[str, ...], ...]:
    """Return the racks of each partition's replicas; () where no broker has a rack."""
    if not racks:
        return ()
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return tuple(
        tuple(sorted({racks[node] for node in each.replica_nodes if node in racks}))
        for each in partitions
    )
