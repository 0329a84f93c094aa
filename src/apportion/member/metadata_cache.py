"""The brokers, topics and leaders that a client knows from Metadata responses."""

from collections.abc import Iterable

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    Leader,
    MetadataQuery,
    TopicWithLeaders,
)
from apportion.member.membership import MemberAssignment
from apportion.rules import Rule
from apportion.topics import TopicId, TopicIdPartition, TopicPartition, Topics


class MetadataCache:
    """The metadata of one client, and the rules that fetch what is not known.

    Threads may share it: each change of what is known is one operation on a dict.

    nodes: host and port by node id.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.nodes: dict[int, tuple[str, int]] = {}
        self._topics: dict[str | TopicId, TopicWithLeaders] = {}  # by name, and by id

    def topics(self, names: Iterable[str], *, fresh: bool = False) -> Rule[Topics]:
        """Return those of the named topics that exist, fetched if one is unknown or if `fresh`."""
        requested = tuple(sorted(dict.fromkeys(names)))
        if fresh or any(name not in self._topics for name in requested):
            yield from self.fetch(requested)
        known = (self._topics.get(name) for name in requested)
        return Topics(each.topic for each in known if each is not None)

    def resolve_names(self, partitions: MemberAssignment) -> Rule[tuple[TopicIdPartition, ...]]:
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
        """Fetch metadata of these topics; forget those that no longer exist."""
        metadata = yield from send_until_accepted(MetadataQuery(names_or_ids))
        # A response without brokers must not erase those known so far.
        self.nodes = metadata.nodes or self.nodes
        existing: dict[str | TopicId, TopicWithLeaders] = {
            key: each for each in metadata.existing for key in (each.topic.name, each.topic.id)
        }
        known = [self._topics.get(key) for key in (*names_or_ids, *existing)]
        self._topics.update(existing)
        # A deleted topic's id would be used for ever otherwise; and its leader would answer for
        # the topic created under its name, as ListOffsets names topics without their ids.
        for before in known:
            for key in () if before is None else (before.topic.name, before.topic.id):
                if key not in existing:
                    self._topics.pop(key, None)
        return metadata

    def leader(self, partition: TopicIdPartition) -> Leader | None:
        """Return the partition's leader; None if it is unknown."""
        topic = self._topics.get(partition.topic_id)
        return None if topic is None else topic.leaders.get(partition.partition)

    def forget_leader(self, partition: TopicIdPartition) -> None:
        """Forget the partition's leader, until metadata of its topic is fetched again."""
        if (topic := self._topics.get(partition.topic_id)) is not None:
            topic.leaders.pop(partition.partition, None)


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
