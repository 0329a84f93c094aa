"""The rule of a member that reads record by record, as `poll` of a consumer works.

The member receives a new target assignment at any time, in a heartbeat. The application is told in
its next poll, so a record that it works on cannot be taken from it in between. One poll

1. shows the member that the application lives (max.poll.interval.ms), and commits if the interval
   of automatic commits is over;
2. applies a new target: it commits, calls `on_revoked` and gives up the partitions that are
   revoked, then acknowledges the target (`AdoptAssignment`), then starts the partitions that were
   added at their committed offsets and calls `on_assigned`. The order must not change. After the
   acknowledgement another member may read the revoked partitions, and it starts at the committed
   offset. And before it the added partitions are not this member's for certain: a target that is
   withdrawn before it was acknowledged counts as never used;
3. returns records that were fetched before, or fetches.

A membership that was lost (fenced, its session expired, or it left because the application did not
poll) leaves nothing to commit: others own the partitions, so they are dropped and `on_lost` is
called. The same happens where the sink of a Spark query has claimed the group.

A listener that raises ends neither the revocation nor the start of partitions: as in Kafka's
consumer, its error is raised when the assignment is applied.

The rule is a generator that yields queries (`member.queries`, `member.records.queries`). Each query
may take time in which the member receives another target or loses its membership, so what a query
depends on names its incarnation, and a change that comes meanwhile is left to the next poll.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note
from apportion.member.deleted_topics import commit_without_deleted, deleted_topic
from apportion.member.membership import MemberAssignment, MembershipState, View, assignment
from apportion.member.offset_requests import not_in_group
from apportion.member.ownership import report_adoption
from apportion.member.queries import (
    CommitOffsets,
    MembershipSnapshot,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.member.reactions import is_permanent
from apportion.member.records.fetch_buffer import ConsumerRecord, FetchBuffer
from apportion.member.records.fetch_failures import FetchFailures
from apportion.member.records.listener import RebalanceListener
from apportion.member.records.queries import (
    AwaitMembershipChange,
    CheckForTopics,
    FetchRecords,
    PollMembership,
    ReportFetch,
)
from apportion.member.records.resets import reset_offsets, reset_position
from apportion.member.records.sink_claims import SinkClaims, is_final
from apportion.rules import Rule
from apportion.topics import TopicIdPartition

FETCH_WAIT_MS = 250
REVOCATION_COMMIT_TIMEOUT_MS = 5_000
POLLS_IN_INTERVAL = 10  # how often a poll that waits shows the member that it lives


class RecordConsumerSettings(NamedTuple):
    """The settings of one consumer.

    reset: the timestamp at which a partition without a committed offset starts, EARLIEST or LATEST;
    None (auto.offset.reset=none) refuses to start. auto_commit_ms: the interval of automatic
    commits, None without. request_timeout_ms: of one request in a poll, and the longest wait for
    records.
    """

    group_id: str
    reset: int | None
    auto_commit_ms: int | None
    max_poll_interval_ms: int
    request_timeout_ms: int


class RecordConsumer:
    """The partitions of one consumer, its position in each, and what a poll does about them.

    topics: the subscription. incarnation: of the membership in which the partitions were assigned;
    0 before the first. adopted: the last target that the member is known to have adopted; None
    while that of the last one is not known. committed: the offsets that the group is known to have.
    changes: how often partitions were started or dropped.
    """

    def __init__(self, settings: RecordConsumerSettings) -> None:
        self.settings = settings
        self.topics: tuple[str, ...] = ()
        self.incarnation = 0
        self.adopted: MemberAssignment | None = ()
        self._owned: tuple[TopicIdPartition, ...] = ()  # the adopted ones that may be started
        self.committed: dict[TopicIdPartition, int] = {}
        self.changes = 0
        self.buffer = FetchBuffer()
        self._fetch_failures = FetchFailures()
        self.claims = SinkClaims(settings.group_id, self.lose_partitions)
        self._polled_at_ms = self._committed_at_ms = 0
        self._listener = RebalanceListener()
        # the member's state, if the last poll has applied all of it
        self._applied_view: View | None = None

    @property
    def positions(self) -> Mapping[TopicIdPartition, int]:
        """The offset of the next record to deliver, of each owned partition."""
        return self.buffer.positions

    def take_at_once(self, snapshot: MembershipSnapshot, limit: int) -> list[ConsumerRecord]:
        """Return the next records if a poll would do nothing else; [] otherwise.

        No query is needed for it, so a driver tries it before each `poll`: iteration would begin a
        generator for every record otherwise.
        """
        now_ms = snapshot.read_at_ms
        is_upkeep_due = self._is_poll_due(now_ms) or self._is_commit_due(now_ms)
        if snapshot.view is not self._applied_view or is_upkeep_due:
            return []
        return self.buffer.take(limit)

    def poll(self, timeout_ms: int, limit: int) -> Rule[list[ConsumerRecord]]:
        """Return the next records, which are thereby delivered; [] if none came in time.

        Raises Refused, AnotherSink, and what a listener raises.
        """
        now_ms = yield from self._stay_in_group()
        deadline_ms, has_fetched = now_ms + timeout_ms, False
        while True:
            self._applied_view = None
            self._applied_view = yield from self.apply_assignment()
            self._listener.raise_error()
            # Lost while the assignment was applied: it has to be applied anew before a delivery.
            snapshot: MembershipSnapshot = yield ReadMembership()
            if self.positions and self._has_lost(snapshot.view):
                continue
            # After the assignment was applied: what was revoked must not be delivered any more.
            records = self.buffer.take(limit)
            # With a timeout of 0 there is one fetch, and its records are returned.
            if records or (has_fetched and now_ms >= deadline_ms):
                return records
            # Before the first join no coordinator may answer yet, and that is logged elsewhere.
            if self.incarnation and snapshot.view.epoch > 0:
                yield CheckForTopics()
            wait_ms = min(
                max(0, deadline_ms - now_ms), FETCH_WAIT_MS, self.settings.request_timeout_ms
            )
            if not (yield from self._fetch(wait_ms)):
                yield AwaitMembershipChange(wait_ms)
            has_fetched = True
            now_ms = yield from self._stay_in_group()

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
        snapshot: MembershipSnapshot = yield ReadMembership()
        # 0 would commit without a member id, which an empty group accepts from anybody.
        if self.incarnation == 0:
            raise not_in_group(self.settings.group_id, snapshot.view)
        yield from self.claims.check_before_commit(
            self.incarnation, snapshot.view.epoch, self.topics
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

    def check_before_join(self) -> Rule[None]:
        """Check, before the member joins, that no sink has claimed the group."""
        yield from self.claims.check(0, self.topics)

    def close(self) -> Rule[None]:
        """Give up all partitions, with a commit if that is automatic, before the member leaves.

        Raises AnotherSink, and what a listener raises.
        """
        try:
            if self.positions:
                snapshot: MembershipSnapshot = yield ReadMembership()
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

    # ownership

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
        try:
            has_changed = yield from self._change_partitions(view)
        except (Refused, Unanswerable) as error:
            if is_final(error):
                raise
            yield Note("warning", f"cannot follow the group now: {error}")
            return None
        is_checked = yield from self.claims.check_once_per_epoch(view, self.topics)
        return view if is_checked and not has_changed else None

    def _has_lost(self, view: View) -> bool:
        """Return whether the membership was lost in which the partitions were assigned.

        The member was fenced, or its session expired: it joins in another incarnation. Or it left
        because the application did not poll in time: it has no target until the next poll.
        """
        return view.incarnation != self.incarnation or view.target is None

    def refresh_membership(self) -> Rule[MembershipSnapshot]:
        """Read the member's present state."""
        snapshot: MembershipSnapshot = yield ReadMembership()
        return snapshot

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
        stored = yield from self.claims.check(self.incarnation, (), added)
        # Without those whose topic was deleted: the group takes them back soon.
        existing = tuple(each for each in added if each in stored)
        without = [each for each in existing if stored[each].offset is None]
        starts = {each: offset for each in existing if (offset := stored[each].offset) is not None}
        # The group has these offsets: the next automatic commit leaves them out.
        self.committed |= starts
        resets = yield from reset_offsets(
            self.settings.reset, without, "the group has no committed offset for it"
        )
        self.buffer.positions.update(starts | resets)
        self.changes += 1
        # After the positions are set, so that the listener can read them.
        if existing:
            yield from self._listener.call("on_assigned", existing)

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

    # records

    def _fetch(self, wait_ms: int) -> Rule[bool]:
        """Fetch from the positions, waiting up to `wait_ms`; return False if that was impossible.

        It is impossible while the consumer owns no partition, while no broker answers, and while
        partitions with errors keep the brokers from waiting. Raises Refused for an error that no
        retry mends, with what came of other partitions in the buffer.
        """
        if not self.positions:
            return False
        try:
            fetched = yield FetchRecords(self.buffer.rotate_positions(), wait_ms)
            for partition, fetch in fetched.items():
                if fetch.code is Code.NONE:
                    self.buffer.add(partition, fetch)
            # Errors after the records: what an error ends must not lose what came beside it.
            for partition, fetch in fetched.items():
                if fetch.code is Code.OFFSET_OUT_OF_RANGE:
                    position = self.positions[partition]
                    start = yield from reset_position(self.settings.reset, partition, position)
                    self.buffer.positions.update(start)
            is_failing = yield from self._fetch_failures.record(fetched, self.positions)
        # A consumer outlives an outage of its brokers; positions are unchanged, so the next poll
        # fetches the same offsets.
        except (Refused, Unanswerable) as error:
            if is_permanent(error):
                raise
            yield ReportFetch(error)
            return False
        yield ReportFetch(None)
        return not is_failing or any(fetch.batches for fetch in fetched.values())

    # upkeep

    def _stay_in_group(self) -> Rule[int]:
        """Show the member that its application polls, and commit if that is due.

        Return the present time (monotonic ms).
        """
        snapshot: MembershipSnapshot = yield ReadMembership()
        view, now_ms = snapshot.view, snapshot.read_at_ms
        # A stale member has left its group; only a poll brings it back.
        if self._is_poll_due(now_ms) or view.state is MembershipState.STALE:
            self._polled_at_ms = now_ms
            yield PollMembership()
        if self._is_commit_due(now_ms):
            self._committed_at_ms = now_ms
            yield from self._commit_automatically(self.settings.request_timeout_ms)
        return now_ms

    def _is_poll_due(self, now_ms: int) -> bool:
        # Ten times within max.poll.interval.ms, so that a poll that waits counts as one long poll.
        interval_ms = self.settings.max_poll_interval_ms // POLLS_IN_INTERVAL
        return now_ms - self._polled_at_ms >= interval_ms

    def _is_commit_due(self, now_ms: int) -> bool:
        interval_ms = self.settings.auto_commit_ms
        return interval_ms is not None and now_ms - self._committed_at_ms >= interval_ms

    def _commit_automatically(self, timeout_ms: int) -> Rule[None]:
        """Commit what was delivered; log a failure, because a later commit covers it."""
        try:
            yield from self.commit(self.uncommitted(), timeout_ms)
        except (Refused, Unanswerable) as error:
            yield Note("warning", f"automatic commit failed: {error}")
