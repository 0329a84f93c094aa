"""Groups' committed offsets beside the logs of their partitions: the lag that commands show."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from apportion.client.cluster import Cluster
from apportion.log_bounds import LogBounds, OutOfRange
from apportion.member.cluster_queries.offsets import (
    AllOffsetsQuery,
    OffsetAndMetadata,
    OffsetFetchQuery,
)
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

NO_OFFSET = OffsetAndMetadata(None)
CommittedOffsets = Mapping[TopicPartition, OffsetAndMetadata]


class GroupPosition(NamedTuple):
    """A partition's committed offset in a group, if it has one, and the partition's log.

    metadata: of the committed offset. out_of_range: where the offset lies if it is not in the log.
    """

    committed: int | None
    log: LogBounds
    metadata: str = ""
    out_of_range: OutOfRange | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets ahead of the committed one; None without one, and out of range.

        As in Kafka's kafka-consumer-groups.sh, which shows "-" without one.
        """
        if self.committed is None or self.out_of_range is not None:
            return None
        # A reader of uncommitted records commits beyond the last stable offset.
        return max(0, self.log.end - self.committed)

    @property
    def unread(self) -> int | None:
        """The number of offsets ahead of the group; None where `auto.offset.reset` decides that.

        For sums of lags: without a committed offset, too, an empty log adds 0 to them.
        """
        return 0 if self.committed is None and self.log.start == self.log.end else self.lag


class Logs(NamedTuple):
    """The logs of partitions that exist, in order, and the topics' ids."""

    partitions: Mapping[TopicPartition, TopicIdPartition]
    bounds: Mapping[TopicPartition, LogBounds]

    def of(self, partitions: Iterable[TopicPartition]) -> "Logs":
        """Return the logs of these partitions alone."""
        kept = [each for each in partitions if each in self.bounds]
        return Logs(self.partitions, {each: self.bounds[each] for each in kept})


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
    query = OffsetFetchQuery(group_id, tuple(existing.values()), require_stable=False)

    def fetch() -> CommittedOffsets:
        found = cluster.ask_coordinator(query)
        return {each: found[with_id] for each, with_id in existing.items()}

    committed = fetch()
    return positions_in(cluster, _logs_of(cluster, existing), committed, fetch)


def all_group_positions(
    cluster: Cluster, group_id: str, owned: Iterable[TopicPartition] = ()
) -> dict[TopicPartition, GroupPosition]:
    """Return a group's positions in the partitions that exist, in order.

    These are the partitions that have a committed offset, and those in `owned`.
    """

    def fetch() -> CommittedOffsets:
        return cluster.ask_coordinator(AllOffsetsQuery(group_id))

    committed = fetch()
    return positions_in(cluster, read_logs(cluster, [*committed, *owned]), committed, fetch)


def read_logs(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Logs:
    """Return the logs of those partitions that exist, as they are now."""
    return _logs_of(cluster, _existing(cluster, partitions))


def positions_in(
    cluster: Cluster,
    logs: Logs,
    committed: CommittedOffsets,
    fetch: Callable[[], CommittedOffsets],
) -> dict[TopicPartition, GroupPosition]:
    """Return a group's positions in these logs, which were read after `committed`.

    fetch: reads the committed offsets once more.
    """
    found = {
        each: _position(log, committed.get(each, NO_OFFSET)) for each, log in logs.bounds.items()
    }
    suspected = [each for each, position in found.items() if position.out_of_range is not None]
    if not suspected:
        return found
    # Between the two looks Kafka Streams may have committed, and deleted the records below.
    again = fetch()
    # And who reads uncommitted records, too, commits up to the high watermark.
    ends = cluster.high_watermarks([logs.partitions[each] for each in suspected])
    for each in suspected:
        log, offset = logs.bounds[each], again.get(each, NO_OFFSET)
        whole = LogBounds(log.start, max(log.end, ends[logs.partitions[each]]))
        found[each] = _position(whole, offset)._replace(log=log)
    return found


def _position(log: LogBounds, committed: OffsetAndMetadata) -> GroupPosition:
    offset, metadata = committed
    out_of_range = None if offset is None else log.out_of_range(offset)
    return GroupPosition(offset, log, metadata, out_of_range)


def _existing(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, TopicIdPartition]:
    """Return the partitions that exist, in order, each with its topic's id.

    A topic may have been deleted, or recreated smaller, since the group committed or assigned it.
    """
    requested = sorted({*partitions})
    topics = cluster.topics(dict.fromkeys(topic for topic, _ in requested))
    return {each: with_id for each in requested if (with_id := topics.partition(*each)) is not None}


def _logs_of(cluster: Cluster, existing: Mapping[TopicPartition, TopicIdPartition]) -> Logs:
    """Return the logs of these partitions, which exist."""
    starts = cluster.list_offsets(existing.values(), EARLIEST)
    ends = cluster.list_offsets(existing.values(), LATEST)
    return Logs(
        existing,
        {each: LogBounds(starts[with_id], ends[with_id]) for each, with_id in existing.items()},
    )
