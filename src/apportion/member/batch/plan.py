"""What a member that works in batches reads next: one pure rule from the last batch and the world to the next batch.

The next span owns exactly what the member owns, each partition from where it stands to as far as the limits allow. A partition
that was held without a break stands where the last span ended. One that was gained (or held in an earlier incarnation, or before a
restart) stands at the group's offset or where the last span ended, whichever is further: everything below either is written.
With neither, the rule for new partitions says; that start must be in the group before the span is used, or an owner that dies
before its first commit would lose what it skipped. This module asks nobody; whoever calls brings the offsets.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.member.batch.span import Span, sorted_span
from apportion.topics import TopicIdPartition

EARLIEST, LATEST = -2, -1


class LogBounds(NamedTuple):
    """What a partition holds now: offsets from `start` to below `end`, the last stable offset."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Where a partition starts that the group has no offset for.

    given: by topic name and partition; EARLIEST and LATEST are allowed. otherwise: for all others, EARLIEST or LATEST.
    """

    default: int = LATEST
    by_partition: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def start_offset(self, place: TopicIdPartition, log: LogBounds, *, newborn: bool) -> int:
        """The first offset to read. A partition born while its topic was being read starts at its beginning."""
        wanted = self.by_partition.get((place.topic, place.partition), EARLIEST if newborn else self.default)
        return {EARLIEST: log.start, LATEST: log.end}.get(wanted, wanted)


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Everything that the next span depends on beside the last one.

    checkpoint: the id of this checkpoint, used when the last span has none yet.
    logs: of each partition that the member owns now: these and no others.
    kept: the owned partitions that the last span owned too, in the same incarnation of the same member; the others were gained.
    committed: the group's offset of each gained partition, None where it has none; asked after the partition was granted.
    newborn: the partitions that appeared after this member first saw their topic.
    limit: the most offsets that one span reads; None: all. caps: the offset at which each partition ends for good (a query
    that reads what is there now and stops); a partition without a cap reads nothing; None: no caps.
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
    """Offsets that are gone: the partition stood at `expected`, its log begins (or ends) at `found`, where it was put."""

    partition: TopicIdPartition
    expected: int
    log_bound: int

    def __str__(self) -> str:
        what = "were deleted" if self.log_bound > self.expected else "are no longer in the log"
        low, high = sorted((self.expected, self.log_bound))
        return f"{self.partition}: offsets [{low}, {high}) {what}"


class BatchPlan(NamedTuple):
    """The next span, and what must be true before it is used.

    span: the very `previous` when nothing is new and nothing changed hands.
    commit_first: offsets that the group must have stored, with the member's epoch, before the span is returned.
    gaps: data loss that the span steps over.
    """

    span: Span
    commit_first: dict[TopicIdPartition, int]
    gaps: tuple[Gap, ...]


def plan_batch(previous: Span, world: PlanInput) -> BatchPlan:
    """The next span after `previous`, as the module says."""
    positions: dict[TopicIdPartition, int] = {}
    commit_first: dict[TopicIdPartition, int] = {}
    gaps: list[Gap] = []
    for place in sorted(world.logs):
        log = world.logs[place]
        position = known_position(previous, world, place)
        if position is None:
            position = world.starting_offsets.start_offset(place, log, newborn=place in world.new_partitions)
            commit_first[place] = position = _within(place, position, log, gaps)
        positions[place] = _within(place, position, log, gaps)
    ends = _ends(positions, world)
    if previous.end_offsets() == ends:
        return BatchPlan(previous, commit_first, tuple(gaps))
    ranges = {place: (position, ends[place]) for place, position in positions.items()}
    return BatchPlan(sorted_span(previous.id or world.checkpoint, ranges), commit_first, tuple(gaps))


def known_position(previous: Span, world: PlanInput, place: TopicIdPartition) -> int | None:
    """Where the partition stands by the last span or by the group; None if neither knows it."""
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


def _ends(positions: Mapping[TopicIdPartition, int], world: PlanInput) -> dict[TopicIdPartition, int]:
    """How far each partition is read, within caps and limit."""
    lags = {}
    for place, position in positions.items():
        end = world.logs[place].end
        if world.caps is not None:
            end = min(end, world.caps.get(place, position))
        lags[place] = max(end - position, 0)
    shares = lags if world.limit is None else split_limit(lags, world.limit, turn=sum(positions.values()))
    return {place: position + shares[place] for place, position in positions.items()}


def split_limit(lags: Mapping[TopicIdPartition, int], limit: int, turn: int) -> dict[TopicIdPartition, int]:
    """`limit` offsets split by lag: none gets more than its lag, and nothing of the limit is wasted while something lags.

    Each that lags gets at least one. When the limit is too small for that, `limit` of them get one, beginning with the one
    whose turn it is: the turn, a sum of positions, moves on by what was read, so everyone is served within a few batches.
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
