"""The rebalances of a run, found in the observer's samples: owners, causes, durations, gaps.

Pure functions. All times are milliseconds since the start of the demonstration.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """The group at one moment.

    owners: by partition. members: their client ids. stable: by the group's state. committed, ends:
    by partition, the group's offset and the log end offset.
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
        """Return the partitions of this member."""
        return [partition for partition, owner in self.owners.items() if owner == member]

    def has_converged(self, partitions: int) -> bool:
        """Return whether the group is stable and every partition has an owner, if there is any."""
        return self.stable and (len(self.owners) == partitions or not self.members)


class HostLoss(NamedTuple):
    """The moment at which a member's host was lost."""

    at_ms: int
    member: str


class WorkerLoss(NamedTuple):
    """The moment at which a Worker of the cluster was lost, and the executors that it ran."""

    at_ms: int
    worker: str
    executors: int


class OwnershipPeriod(NamedTuple):
    """A time in which a partition had the same owner, or none (None)."""

    partition: int
    owner: str | None
    from_ms: int
    to_ms: int


class Event(NamedTuple):
    """One rebalance: why, when, how long until the group had converged, and what it cost.

    For a lost Worker, which is no member: how long until all that was in the topic was written.
    """

    cause: str  # "join", "leave", "session" or "worker"
    member: str
    at_ms: int
    converged_ms: int | None
    partitions_moved: int
    longest_unowned_ms: int

    def as_json(self) -> dict[str, Any]:
        """Return the event as summary.json has it."""
        return self._asdict()


def ownership_periods(
    samples: Sequence[Sample], host_losses: Iterable[HostLoss], partitions: int
) -> list[OwnershipPeriod]:
    """Return the periods of every partition, without gaps.

    A member owns nothing from the moment at which its host was lost.
    """
    lost_at_ms = {loss.member: loss.at_ms for loss in host_losses}
    results: list[OwnershipPeriod] = []
    for partition in range(partitions):
        current: OwnershipPeriod | None = None
        for sample in samples:
            owner = sample.owners.get(partition)
            begins = sample.at_ms
            if owner in lost_at_ms and sample.at_ms >= lost_at_ms[owner]:
                begins, owner = (
                    (max(lost_at_ms[owner], current.from_ms) if current else lost_at_ms[owner]),
                    None,
                )
            if current is None:
                current = OwnershipPeriod(partition, owner, begins, sample.at_ms)
            elif owner == current.owner:
                current = current._replace(to_ms=sample.at_ms)
            else:
                results.append(current._replace(to_ms=begins))
                current = OwnershipPeriod(partition, owner, begins, sample.at_ms)
        if current is not None:
            results.append(current)
    return results


def events(
    samples: Sequence[Sample], host_losses: Sequence[HostLoss], partitions: int
) -> list[Event]:
    """Return every change of the membership with the rebalance that it caused.

    A lost host counts from its loss, and not from the session timeout by which it was noticed.
    """
    lost_at_ms = {loss.member: loss.at_ms for loss in host_losses}
    periods = ownership_periods(samples, host_losses, partitions)
    results: list[Event] = []
    previous_members: frozenset[str] = frozenset()
    last_stable: Mapping[int, str] = {}
    for index, sample in enumerate(samples):
        for member in sorted(sample.members - previous_members):
            results.append(
                _event(
                    "join", member, sample.at_ms, samples[index:], last_stable, periods, partitions
                )
            )
        for member in sorted(previous_members - sample.members):
            cause, at_ms = (
                ("session", lost_at_ms[member]) if member in lost_at_ms else ("leave", sample.at_ms)
            )
            results.append(
                _event(cause, member, at_ms, samples[index:], last_stable, periods, partitions)
            )
        previous_members = sample.members
        if sample.has_converged(partitions):
            last_stable = sample.owners
    return sorted(results, key=lambda event: event.at_ms)


def _event(
    cause: str,
    member: str,
    at_ms: int,
    later_samples: Sequence[Sample],
    owners_before: Mapping[int, str],
    periods: Sequence[OwnershipPeriod],
    partitions: int,
) -> Event:
    end = next((sample for sample in later_samples if sample.has_converged(partitions)), None)
    last = end or later_samples[-1]
    return Event(
        cause,
        member,
        at_ms,
        end.at_ms - at_ms if end else None,
        _moved(owners_before, last.owners, partitions),
        _longest_unowned_ms(periods, owners_before, at_ms, last.at_ms),
    )


def _moved(before: Mapping[int, str], after: Mapping[int, str], partitions: int) -> int:
    return sum(
        1 for partition in range(partitions) if before.get(partition) != after.get(partition)
    )


def _longest_unowned_ms(
    periods: Sequence[OwnershipPeriod], owned_before: Mapping[int, str], from_ms: int, to_ms: int
) -> int:
    gaps = (
        min(period.to_ms, to_ms) - max(period.from_ms, from_ms)
        for period in periods
        if period.owner is None
        and period.partition in owned_before
        and period.from_ms < to_ms
        and period.to_ms > from_ms
    )
    return max([0, *gaps])


def written_after(samples: Sequence[Sample], at_ms: int) -> Sample | None:
    """Return the first sample in which all is written that was in the topic after `at_ms`."""
    later = [sample for sample in samples if sample.at_ms >= at_ms]
    return next(
        (
            sample
            for sample in later
            if all(sample.committed.get(number, 0) >= end for number, end in later[0].ends.items())
        ),
        None,
    )


def worker_events(
    samples: Sequence[Sample], losses: Iterable[WorkerLoss], partitions: int
) -> list[Event]:
    """Return what the loss of each Worker cost the group."""
    periods = ownership_periods(samples, [], partitions)
    results: list[Event] = []
    for loss in losses:
        before = [sample for sample in samples if sample.at_ms < loss.at_ms][-1]
        end = written_after(samples, loss.at_ms)
        last = end or samples[-1]
        results.append(
            Event(
                "worker",
                loss.worker,
                loss.at_ms,
                end.at_ms - loss.at_ms if end else None,
                _moved(before.owners, last.owners, partitions),
                _longest_unowned_ms(periods, before.owners, loss.at_ms, last.at_ms),
            )
        )
    return results


class CommitGaps(NamedTuple):
    """The longest times between two commits of a partition, without the time when it had no lag.

    The first two are of partitions that kept their owner; the last is from the last commit of one
    owner to the first commit of the next.
    """

    during_rebalances_ms: int
    outside_ms: int
    across_owners_ms: int


def commit_gaps(
    samples: Sequence[Sample], rebalances: Sequence[Event], partitions: int
) -> CommitGaps:
    """Return the longest commit gaps: during rebalances, outside of them, across owners."""
    windows = [(event.at_ms, event.at_ms + (event.converged_ms or 0)) for event in rebalances]
    longest = [0, 0, 0]
    for partition in range(partitions):
        for from_ms, to_ms, owner_changed in _gaps(samples, partition):
            kind = (
                2
                if owner_changed
                else 0
                if any(start < to_ms and end > from_ms for start, end in windows)
                else 1
            )
            longest[kind] = max(longest[kind], to_ms - from_ms)
    return CommitGaps(*longest)


def _gaps(samples: Sequence[Sample], partition: int) -> Iterator[tuple[int, int, bool]]:
    """Yield each gap between commits: its start, its end, and whether the owner changed in it."""
    waiting_since_ms: int | None = None  # of its last commit, or when it last had no lag after one
    owner, offset, owner_changed = (
        samples[0].owners.get(partition),
        samples[0].committed.get(partition),
        False,
    )
    for sample in samples:
        now = sample.committed.get(partition)
        if now != offset:
            if waiting_since_ms is not None:
                yield waiting_since_ms, sample.at_ms, owner_changed
            # The first offset of all may have been committed long before the first sample.
            waiting_since_ms = None if offset is None else sample.at_ms
            offset, owner_changed = now, False
        elif waiting_since_ms is not None and now == sample.ends.get(partition):
            waiting_since_ms = sample.at_ms
        # A commit in the same sample as the change was the old owner's: it commits, then revokes.
        if sample.owners.get(partition) != owner:
            owner, owner_changed = sample.owners.get(partition), True
