"""The membership of a member that works in micro-batches: owned partitions and committed offsets.

Ownership changes between two batches only: the coordinator's target is adopted here when the next
batch is planned, and the adoption is what acknowledges a revocation (KIP-848).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from apportion.machine import Note
from apportion.member.batch.data_loss import DataLossCheck
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.queries import NotReady, NotReadyForATime
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.deleted_topics import commit_without_deleted
from apportion.member.membership import MembershipState, View
from apportion.member.ownership import report_adoption
from apportion.member.queries import (
    CommitOffsets,
    MembershipSnapshot,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.member.refused_topics import raise_refusal
from apportion.rules import Rule
from apportion.topics import TopicId, TopicIdPartition

FULL_ASSIGNMENT_GRACE_MS = 5_000
ASSIGNMENT_CHANGED = "the group has changed this member's assignment meanwhile"


class MembershipFailed(RuntimeError):
    """The member cannot be in its group; the text says why."""


class AssignmentIncomplete(NotReadyForATime):
    """The coordinator will assign more partitions to this member than it has assigned so far."""


class BatchOwnership(NamedTuple):
    """The partitions of the last span, and the incarnation of the member that owned them."""

    incarnation: int
    partitions: Mapping[TopicIdPartition, None]

    def without(self, partitions: tuple[TopicIdPartition, ...]) -> "BatchOwnership":
        """Return a batch member's ownership without these partitions, whose topics are deleted."""
        return self._replace(
            partitions=dict.fromkeys(
                partition for partition in self.partitions if partition not in partitions
            )
        )


class BatchMembership:
    """Partitions and committed offsets of a member that works in micro-batches.

    ownership: what the last span read. committed: what this member has committed in this
    incarnation.
    """

    def __init__(self, group: BatchGroup, data_loss: DataLossCheck) -> None:
        self._group = group
        self._data_loss = data_loss
        # the partition counts of the topics that existed when this member first asked
        self._partition_counts: dict[TopicId, int] | None = None
        self._missing = TopicChoice()  # what did not exist then, and was not assigned since
        self._session_timeout_ms: int | None = None  # as it was read last
        self.forget()

    def forget(self) -> None:
        """Reset everything that belongs to a membership: the batch member has left."""
        self.ownership = BatchOwnership(0, {})
        self.committed: dict[TopicIdPartition, int] = {}
        # the last incarnation that had an assignment, and when that was first seen (monotonic ms)
        self._assigned_since: tuple[int, int] | None = None

    def is_new(self, partition: TopicIdPartition) -> bool:
        """Return whether the partition appeared after this member first saw its topic."""
        return partition.partition >= (self._partition_counts or {}).get(partition.topic_id, 0)

    def missing_topics(self) -> TopicChoice:
        """Return the topics that did not exist at the start and were never this member's."""
        return self._missing

    def require(self) -> Rule[View]:
        """Return the batch member's view if it was accepted within a session timeout.

        Forgets ownership and commits of an earlier incarnation. The first assignment of each
        starts the grace of `require_full_assignment`.
        Raises NotReady while there is no assignment, MembershipFailed if there will be none.
        """
        snapshot: MembershipSnapshot = yield ReadMembership()
        view = snapshot.view
        # No retry helps, and a source that goes on returning its last span would look idle for
        # ever.
        if view.state is MembershipState.FATAL:
            raise MembershipFailed(str(view.error))
        yield from raise_refusal(view, self._group.topics.names)
        if self._partition_counts is None:
            yield from self._read_initial_topics()
        if view.incarnation != self.ownership.incarnation:
            # The membership was lost since the last batch: others may have read on.
            self.ownership, self.committed = BatchOwnership(view.incarnation, {}), {}
        if view.epoch <= 0 or view.target is None:
            raise NotReady(f"the member has no assignment yet: it {view.state.value}")
        if self._assigned_since is None or view.incarnation != self._assigned_since[0]:
            self._assigned_since = view.incarnation, snapshot.read_at_ms
        yield from self._require_heartbeat(snapshot)
        return view

    def _require_heartbeat(self, snapshot: MembershipSnapshot) -> Rule[None]:
        """Raise NotReady if no heartbeat of this member was accepted for a session timeout.

        The session may have expired then, and the partitions may have a new owner.
        """
        # A session is longer than the heartbeat interval that the coordinator gave beside it. After
        # a silence of more the timeout is read anew: an operator may have lowered it meanwhile.
        interval_ms = snapshot.view.heartbeat_interval_ms
        timeout_ms = self._session_timeout_ms
        if timeout_ms is None or is_silent(snapshot, min(timeout_ms, interval_ms)):
            self._session_timeout_ms = timeout_ms = yield from self._group.fetch_session_timeout()
            snapshot = yield ReadMembership()
        if is_silent(snapshot, timeout_ms):
            raise NotReady(f"the coordinator has accepted no heartbeat for {timeout_ms} ms")

    def _read_initial_topics(self) -> Rule[None]:
        """Read the partition counts at the start of this process.

        Partitions that appear later are read from their beginning, whatever startingOffsets says.
        """
        topics = yield from self._group.fetch_topics()
        self._partition_counts = {topic.id: topic.partitions for topic in topics}
        self._missing = TopicChoice(
            tuple(name for name in self._group.topics.names if topics.named(name) is None),
            "" if topics else self._group.topics.expression,
        )
        if self._missing.expression:
            yield Note(
                "warning",
                f"no topic matches {self._missing.expression} yet; those that come are read from "
                "their beginning",
                ": is the pattern right?",
            )
        for name in self._missing.names:
            yield Note(
                "warning",
                f"topic {name} does not exist yet; it is read from its beginning once it does",
                f": {self._group.missing_topic_remedy(name)}",
            )

    def adopt_target(self, view: View) -> Rule[tuple[TopicIdPartition, ...]]:
        """Adopt the coordinator's target for a member that works in micro-batches; return it.

        Raises NotReady if the coordinator has changed the target meanwhile.
        """
        assert view.target is not None
        # Before the adoption: if the names cannot be fetched now, nothing has changed yet.
        owned: tuple[TopicIdPartition, ...] = yield ResolveTopicNames(view.target)
        if view.target != view.owned:
            # Revoked partitions are dropped here first, and only then acknowledged: if this
            # attempt ends in between, nothing is read of a partition that may be another's.
            self.ownership = BatchOwnership(
                view.incarnation,
                dict.fromkeys(
                    partition for partition in owned if partition in self.ownership.partitions
                ),
            )
            if not (yield from report_adoption(view, view.target)):
                raise NotReady(ASSIGNMENT_CHANGED)
        return owned

    def record_batch(self, owned: tuple[TopicIdPartition, ...]) -> None:
        """Record the partitions of the span that was planned."""
        self.ownership = self.ownership._replace(partitions=dict.fromkeys(owned))
        read = {partition.topic for partition in owned}
        self._missing = TopicChoice(
            tuple(name for name in self._missing.names if name not in read),
            "" if read else self._missing.expression,
        )

    def require_full_assignment(
        self, until_ms: int | None = None, limit_ms: int | None = None
    ) -> Rule[None]:
        """Raise AssignmentIncomplete while the group will assign more to this member.

        Raises NotReady if what it has assigned is not what this member has adopted.
        A coordinator may admit a member before it has computed its assignment, or while others
        still own its partitions. A query that reads what is there and stops (availableNow) would
        stop too early; one that restarts would forget its position in partitions that are yet to
        come.
        until_ms: wait no longer (monotonic ms); None: a session timeout and a grace time after the
        first assignment. limit_ms: how long the whole wait may take, for the error's text.
        """
        if until_ms is None:
            assert self._session_timeout_ms is not None, "`require` has read it"
            assert self._assigned_since is not None, "`require` has seen the assignment"
            limit_ms = self._session_timeout_ms + FULL_ASSIGNMENT_GRACE_MS
            until_ms = self._assigned_since[1] + limit_ms
        snapshot: MembershipSnapshot = yield ReadMembership()
        # A heartbeat may have brought the rest since the plan adopted a part: the assignment is
        # full, and the plan is not.
        if snapshot.view.target != snapshot.view.owned:
            raise NotReady(ASSIGNMENT_CHANGED)
        if snapshot.read_at_ms < until_ms and not (
            yield from self._group.has_full_assignment(snapshot.view)
        ):
            # The same text on each try: the driver logs a text once.
            limit = "" if limit_ms is None else f" up to {limit_ms / 1000:g} s"
            raise AssignmentIncomplete(
                "the group is still rebalancing, as is usual when a member starts or ends; the "
                f"query waits{limit} for the partitions that this member is about to get"
            )

    def commit(self, offsets: Mapping[TopicIdPartition, int], metadata: str) -> Rule[None]:
        """Commit offsets with the batch member's epoch, but those that the group has already.

        Offsets of deleted topics are reported as data loss and left out.
        """
        new = {
            partition: offset
            for partition, offset in offsets.items()
            if self.committed.get(partition) != offset
        }

        def report(deleted: tuple[TopicIdPartition, ...]) -> Rule[None]:
            yield from self._data_loss.report_deleted(new, deleted)
            self.ownership = self.ownership.without(deleted)

        request = CommitOffsets(new, self.ownership.incarnation, metadata)
        yield from commit_without_deleted(request, report)
        self.committed.update(new)

    def forget_committed(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Let the next commit of these partitions be sent, even of the same offsets."""
        for partition in partitions:
            self.committed.pop(partition, None)


def is_silent(snapshot: MembershipSnapshot, limit_ms: int) -> bool:
    """Return whether no heartbeat of this member was accepted for that long."""
    accepted_ms = snapshot.view.last_accepted_ms
    return accepted_ms is None or snapshot.read_at_ms - accepted_ms > limit_ms
