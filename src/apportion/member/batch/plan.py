"""The offset ranges of the next micro-batch: a pure function of the last batch and the logs.

The next span owns exactly what the member owns, each partition from its position as far as the
limits allow. The position of a partition is, in this order:

1. Owned without interruption: the end of the last span.
2. Gained, or owned in an earlier incarnation or process: the committed offset or the end of the
   last span, whichever is further, since everything below either is in the sink.
3. Neither is known: startingOffsets, or the time that is given instead. This start is committed
   before the span is used; otherwise an owner that dies before its first commit would lose the
   records between `latest` now and then.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.log_bounds import LogBounds
from apportion.member.batch.offset_times import OffsetTimes
from apportion.member.batch.span import Span, sorted_span
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Start of a partition without a committed offset (the option startingOffsets).

    by_partition: by topic name and partition; EARLIEST and LATEST are allowed. default: for all
    others. times: their offsets come before both, once they are found.
    """

    default: int = LATEST
    by_partition: Mapping[tuple[str, int], int] = field(default_factory=dict)
    times: OffsetTimes | None = None

    def with_times_found(self, partitions: tuple[TopicIdPartition, ...]) -> Rule["StartingOffsets"]:
        """Return the same with the offsets of its times for these partitions.

        Raises NoRecordAtTime.
        """
        if self.times is None:
            return self
        found = yield from self.times.find_offsets(partitions)
        return StartingOffsets(self.default, {**self.by_partition, **found})

    def start_offset(self, partition: TopicIdPartition, log: LogBounds, *, is_new: bool) -> int:
        """Return the first offset to read of a partition without a position (startingOffsets).

        is_new: the partition was added while its topic was read: it starts at its beginning.
        """
        offset = self.by_partition.get(
            (partition.topic, partition.partition), EARLIEST if is_new else self.default
        )
        return {EARLIEST: log.start, LATEST: log.end}.get(offset, offset)


class ReadLimits(NamedTuple):
    """The limits on the offsets that one span reads.

    most_offsets: in all partitions together (maxOffsetsPerTrigger); None: no limit.
    least_offsets: the fewest new offsets for which a span reads anything (minOffsetsPerTrigger).
    ends: where each partition ends for good (availableNow); one that is left out reads nothing.
    None: no partition ends.
    """

    most_offsets: int | None = None
    least_offsets: int = 0
    ends: Mapping[TopicIdPartition, int] | None = None


NO_READ_LIMITS = ReadLimits()


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Everything that the next span depends on, beside the last one.

    checkpoint: the id of this checkpoint, used when the last span has none yet.
    logs: of exactly the partitions that the member owns now.
    kept: those that the last span owned too, in the same incarnation; the others were gained.
    committed: the group's offset of each gained partition, None where it has none; fetched after it
    was assigned.
    new_partitions: those that appeared after this member first saw their topic.
    """

    checkpoint: str
    logs: Mapping[TopicIdPartition, LogBounds]
    kept: Container[TopicIdPartition] = ()
    committed: Mapping[TopicIdPartition, int | None] = field(default_factory=dict)
    starting_offsets: StartingOffsets = StartingOffsets()
    new_partitions: Container[TopicIdPartition] = ()
    limits: ReadLimits = NO_READ_LIMITS


class Gap(NamedTuple):
    """Offsets that are gone: the position was `expected`, the log begins or ends at `log_bound`."""

    partition: TopicIdPartition
    expected: int
    log_bound: int

    def __str__(self) -> str:
        what = "were deleted" if self.log_bound > self.expected else "are no longer in the log"
        low, high = sorted((self.expected, self.log_bound))
        return f"{self.partition}: offsets [{low}, {high}) {what}"


class BatchPlan(NamedTuple):
    """The next span, and what must be true before it is used.

    span: the very `previous` if nothing is new and no partition changed hands.
    commit_first: offsets that must be committed with the member's epoch before the span is
    returned.
    gaps: data loss that the span steps over.
    """

    span: Span
    commit_first: dict[TopicIdPartition, int]
    gaps: tuple[Gap, ...]


def plan_batch(previous: Span, inputs: PlanInput) -> BatchPlan:
    """Return the offset ranges of the next micro-batch: the fifth step of `BatchPlanner`.

    The module's docstring says how they are chosen.
    """
    positions: dict[TopicIdPartition, int] = {}
    commit_first: dict[TopicIdPartition, int] = {}
    gaps: list[Gap] = []
    # In one order on every machine: the span's JSON text must depend on its content alone.
    for partition in sorted(inputs.logs):
        log = inputs.logs[partition]
        position = known_position(previous, inputs, partition)
        if position is None:
            # Nothing was read yet. Committed before the span is used, or a crash would choose anew.
            position = inputs.starting_offsets.start_offset(
                partition, log, is_new=partition in inputs.new_partitions
            )
            commit_first[partition] = position = nearest_offset(partition, position, log, gaps)
        positions[partition] = nearest_offset(partition, position, log, gaps)
    ends = _read_ends(positions, inputs)
    # Ends and not ranges: a change of ownership alone must change the span, and costs one empty
    # batch.
    if previous.end_offsets() == ends:
        # The very same value: Spark starts no batch if the offset is unchanged.
        return BatchPlan(previous, commit_first, tuple(gaps))
    ranges = {partition: (position, ends[partition]) for partition, position in positions.items()}
    return BatchPlan(
        sorted_span(previous.id or inputs.checkpoint, ranges), commit_first, tuple(gaps)
    )


def known_position(previous: Span, inputs: PlanInput, partition: TopicIdPartition) -> int | None:
    """Return a partition's next offset, by the last micro-batch or the group's commits, or None."""
    last_end = previous.end_or_none(partition)
    if last_end is not None and partition in inputs.kept:
        return last_end
    # Everything below either offset is in the sink, so the further one is right.
    known = [offset for offset in (last_end, inputs.committed.get(partition)) if offset is not None]
    return max(known, default=None)


def nearest_offset(
    partition: TopicIdPartition, position: int, log: LogBounds, gaps: list[Gap]
) -> int:
    """Return the nearest offset that the partition's log has; add a gap if it is not `position`."""
    offset = log.nearest(position)
    if offset != position:
        gaps.append(Gap(partition, position, offset))
    return offset


def _read_ends(
    positions: Mapping[TopicIdPartition, int], inputs: PlanInput
) -> dict[TopicIdPartition, int]:
    """Return how far each partition is read in the next micro-batch, within the limits."""
    limits, lags = inputs.limits, {}
    for partition, position in positions.items():
        end = inputs.logs[partition].end
        if limits.ends is not None:
            # availableNow: a partition that is left out appeared after the ends were read
            end = min(end, limits.ends.get(partition, position))
        lags[partition] = max(end - position, 0)
    if sum(lags.values()) < limits.least_offsets:
        # Left for a later span; a change of ownership is planned all the same.
        return dict(positions)
    shares = (
        lags
        if limits.most_offsets is None
        else split_limit(lags, limits.most_offsets, rotation=sum(positions.values()))
    )
    return {partition: position + shares[partition] for partition, position in positions.items()}


def split_limit(
    lags: Mapping[TopicIdPartition, int], limit: int, rotation: int
) -> dict[TopicIdPartition, int]:
    """Split maxOffsetsPerTrigger over partitions in proportion to lag (largest remainder method).

    No partition gets more than its lag, and none of the limit is wasted while any lags. Each that
    lags gets at least one; if the limit is too small for that, `limit` of them get one, beginning
    with number `rotation`. The rotation is the sum of positions, so it advances by what was read,
    and every partition is served within a few batches.

    Example: lags 90 and 10, limit 20: one each, then 18 by 89 : 9, which makes 17 and 3.
    """
    if sum(lags.values()) <= limit:
        return dict(lags)
    order = list(lags)
    # By the positions and not by a counter: a replay after a crash plans the same span again.
    first = rotation % len(order)
    lagging = [partition for partition in order[first:] + order[:first] if lags[partition]]
    shares = dict.fromkeys(order, 0)
    for partition in lagging[:limit]:
        shares[partition] = 1
    left = limit - len(lagging)
    if left <= 0:
        return shares
    unserved = sum(lags[partition] - 1 for partition in lagging)
    for partition in lagging:
        shares[partition] += left * (lags[partition] - 1) // unserved
    by_remainder = sorted(lagging, key=lambda partition: -(left * (lags[partition] - 1) % unserved))
    for partition in by_remainder[: limit - sum(shares.values())]:
        shares[partition] += 1
    return shares


def due_commits(
    previous: Span,
    owned: Container[TopicIdPartition],
    committed: Mapping[TopicIdPartition, int | None],
) -> dict[TopicIdPartition, int]:
    """Return the end offsets of a micro-batch that the group does not have yet.

    owned: the partitions that the member still owns; others must not be committed.
    Everything below these offsets must be durable in the sink: a span that Spark hands to
    latestOffset is.
    """
    return {
        partition: end
        for partition, end in previous.end_offsets().items()
        if partition in owned and ((offset := committed.get(partition)) is None or end > offset)
    }
