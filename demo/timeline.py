"""What the observer saw, and what it means: who owned which partition when, and what each rebalance
cost.

Pure: samples in, events and spells out. All times are milliseconds since the start of the
demonstration.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """One look at the group: owners by partition, members' names, whether it had converged, its
    offsets; and the topic's ends.
    """

    at_ms: int
    owners: Mapping[int, str]
    members: frozenset[str]
    stable: bool
    committed: Mapping[int, int]
    ends: Mapping[int, int] = {}

    @property
    def written(self) -> int:
        """The rows below the committed offsets, all of which are in the table."""
        return sum(self.committed.values())

    @property
    def lag(self) -> int:
        """The rows that are in the topic and not below the committed offsets."""
        return sum(self.ends.values()) - self.written

    def owned_by(self, member: str) -> list[int]:
        """The partitions of this member."""
        return [partition for partition, owner in self.owners.items() if owner == member]

    def converged(self, partitions: int) -> bool:
        """Every partition has an owner and no member has anything left to do; or there are no
        members.
        """
        return self.stable and (len(self.owners) == partitions or not self.members)


class Death(NamedTuple):
    """A member lost its host at that moment."""

    at_ms: int
    member: str


class Spell(NamedTuple):
    """A partition had one owner for a while; None for nobody."""

    partition: int
    owner: str | None
    from_ms: int
    to_ms: int


class Event(NamedTuple):
    """One rebalance: why, when, how long until the group had converged, and what it cost."""

    cause: str  # "join", "leave" or "session"
    member: str
    at_ms: int
    converged_ms: int | None
    partitions_moved: int
    longest_unowned_ms: int

    def as_json(self) -> dict[str, Any]:
        """The event as summary.json has it."""
        return self._asdict()


def spells(samples: Sequence[Sample], deaths: Iterable[Death], partitions: int) -> list[Spell]:
    """Who owned each partition when, without gaps. A dead member owns nothing from the moment of
    its death.
    """
    died = {death.member: death.at_ms for death in deaths}
    found: list[Spell] = []
    for partition in range(partitions):
        current: Spell | None = None
        for sample in samples:
            owner = sample.owners.get(partition)
            begins = sample.at_ms
            if owner in died and sample.at_ms >= died[owner]:
                begins, owner = (
                    (max(died[owner], current.from_ms) if current else died[owner]),
                    None,
                )
            if current is None:
                current = Spell(partition, owner, begins, sample.at_ms)
            elif owner == current.owner:
                current = current._replace(to_ms=sample.at_ms)
            else:
                found.append(current._replace(to_ms=begins))
                current = Spell(partition, owner, begins, sample.at_ms)
        if current is not None:
            found.append(current)
    return found


def events(samples: Sequence[Sample], deaths: Sequence[Death], partitions: int) -> list[Event]:
    """Every change of the membership, with its cost; a death is dated by the loss of the host, not
    by its discovery.
    """
    died = {death.member: death.at_ms for death in deaths}
    owned = spells(samples, deaths, partitions)
    found: list[Event] = []
    before: frozenset[str] = frozenset()
    last_stable: Mapping[int, str] = {}
    for index, sample in enumerate(samples):
        for member in sorted(sample.members - before):
            found.append(
                _event(
                    "join", member, sample.at_ms, samples[index:], last_stable, owned, partitions
                )
            )
        for member in sorted(before - sample.members):
            cause, at_ms = ("session", died[member]) if member in died else ("leave", sample.at_ms)
            found.append(
                _event(cause, member, at_ms, samples[index:], last_stable, owned, partitions)
            )
        before = sample.members
        if sample.converged(partitions):
            last_stable = sample.owners
    return sorted(found, key=lambda event: event.at_ms)


def _event(
    cause: str,
    member: str,
    at_ms: int,
    after: Sequence[Sample],
    owners_before: Mapping[int, str],
    owned: Sequence[Spell],
    partitions: int,
) -> Event:
    end = next((sample for sample in after if sample.converged(partitions)), None)
    until_ms = end.at_ms if end else after[-1].at_ms
    owners_after = end.owners if end else after[-1].owners
    moved = sum(
        1
        for partition in range(partitions)
        if owners_before.get(partition) != owners_after.get(partition)
    )
    gaps = (
        min(spell.to_ms, until_ms) - max(spell.from_ms, at_ms)
        for spell in owned
        if spell.owner is None
        and spell.partition in owners_before
        and spell.from_ms < until_ms
        and spell.to_ms > at_ms
    )
    return Event(cause, member, at_ms, end.at_ms - at_ms if end else None, moved, max([0, *gaps]))


class CommitGaps(NamedTuple):
    """The longest time between two successive commits of a partition; time in which it had no lag
    is left out.

    The first two: of a partition that kept its owner. The last: from the last commit of one owner
    to the first of the next.
    """

    during_rebalances_ms: int
    outside_ms: int
    across_owners_ms: int


def commit_gaps(
    samples: Sequence[Sample], rebalances: Sequence[Event], partitions: int
) -> CommitGaps:
    """The longest commit gaps: those that overlap a rebalance, those that do not, and those in
    which the owner changed.
    """
    windows = [(event.at_ms, event.at_ms + (event.converged_ms or 0)) for event in rebalances]
    worst = [0, 0, 0]
    for partition in range(partitions):
        for from_ms, to_ms, moved in _gaps(samples, partition):
            kind = (
                2
                if moved
                else 0
                if any(start < to_ms and end > from_ms for start, end in windows)
                else 1
            )
            worst[kind] = max(worst[kind], to_ms - from_ms)
    return CommitGaps(*worst)


def _gaps(samples: Sequence[Sample], partition: int) -> Iterator[tuple[int, int, bool]]:
    """From when to when a partition waited for a commit, and whether its owner changed
    meanwhile.
    """
    since_ms: int | None = None  # of its last commit, or when it last had no lag after one
    owner, offset, moved = (
        samples[0].owners.get(partition),
        samples[0].committed.get(partition),
        False,
    )
    for sample in samples:
        now = sample.committed.get(partition)
        if now != offset:
            if since_ms is not None:
                yield since_ms, sample.at_ms, moved
            # what is seen first may have been so for long
            since_ms = None if offset is None else sample.at_ms
            offset, moved = now, False
        elif since_ms is not None and now == sample.ends.get(partition):
            since_ms = sample.at_ms
        # a commit seen with the change was the old owner's: it commits, then lets go
        if sample.owners.get(partition) != owner:
            owner, moved = sample.owners.get(partition), True
