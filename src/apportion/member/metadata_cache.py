"""The brokers, topics and leaders that a client knows from Metadata responses."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.retries import PauseBeforeRetry, send_until_accepted
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    Leader,
    MetadataQuery,
    TopicWithLeaders,
)
from apportion.member.reactions import retry_or_raise
from apportion.rules import Rule
from apportion.topics import TopicId, TopicIdPartition, TopicPartition, Topics
from apportion.wire.uuids import uuid_text

# A client without a member imports no membership.
if TYPE_CHECKING:
    from apportion.member.membership import MemberAssignment


class MetadataCache:
    """The metadata of one client, and the rules that fetch what is not known.

    Threads may share it: each change of what is known is one operation on a dict.

    nodes: host and port by node id. cluster_id: None if it is unknown.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.nodes: dict[int, tuple[str, int]] = {}
        self.cluster_id: str | None = None
        self._topics: dict[str | TopicId, TopicWithLeaders] = {}  # by name, and by id

    def topics(self, names: Iterable[str], *, fresh: bool = False) -> Rule[Topics]:
        """Return those of the named topics that exist, fetched if one is unknown or if `fresh`."""
        requested = tuple(sorted(dict.fromkeys(names)))
        if fresh or any(name not in self._topics for name in requested):
            yield from self.fetch(requested)
        known = (self._topics.get(name) for name in requested)
        return Topics(each.topic for each in known if each is not None)

    def resolve_names(self, partitions: "MemberAssignment") -> Rule[tuple[TopicIdPartition, ...]]:
        """Return an assignment's partitions with their topics' names, in order.

        Those of topics that the cluster does not know are left out.
        """
        ids = sorted({partition.topic_id for partition in partitions})
        if unknown := tuple(each for each in ids if each not in self._topics):
            yield from self.fetch(unknown)
        named = ((self._topics.get(topic_id), topic_id, number) for topic_id, number in partitions)
        return tuple(
            sorted(
                TopicIdPartition(each.topic.name, topic_id, number)
                for each, topic_id, number in named
                if each is not None
            )
        )

    def fetch(self, names_or_ids: tuple[str | TopicId, ...]) -> Rule[ClusterMetadata]:
        """Fetch metadata of these topics; forget those that no longer exist.

        Raises Refused for an error of a topic that no retry mends; what came beside it is known.
        """
        query = MetadataQuery(names_or_ids)
        while True:
            metadata = yield from send_until_accepted(query)
            self._add(metadata)
            if metadata.refused is None:
                break
            retry_or_raise(query.api, metadata.refused)
            if metadata.refused.code is Code.REBOOTSTRAP_REQUIRED:
                self.forget_brokers()
            yield PauseBeforeRetry(metadata.refused)
        existing = {key for each in metadata.existing for key in (each.topic.name, each.topic.id)}
        for key in names_or_ids:
            # A deleted topic's id would be used for ever otherwise.
            if key not in existing and (gone := self._topics.get(key)) is not None:
                self._topics.pop(gone.topic.name, None)
                self._topics.pop(gone.topic.id, None)
        return metadata

    def _add(self, metadata: ClusterMetadata) -> None:
        """Add the brokers, and the topics that a response shows without an error."""
        # A response without brokers must not erase those known so far.
        self.nodes = metadata.nodes or self.nodes
        self.cluster_id = metadata.cluster_id or self.cluster_id
        for each in metadata.existing:
            before = self._topics.get(each.topic.name)
            self._topics |= {each.topic.name: each, each.topic.id: each}
            # The leader of a topic that was deleted would answer for the one created under its
            # name, as ListOffsets names topics without their ids.
            if before is not None and before.topic.id != each.topic.id:
                self._topics.pop(before.topic.id, None)

    def forget_brokers(self) -> None:
        """Forget every broker, until metadata are fetched from a bootstrap server.

        The leaders stay known by their node ids: most often it is the same cluster.
        """
        self.nodes, self.cluster_id = {}, None

    def find_leader(self, partition: TopicIdPartition) -> Rule[Leader]:
        """Return the partition's leader, fetched if it is unknown.

        Raises Refused: UNKNOWN_TOPIC_ID if the topic was deleted or recreated,
        LEADER_NOT_AVAILABLE.
        """
        known = self.leader(partition)
        if known is None:
            topics = yield from self.topics([partition.topic], fresh=True)
            topic = topics.named(partition.topic)
            # By id and not by name (KIP-516): offsets of a deleted topic mean nothing in the one
            # recreated under its name.
            if topic is None or topic.id != partition.topic_id:
                fate = "is gone" if topic is None else f"was made again as {uuid_text(topic.id)}"
                raise Refused(
                    Code.UNKNOWN_TOPIC_ID,
                    f"topic {partition.topic!r} with id {uuid_text(partition.topic_id)} {fate}",
                )
            known = self.leader(partition)
        if known is None:
            raise no_leader(partition)
        return known

    def leader(self, partition: TopicIdPartition) -> Leader | None:
        """Return the partition's leader; None if it is unknown."""
        topic = self._topics.get(partition.topic_id)
        return None if topic is None else topic.leaders.get(partition.partition)

    def forget_leader(self, partition: TopicIdPartition) -> None:
        """Forget the partition's leader, until metadata of its topic is fetched again."""
        if (topic := self._topics.get(partition.topic_id)) is not None:
            topic.leaders.pop(partition.partition, None)


def no_leader(partition: TopicIdPartition) -> Refused:
    """Return the error of a partition that has no leader in fresh metadata."""
    return Refused(Code.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader now")


def with_topic_ids(
    partitions: Iterable[TopicPartition], topics: Topics
) -> tuple[TopicIdPartition, ...]:
    """Return the partitions with their topics' ids; raise Refused for one of a missing topic."""
    found = []
    for name, number in partitions:
        topic = topics.named(name)
        if topic is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        found.append(TopicIdPartition(name, topic.id, number))
    return tuple(found)
