"""The ownership of a member that reads record by record: adopted, started, revoked and lost.

A new target is applied in this order, which must not change: commit, call `on_revoked` and give up
the partitions that are revoked; then acknowledge the target (`AdoptAssignment`); then start the
partitions that were added at their committed offsets and call `on_assigned`. After the
acknowledgement another member may read the revoked partitions, and it starts at the committed
offset. And before it the added partitions are not this member's for certain: a target that is
withdrawn before it was acknowledged counts as never used.

A membership that was lost (fenced, its session expired, or it left because the application did not
poll) leaves nothing to commit: others own the partitions, so they are dropped and `on_lost` is
called. The same happens where the sink of a Spark query has claimed the group.

A listener that raises ends neither the revocation nor the start of partitions: as in Kafka's
consumer, its error is raised when the assignment is applied.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from apportion.errors import Refused, Unanswerable
from apportion.machine import Note
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.deleted_topics import commit_without_deleted, deleted_topic
from apportion.member.group_claims import AnotherSink, EpochCheck
from apportion.member.membership import (
    CoordinatorFound,
    Leave,
    MemberAssignment,
    MembershipState,
    Unanswered,
    View,
    assignment,
)
from apportion.member.offset_requests import not_in_group
from apportion.member.ownership import report_adoption
from apportion.member.queries import (
    CommitOffsets,
    MembershipSnapshot,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.member.reactions import is_lost_membership, is_permanent
from apportion.member.records.fetch_buffer import FetchBuffer
from apportion.member.records.listener import RebalanceListener
from apportion.member.records.resets import KnownPartitions, reset_offsets
from apportion.member.records.sink_claims import JoinCheck, fetch_offsets_unless_claimed
from apportion.member.refused_topics import raise_refusal
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

REVOCATION_COMMIT_TIMEOUT_MS = 5_000


class RecordConsumerSettings(NamedTuple):
    """The settings of one consumer.

    reset: the timestamp at which a partition without a committed offset starts, EARLIEST or LATEST
    (which a new partition does not: `KnownPartitions`); None (auto.offset.reset=none) refuses to
    start. auto_commit_ms: the interval of automatic
    commits, None without. request_timeout_ms: of one request in a poll, and the longest wait for
    records.
    """

    group_id: str
    reset: int | None
    auto_commit_ms: int | None
    max_poll_interval_ms: int
    request_timeout_ms: int


class RecordOwnership:
    """The partitions of one consumer, its position in each, and the offsets that it has committed.

    topics, expression: the subscription; the expression is "" for none. incarnation: of the
    membership in which the partitions were assigned; 0 before the first. adopted: the last target
    that the member is known to have adopted; None while that of the last one is not known.
    committed: the offsets that the group is known to have. changes: how often partitions were
    started or dropped.
    """

    def __init__(self, settings: RecordConsumerSettings) -> None:
        self.settings = settings
        self.topics: tuple[str, ...] = ()
        self.expression = ""
        self.incarnation = 0
        self.adopted: MemberAssignment | None = ()
        self._owned: tuple[TopicIdPartition, ...] = ()  # the adopted ones that may be started
        self.committed: dict[TopicIdPartition, int] = {}
        self.changes = 0
        self.buffer = FetchBuffer()
        self._epoch_check, self._commit_check = EpochCheck(), EpochCheck()
        self._committed_at_ms = 0
        self._listener = RebalanceListener()
        self._join_check = JoinCheck(settings.group_id)
        self._known_partitions = KnownPartitions()

    @property
    def positions(self) -> Mapping[TopicIdPartition, int]:
        """The offset of the next record to deliver, of each owned partition."""
        return self.buffer.positions

    def commit(
        self, offsets: Mapping[TopicIdPartition, int], timeout_ms: int | None = None
    ) -> Rule[None]:
        """Commit these offsets, the next to read.

        Raises Refused if this consumer may no longer commit, or if topics were deleted, after the
        commit of the others; AnotherSink if a sink has claimed the group, Unanswerable where no
        coordinator answers.
        """
        if not offsets:
            return
        snapshot = yield from self.read_membership()
        # 0 would commit without a member id, which an empty group accepts from anybody.
        if self.incarnation == 0:
            raise not_in_group(self.settings.group_id, snapshot.view)
        # A query that has joined since the last check may have needed a moment to claim the group.
        yield from self._commit_check.run(
            self.incarnation, snapshot.view.epoch, self._check_claims(self._checked_topics())
        )
        request = CommitOffsets(offsets, self.incarnation, timeout_ms=timeout_ms)
        deleted = yield from commit_without_deleted(request)
        self.committed |= offsets  # also of deleted topics: no later commit can have them
        self._committed_at_ms = snapshot.read_at_ms
        if deleted:
            raise deleted_topic(deleted)

    def uncommitted(self) -> dict[TopicIdPartition, int]:
        """Return the positions that the group does not have yet."""
        return {
            partition: offset
            for partition, offset in self.positions.items()
            if self.committed.get(partition) != offset
        }

    def _commit_automatically(self, timeout_ms: int) -> Rule[None]:
        """Commit what was delivered; log a failure, because a later commit covers it."""
        try:
            yield from self.commit(self.uncommitted(), timeout_ms)
        except (Refused, Unanswerable) as error:
            yield Note("warning", f"automatic commit failed: {error}")

    def check_before_join(
        self, found: CoordinatorFound
    ) -> Rule[CoordinatorFound | Unanswered | Leave]:
        """Check that no sink has claimed the group; return the member's next event.

        The member joins only after `found`: see `JoinCheck`.
        """
        event = yield from self._join_check.run(found, self.topics)
        if event is found:
            try:
                yield from self._look_at_topics()
            except (Refused, Unanswerable) as error:
                if not is_permanent(error):
                    return Unanswered(found.request_id, str(error))
        return event

    def _look_at_topics(self) -> Rule[None]:
        """Note which partitions the subscribed topics have, where a later one starts elsewhere."""
        if self.settings.reset == LATEST:
            yield from self._known_partitions.look(self.topics, self.expression)

    def close(self) -> Rule[None]:
        """Give up all partitions, with a commit if that is automatic, before the member leaves.

        Raises AnotherSink, and what a listener raises.
        """
        try:
            if self.positions:
                snapshot = yield from self.read_membership()
                if self._has_lost(snapshot.view):
                    yield from self.lose_partitions()
                else:
                    yield from self._revoke_partitions(tuple(self.positions))
        finally:
            # Also without partitions: `on_lost` may have raised before an error that ended a poll.
            self._listener.raise_error()

    def lose_partitions(self) -> Rule[None]:
        """Drop every partition without a commit, and call `on_lost`."""
        if self.positions:
            lost = tuple(self.positions)
            # Before the listener, so that a commit in it cannot name what others own.
            yield from self.drop_partitions(lost)
            yield from self._listener.call("on_lost", lost)

    def apply_assignment(self) -> Rule[View | None]:
        """Apply the member's target: revoke partitions, adopt the target, start the gained ones.

        Return the member's state if there was nothing to apply; None if the next poll has to look
        again.
        """
        snapshot = yield from self.refresh_membership()
        view = snapshot.view
        # on_lost before the error, so that the application stops its work on the partitions that it
        # no longer has.
        if view.state is MembershipState.FATAL and view.error is not None:
            yield from self.lose_partitions()
            raise Refused(view.error.code, view.error.why)
        if self._has_lost(view):
            # Others may own its partitions by now.
            yield from self.lose_partitions()
            self.incarnation, self.adopted, self._owned = view.incarnation, (), ()
        yield from raise_refusal(view, self.topics)
        try:
            has_changed = yield from self._change_partitions(view)
        except (Refused, Unanswerable) as error:
            if is_final(error):
                raise
            yield Note("warning", f"cannot follow the group now: {error}")
            return None
        is_checked = yield from self._check_epoch(view)
        return view if is_checked and not has_changed else None

    def _check_epoch(self, view: View) -> Rule[bool]:
        """Check the group for claims in each new epoch, for every poll.

        Return False if the coordinator does not answer: a later poll checks again.
        """
        if view.epoch <= 0:
            return True
        try:
            yield from self._epoch_check.run(
                view.incarnation, view.epoch, self._check_claims(self._checked_topics())
            )
        except (Refused, Unanswerable) as error:
            if is_final(error):
                raise
            why = f"cannot check now whether a sink has claimed the group: {error}"
            yield Note("warning", why)
            return False
        return True

    def _check_claims(
        self, names: Iterable[str], added: tuple[TopicIdPartition, ...] = ()
    ) -> Rule[Mapping[TopicIdPartition, OffsetAndMetadata]]:
        """Return committed offsets as `fetch_offsets_unless_claimed` does.

        Raises AnotherSink if a sink has claimed the group; then all partitions are lost.
        """
        try:
            return (
                yield from fetch_offsets_unless_claimed(
                    self.settings.group_id, self.incarnation, names, added
                )
            )
        except AnotherSink:
            # A revocation would commit.
            yield from self.lose_partitions()
            raise

    def _checked_topics(self) -> tuple[str, ...]:
        """Return the topics whose committed offsets are checked for claims.

        Those that an expression matches are known only when this consumer owns partitions of them.
        """
        if not self.expression:
            return self.topics
        return tuple(dict.fromkeys((*self.topics, *(each.topic for each in self._owned))))

    def _has_lost(self, view: View) -> bool:
        """Return whether the membership was lost in which the partitions were assigned.

        The member was fenced, or its session expired: it joins in another incarnation. Or it left
        because the application did not poll in time: it has no target until the next poll.
        """
        return view.incarnation != self.incarnation or view.target is None

    def refresh_membership(self) -> Rule[MembershipSnapshot]:
        """Read the member's present state, for `apply_assignment`."""
        return (yield from self.read_membership())

    def read_membership(self) -> Rule[MembershipSnapshot]:
        """Read the member's present state. Raises as `check_join` does."""
        self.check_join()
        snapshot: MembershipSnapshot = yield ReadMembership()
        return snapshot

    def check_join(self) -> None:
        """Raise AnotherSink if the check before the join has kept the member out of the group."""
        if self._join_check.refusal is not None:
            raise self._join_check.refusal

    def resolve_partitions(self, target: MemberAssignment) -> Rule[Sequence[TopicIdPartition]]:
        """Return those partitions of a target that can be used, with their topics' names."""
        partitions: Sequence[TopicIdPartition] = yield ResolveTopicNames(target)
        return partitions

    def drop_partitions(self, dropped: Iterable[TopicIdPartition]) -> Rule[None]:
        """Forget positions, fetched batches and decoded records of these partitions."""
        partitions = tuple(dropped)
        self.buffer.drop(partitions)
        self.changes += 1
        for partition in partitions:
            self.committed.pop(partition, None)
        yield from ()

    def _change_partitions(self, view: View) -> Rule[bool]:
        """Own what the member's target says; return False if that is so already."""
        has_target = view.target is not None and not view.target == view.owned == self.adopted
        if has_target:
            yield from self._look_at_topics()  # unless the join did: `subscribe` may come later
            yield from self._adopt_target(view)
        # Also those whose committed offsets could not be fetched by an earlier poll.
        added = tuple(each for each in self._owned if each not in self.positions)
        if added:
            yield from self._start_partitions(added)
        return has_target or bool(added)

    def _adopt_target(self, view: View) -> Rule[None]:
        """Give up the partitions that are not in the target, and acknowledge it to the member."""
        assert view.target is not None
        assigned = tuple((yield from self.resolve_partitions(view.target)))
        kept = dict.fromkeys(assigned)
        revoked = tuple(each for each in self.positions if each not in kept)
        # Revoked first, as in Kafka: on_revoked before on_assigned, and the last commit before
        # anything new is read.
        if revoked:
            yield from self._revoke_partitions(revoked)
        self.adopted = None
        adopted = assignment(partition.id_partition for partition in assigned)
        if (yield from report_adoption(view, adopted)):
            self.adopted, self._owned = adopted, assigned
        else:
            # Nothing is started that was not adopted: the member has told the coordinator that a
            # partition which it never adopted is not in use. The next poll adopts the target again.
            self._owned = tuple(each for each in assigned if each in self.positions)

    def _start_partitions(self, added: tuple[TopicIdPartition, ...]) -> Rule[None]:
        """Set the positions of partitions that were assigned, and call `on_assigned`."""
        # Fetched as this member at its epoch, and only now: before the assignment the last owner
        # may still commit.
        stored = yield from self._check_claims((), added)
        # Without those whose topic was deleted: the group takes them back soon.
        existing = tuple(each for each in added if each in stored)
        without = [each for each in existing if stored[each].offset is None]
        new = [each for each in without if self._is_read_from_its_start(each)]
        starts = {each: offset for each in existing if (offset := stored[each].offset) is not None}
        # The group has these offsets: the next automatic commit leaves them out.
        self.committed |= starts
        resets = yield from reset_offsets(
            self.settings.reset,
            [each for each in without if each not in new],
            "the group has no committed offset for it",
        )
        beginnings = yield from reset_offsets(EARLIEST, new, "it is new")
        self.buffer.positions.update(starts | resets | beginnings)
        self.changes += 1
        # After the positions are set, so that the listener can read them.
        if existing:
            yield from self._listener.call("on_assigned", existing)

    def _is_read_from_its_start(self, partition: TopicIdPartition) -> bool:
        """Return whether a partition without a committed offset is read from its first record."""
        return self.settings.reset == LATEST and self._known_partitions.is_new(partition)

    def _revoke_partitions(self, revoked: tuple[TopicIdPartition, ...]) -> Rule[None]:
        """Commit if that is automatic, call `on_revoked`, and drop these partitions."""
        # The commit and the listener come first: both may need the positions.
        if self.settings.auto_commit_ms is not None:
            timeout_ms = min(REVOCATION_COMMIT_TIMEOUT_MS, self.settings.request_timeout_ms)
            yield from self._commit_automatically(timeout_ms)
        yield from self._listener.call("on_revoked", revoked)
        # As in Kafka: the revocation is complete, whatever the listener raises. Else every poll
        # would call it again for the same partitions.
        yield from self.drop_partitions(revoked)


def is_final(error: Refused | Unanswerable) -> bool:
    """Return whether a poll has to raise an error of the cluster: no later poll can succeed.

    A lost membership is no such error: the member's next state shows what follows.
    """
    is_lost = isinstance(error, Refused) and is_lost_membership(error.code)
    return is_permanent(error) and not is_lost
