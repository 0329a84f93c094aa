"""Checks that replaying a log gives the running coordinator's saved state, also after compaction.

A second reader follows each log from where it stopped, so the whole log is read once; after a
restart of the broker it begins anew.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apportion.coord.config import GroupSettings
from apportion.coord.shard import Shard
from apportion.node.coordinator_log import stored_records
from apportion.node.partitions import Partition
from apportion.sim.checks.saved import (
    compact,
    difference_or_none,
    read_during_compaction,
    replay_records,
    saved_state,
)
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import Topics

if TYPE_CHECKING:
    from apportion.coord.records import CoordinatorRecord
    from apportion.coord.replay import Ledger

Shards = Iterable[tuple[Partition, Shard]]


class LogFollower:
    """A shard built from the log alone, up to `next_offset`, with the records read so far."""

    __slots__ = ("live", "next_offset", "records", "shard")

    def __init__(self, live: Shard) -> None:
        """Begin with an empty shard, to compare with the running one once the log is replayed."""
        self.live = live
        self.shard = Shard(GroupSettings(), Topics())
        self.records: list[CoordinatorRecord] = []
        self.next_offset = 0

    def follow(self, partition: Partition) -> None:
        """Replay the coordinator's log to its end, from where the last call stopped.

        `ReplayChecker` compares the result with the broker's shard.
        """
        if self.next_offset < partition.log.next_offset:
            for record in stored_records(partition, self.next_offset):
                self.shard.replay(record)
                self.records.append(record)
            self.next_offset = partition.log.next_offset


class ReplayChecker:
    """The followers of all logs.

    checked_at: the step of the last comparison.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.checked_at = 0
        self._simulation = simulation
        # A stream of its own, so that these draws change nothing in the history.
        self._rng = simulation.random_stream("log cleaner")
        self._followers: dict[int, LogFollower] = {}

    def forget(self) -> None:
        """Forget all followers, as the broker has restarted."""
        self._followers.clear()

    def check(self, shards: Shards) -> None:
        """Check that every shard of the broker has saved what its log says."""
        self.checked_at = self._simulation.steps
        for partition, shard in shards:
            replayed = self._follower(partition, shard).shard.ledger
            _compare("replay-equals-live", shard.ledger, replayed)

    def check_compacted(self, shards: Shards) -> None:
        """Check replays of coordinator logs of which a first part was compacted.

        The log cleaner passes over them before they are read, or while they are read.
        """
        for partition, shard in shards:
            records = self._follower(partition, shard).records
            cleaned = self._rng.randint(0, len(records))
            if self._rng.random() < 0.5:
                remaining = compact(records, cleaned, drops_tombstones=self._rng.random() < 0.5)
            else:
                remaining = read_during_compaction(records, self._rng.randint(0, cleaned), cleaned)
            try:
                ledger = replay_records(remaining)
            except Exception as error:
                raise LawBroken(
                    "compacted-replay-equals-live",
                    f"the replay stops with {type(error).__name__}: {error}",
                ) from error
            _compare("compacted-replay-equals-live", shard.ledger, ledger)

    def _follower(self, partition: Partition, shard: Shard) -> LogFollower:
        """Return the follower of a coordinator shard's log, which has read it to its end."""
        follower = self._followers.get(partition.index)
        # A failed flush made the coordinator load this shard anew, from a log that is shorter by
        # now.
        if follower is None or follower.live is not shard:
            follower = self._followers[partition.index] = LogFollower(shard)
        follower.follow(partition)
        return follower


def _compare(law: str, live: "Ledger", replayed: "Ledger") -> None:
    """Raise LawBroken where a replay has saved something else than the running shard."""
    difference = difference_or_none(saved_state(live), saved_state(replayed))
    if difference is not None:
        raise LawBroken(law, difference)
