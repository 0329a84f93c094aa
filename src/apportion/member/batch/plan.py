"""Which offsets the next micro-batch reads: a pure function of the last batch and the logs.

The next span owns exactly what the member owns, each partition from its position as far as the
limits allow. The position of a partition is, in this order:

1. Held without interruption: the end of the last span.
2. Gained, or held in an earlier incarnation or process: the committed offset or the end of the last
   span, whichever is further, since everything below either is in the sink.
3. Neither is known: startingOffsets. This start is committed before the span is used; otherwise an
   owner that dies before its first commit would lose the records between `latest` now and then.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.member.batch.span import Span, sorted_span
from apportion.topics import TopicIdPartition

EARLIEST, LATEST = -2, -1


class LogBounds(NamedTuple):
    """The offsets of a partition that can be read now: from `start` to below `end`, the last stable
    offset.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Where a partition without a committed offset starts (the option startingOffsets).

    by_partition: by topic name and partition; EARLIEST and LATEST are allowed. default: for all
    others.
    """

    default: int = LATEST
    by_partition: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def start_offset(self, place: TopicIdPartition, log: LogBounds, *, newborn: bool) -> int:
        """Return the first offset to read.

        A partition added while its topic was read starts at its beginning.
        """
        wanted = self.by_partition.get(
            (place.topic, place.partition), EARLIEST if newborn else self.default
        )
        return {EARLIEST: log.start, LATEST: log.end}.get(wanted, wanted)


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Everything that the next span depends on, beside the last one.

    checkpoint: the id of this checkpoint, used when the last span has none yet.
    logs: of exactly the partitions that the member owns now.
    kept: those that the last span owned too, in the same incarnation; the others were gained.
    committed: the group's offset of each gained partition, None where it has none; fetched after it
    was assigned.
    new_partitions: those that appeared after this member first saw their topic.
    limit: the most offsets that one span reads; None: all (maxOffsetsPerTrigger).
    caps: where each partition ends for good (availableNow); without a cap it reads nothing. None:
    no caps.
    """

    checkpoint: str
    logs: Mapping[TopicIdPartition, LogBounds]
    kept: Container[TopicIdPartition] = ()
    committed: Mapping[TopicIdPartition, int | None] = field(default_factory=dict)
    starting_offsets: StartingOffsets = StartingOffsets()
    new_partitions: Container[TopicIdPartition] = ()
    limit: int | None = None
    caps: Mapping[TopicIdPartition, int] | None = None


class Gap(NamedTuple):
    """Offsets that are gone: the position was `expected`, and the log begins or ends at `log_bound`
    instead.
    """

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


def plan_batch(previous: Span, world: PlanInput) -> BatchPlan:
    """Return the span after `previous`, as the module says."""
    positions: dict[TopicIdPartition, int] = {}
    commit_first: dict[TopicIdPartition, int] = {}
    gaps: list[Gap] = []
    for place in sorted(world.logs):
        log = world.logs[place]
        position = known_position(previous, world, place)
        if position is None:
            position = world.starting_offsets.start_offset(
                place, log, newborn=place in world.new_partitions
            )
            commit_first[place] = position = _within(place, position, log, gaps)
        positions[place] = _within(place, position, log, gaps)
    ends = _ends(positions, world)
    if previous.end_offsets() == ends:
        return BatchPlan(previous, commit_first, tuple(gaps))
    ranges = {place: (position, ends[place]) for place, position in positions.items()}
    return BatchPlan(
        sorted_span(previous.id or world.checkpoint, ranges), commit_first, tuple(gaps)
    )


def known_position(previous: Span, world: PlanInput, place: TopicIdPartition) -> int | None:
    """Return the partition's position by the last span or the group; None if neither knows it."""
    stood = previous.end_or_none(place)
    if stood is not None and place in world.kept:
        return stood
    known = [offset for offset in (stood, world.committed.get(place)) if offset is not None]
    return max(known, default=None)


def _within(place: TopicIdPartition, position: int, log: LogBounds, gaps: list[Gap]) -> int:
    found = min(max(position, log.start), log.end)
    if found != position:
        gaps.append(Gap(place, position, found))
    return found


def _ends(
    positions: Mapping[TopicIdPartition, int], world: PlanInput
) -> dict[TopicIdPartition, int]:
    """Return how far each partition is read, within caps and limit."""
    lags = {}
    for place, position in positions.items():
        end = world.logs[place].end
        if world.caps is not None:
            end = min(end, world.caps.get(place, position))
        lags[place] = max(end - position, 0)
    shares = (
        lags
        if world.limit is None
        else split_limit(lags, world.limit, turn=sum(positions.values()))
    )
    return {place: position + shares[place] for place, position in positions.items()}


def split_limit(
    lags: Mapping[TopicIdPartition, int], limit: int, turn: int
) -> dict[TopicIdPartition, int]:
    """Split `limit` offsets in proportion to lag (largest remainder method).

    No partition gets more than its lag, and none of the limit is wasted while any lags. Each that
    lags gets at least one; if the limit is too small for that, `limit` of them get one, in rotation
    from `turn`. The turn is the sum of positions, so it moves on by what was read and every
    partition is served within a few batches.
    """
    if sum(lags.values()) <= limit:
        return dict(lags)
    order = list(lags)
    first = turn % len(order)
    lagging = [place for place in order[first:] + order[:first] if lags[place]]
    shares = dict.fromkeys(order, 0)
    for place in lagging[:limit]:
        shares[place] = 1
    left = limit - len(lagging)
    if left <= 0:
        return shares
    wanting = sum(lags[place] - 1 for place in lagging)
    for place in lagging:
        shares[place] += left * (lags[place] - 1) // wanting
    fractions = sorted(lagging, key=lambda place: -(left * (lags[place] - 1) % wanting))
    for place in fractions[: limit - sum(shares.values())]:
        shares[place] += 1
    return shares
