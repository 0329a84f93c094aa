"""The committed offsets of a classic group, and its lag: for `apportion streams describe`."""

from collections.abc import Iterable
from typing import NamedTuple

from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.offsets import OffsetFetchQuery
from apportion.topics import TopicPartition
from apportion.wire.messages.list_offsets import LATEST


class GroupPosition(NamedTuple):
    """A partition's committed offset in a group, if it has one, and the last stable offset."""

    committed: int | None
    end: int

    @property
    def lag(self) -> int | None:
        """The number of offsets ahead of the group; None where `auto.offset.reset` decides that."""
        if self.committed is None:
            return None if self.end else 0
        return max(0, self.end - self.committed)


def group_positions(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, GroupPosition]:
    """Return a classic group's committed positions in the partitions that exist.

    Offsets of open transactions do not count.
    """
    requested = tuple(partitions)
    topics = cluster.topics(dict.fromkeys(topic for topic, _ in requested))
    with_ids = {
        each: with_id for each in requested if (with_id := topics.partition(*each)) is not None
    }
    if not with_ids:
        return {}

    # Without require_stable: an open transaction must not make the command wait.
    committed = cluster.ask_coordinator(
        OffsetFetchQuery(group_id, tuple(with_ids.values()), require_stable=False)
    )
    ends = cluster.list_offsets(with_ids.values(), LATEST)
    return {
        each: GroupPosition(committed[partition].offset, ends[partition])
        for each, partition in with_ids.items()
    }
