"""A group's committed offsets beside the ends of its partitions: the lag that commands show."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.offsets import (
    AllOffsetsQuery,
    OffsetAndMetadata,
    OffsetFetchQuery,
)
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages.list_offsets import LATEST

NO_OFFSET = OffsetAndMetadata(None)


class GroupPosition(NamedTuple):
    """A partition's committed offset in a group, if it has one, and the last stable offset.

    metadata: of the committed offset.
    """

    committed: int | None
    end: int
    metadata: str = ""

    @property
    def lag(self) -> int | None:
        """The number of offsets ahead of the committed one; None without one.

        As in Kafka's kafka-consumer-groups.sh, which shows "-" then.
        """
        # The end is read after the commit, but a truncated log may still end before it.
        return None if self.committed is None else max(0, self.end - self.committed)

    @property
    def unread(self) -> int | None:
        """The number of offsets ahead of the group; None where `auto.offset.reset` decides that.

        For sums of lags: an empty log adds 0 to them, with or without a committed offset.
        """
        return self.lag if self.end else 0


def group_positions(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, GroupPosition]:
    """Return a classic group's committed positions in the partitions that exist.

    Offsets of open transactions do not count.
    """
    existing = _existing(cluster, partitions)
    if not existing:
        return {}
    # Without require_stable: an open transaction must not make the command wait.
    committed = cluster.ask_coordinator(
        OffsetFetchQuery(group_id, tuple(existing.values()), require_stable=False)
    )
    return _with_ends(cluster, existing, {each: committed[existing[each]] for each in existing})


def all_group_positions(
    cluster: Cluster, group_id: str, owned: Iterable[TopicPartition] = ()
) -> dict[TopicPartition, GroupPosition]:
    """Return a group's positions in the partitions that exist, in order.

    These are the partitions that have a committed offset, and those in `owned`.
    """
    committed = cluster.ask_coordinator(AllOffsetsQuery(group_id))
    return _with_ends(cluster, _existing(cluster, [*committed, *owned]), committed)


def positions_of(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, GroupPosition]:
    """Return the positions of no group in the partitions that exist: their ends alone."""
    return _with_ends(cluster, _existing(cluster, partitions), {})


def _existing(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, TopicIdPartition]:
    """Return the partitions that exist, in order, each with its topic's id.

    A topic may have been deleted, or recreated smaller, since the group committed or assigned it.
    """
    requested = sorted({*partitions})
    topics = cluster.topics(dict.fromkeys(topic for topic, _ in requested))
    return {each: with_id for each in requested if (with_id := topics.partition(*each)) is not None}


def _with_ends(
    cluster: Cluster,
    partitions: Mapping[TopicPartition, TopicIdPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, GroupPosition]:
    """Return the positions in these partitions, which exist, with their ends as they are now."""
    ends = cluster.list_offsets(partitions.values(), LATEST)
    return {
        each: GroupPosition(offset, ends[with_id], metadata)
        for each, with_id in partitions.items()
        for offset, metadata in [committed.get(each, NO_OFFSET)]
    }
