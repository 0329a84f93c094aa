"""The group member behind one Spark query: the driver of a batch planner.

`member/batch/planner.py` decides what a micro-batch reads. It is a generator: it yields queries,
and this module answers each one from the membership, from the cluster or from what the writers
reported. The heartbeat thread of the membership receives a new target assignment at any time; only
`next_span` adopts it, between two micro-batches. Spark asks for a batch after it has committed the
one before, so the span that comes back as `previous` is in the sink: the planner builds on that.

The driver decides when an error ends the query; `retry_limits.py` has the times. No record is read
here.
"""

import logging
from time import monotonic
from typing import ClassVar
from uuid import uuid4

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.group_membership import GroupMembership
from apportion.client.member_answers import ANSWERS, Answers, RuleDriver
from apportion.client.members import GroupMember, make_member
from apportion.client.network_client import RetryTimer
from apportion.coord.config import GroupSettings
from apportion.drive.clocks import now
from apportion.errors import Refused
from apportion.machine import Note
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import (
    EndMembership,
    NotReady,
    NotReadyForATime,
    ReadWriterReport,
    SessionTimeout,
    StartMembership,
)
from apportion.member.batch.span import Span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.group_claims import AnotherSink
from apportion.member.queries import AskCoordinator
from apportion.readable import readable
from apportion.spark import handover, retry_limits
from apportion.spark.options import SourceOptions
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.messages.list_offsets import LATEST

# A new query waits this long for its first assignment: else Spark would begin with an empty batch.
FIRST_ASSIGNMENT_WAIT_S = 3.0
LEAVE_TIMEOUT_MS = 3_000
CALL_TIMEOUT_MS = 5_000
IDLE_WAIT_MS = 100
RETRY_WAIT_MS = 500

log = logging.getLogger("apportion.spark")


class BatchMember(RuleDriver):
    """A member of the query's group, which plans one offset range for each micro-batch.

    The member joins when the batch planner asks for it: once the group belongs to this query's
    sink. Every method runs on the thread on which Spark plans micro-batches; heartbeats have their
    own.
    """

    _request_timeout_ms = CALL_TIMEOUT_MS

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.cluster = Cluster(
            options.bootstrap, client_id=options.client_id, timeout_ms=options.request_timeout_ms
        )
        self._membership = self._new_membership()
        self.planner = BatchPlanner(
            BatchGroup(options.group, options.topics, classic=options.classic),
            # Used by a new checkpoint alone: every later span copies the id of the one before.
            checkpoint=uuid4().hex,
            starting=options.starting,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        # By partition, the end offset that trigger(availableNow=True) stops at.
        self._end_limits: dict[TopicIdPartition, int] | None = None
        self._failing_since_s: float | None = None  # since when no batch could be planned
        self._started_s = self._last_returned_s = monotonic()
        self._last_logged = ""
        self._has_joined = False
        # True at first: a process that was lost may have left reports of its writers.
        self._has_stale_reports = True
        self._last_report = NO_REPORT

    def _new_membership(self) -> GroupMembership[GroupMember]:
        member = make_member(self.options.group, **self.options.membership())
        return GroupMembership(self.cluster, member, self.options.topics)

    def close(self, timeout_ms: int = LEAVE_TIMEOUT_MS) -> None:
        """Leave the group, waiting at most `timeout_ms`."""
        if self._has_joined:
            self._membership.leave(timeout_ms)
        self.cluster.close()

    def touch(self) -> None:
        """Restart the poll timer, as KafkaConsumer.poll() does (kafka.max.poll.interval.ms)."""
        if self._has_joined:
            self._membership.touch()

    def stop_at_present_ends(self) -> None:
        """Read no partition beyond its present end from now on, for trigger(availableNow=True)."""
        limit_s = retry_limits.NO_PROGRESS_TIMEOUT_S
        timer = RetryTimer(int(limit_s * 1000))
        while True:
            try:
                topics = self.cluster.topics(self.options.topics, fresh=True)
                partitions = [each for topic in topics for each in partitions_of(topic)]
                self._end_limits = self.cluster.list_offsets(
                    partitions, LATEST, timeout_ms=CALL_TIMEOUT_MS
                )
                return
            except (Refused, Disconnected) as error:
                self._log(retry_limits.waiting_text(error, limit_s))
                timer.pause(
                    MembershipFailed(
                        f"the ends of {', '.join(self.options.topics)} cannot be read: {error}"
                        f"{retry_limits.remedy(error)}"
                    )
                )

    def next_span(self, previous: Span, limit: int | None) -> Span:
        """Return the span to read after `previous`, for Spark's latestOffset.

        Returns `previous` itself if there is nothing new, or if nothing can be planned now. After
        `stop_at_present_ends` an unchanged span ends the query, so then it is returned only when
        everything is known to be read.

        limit: maxOffsetsPerTrigger. Raises DataLoss, MembershipFailed, AnotherSink.
        """
        self._warn_of_long_batch()
        try:
            return self._plan_with_retries(previous, limit)
        finally:
            self._last_returned_s = monotonic()

    def _plan_with_retries(self, previous: Span, limit: int | None) -> Span:
        """Plan the next span; while that fails for now, retry, or return `previous` to Spark."""
        limit_ms = int(retry_limits.NO_PROGRESS_TIMEOUT_S * 1000)
        deadline_ms = now().mono_ms + limit_ms
        while True:
            self.touch()
            try:
                # The whole plan is made anew on each try: the planner keeps a state from which it
                # can go on.
                following = self._run(self.planner.plan_next(previous, limit, self._end_limits))
                if (
                    self._end_limits is not None
                    and not following.question_number
                    and following.end_offsets() == previous.end_offsets()
                ):
                    # Spark takes an unchanged span for the end: no partition may be on its way.
                    self._run(self.planner.require_full_assignment(deadline_ms, limit_ms))
                self._failing_since_s = None
                self._log("")
                # After the plan: until then a restart would ask for the same reports again.
                self._delete_stale_reports(previous)
                # Spark asks about every 10 ms when idle; waiting here spares the brokers, and a new
                # target ends the wait.
                if following == previous and self._end_limits is None:
                    self._membership.wait(lambda view: view.target != view.owned, IDLE_WAIT_MS)
                return following
            except (NotReady, Refused, Disconnected) as error:
                is_late = monotonic() - self._started_s > FIRST_ASSIGNMENT_WAIT_S
                # Every join takes a moment: a new query does not warn of it.
                if self.planner.planned_incarnation or is_late:
                    self._log(retry_limits.waiting_text(error, self._retry_limit_s(error)))
                self._raise_if_hopeless(error)
                # With end limits, returning `previous` would say that all is read.
                may_skip = self._end_limits is None and (bool(previous.ranges) or is_late)
                # Spark has no limit for latestOffset, and heartbeats go on in their own thread, so
                # blocking here is safe.
                self._membership.wait_for_change(IDLE_WAIT_MS if may_skip else RETRY_WAIT_MS)
                if may_skip:
                    return previous
            except (MembershipFailed, AnotherSink) as failed:
                # An exception in latestOffset ends the query at once, so its text is all that a
                # person gets to see.
                raise type(failed)(f"group {self.options.group}: {failed}") from None

    def ends(self) -> dict[TopicIdPartition, int]:
        """Return the last known end offset of each owned partition."""
        return dict(self.planner.ends)

    def _read_writer_report(self, previous: Span) -> WriterReport:
        """Return the writers' report about the batch of this span."""
        report = handover.read_reports(previous)
        self._has_stale_reports = self._has_stale_reports or report != NO_REPORT
        self._last_report = report
        return report

    def _delete_stale_reports(self, previous: Span) -> None:
        """Delete the reports of earlier spans, unless a restart may still need them.

        Spark has stored `previous` by now. If it names its sinks and has no report of its own, then
        whatever earlier reports said is part of it.
        """
        if (
            self._has_stale_reports
            and previous.sinks is not None
            and self._last_report == NO_REPORT
        ):
            handover.delete_reports(previous)
            self._has_stale_reports = False

    def _join(self) -> None:
        """Join the group, for the rule's query StartMembership."""
        if not self._has_joined:
            # Before `start`: if that fails, `close` must still stop what has begun.
            self._has_joined = True
            self._started_s = monotonic()
            self._membership.start()

    def _leave(self) -> None:
        """Leave the group, for the rule's query EndMembership."""
        # A membership that has ended cannot join again.
        if self._has_joined:
            self._has_joined = False
            self._membership.leave(LEAVE_TIMEOUT_MS, for_good=True)
            self._membership = self._new_membership()

    def _session_timeout_ms(self) -> int:
        """Return how long a silent member stays in the group: a classic member decides that."""
        if self.options.classic:
            return self.options.session_timeout_ms
        # Kafka's default is also ours; it is for brokers that do not tell their configuration.
        default_ms = GroupSettings().group_consumer_session_timeout_ms
        return int(self.cluster.broker_setting("group.consumer.session.timeout.ms") or default_ms)

    def _log_note(self, note: Note) -> None:
        log.log(
            logging.getLevelName(note.level.upper()),
            "group %s: %s",
            readable(self.options.group),
            readable(note.text + note.hint),
        )

    def _raise_if_hopeless(self, error: Exception) -> None:
        """Raise MembershipFailed where retrying any longer would only hide the fault."""
        if isinstance(error, NotReadyForATime):
            self._failing_since_s = None
            return
        if self._failing_since_s is None:
            self._failing_since_s = monotonic()
        waited_s, limit_s = monotonic() - self._failing_since_s, self._retry_limit_s(error)
        if limit_s is not None and waited_s > limit_s:
            raise MembershipFailed(
                f"group {self.options.group} at {self.options.bootstrap}: nothing to read "
                f"for {waited_s:.0f} s: {error}{retry_limits.remedy(error)}"
            ) from error

    def _retry_limit_s(self, error: Exception) -> float | None:
        return retry_limits.retry_limit_s(
            error,
            has_assignment=self.planner.planned_incarnation != 0,
            must_end=self._end_limits is not None,
            # JoinGroup is held back until every member has rejoined, which may take their longest
            # rebalance timeout.
            join_limit_s=self.options.rebalance_timeout_ms / 1000 if self._is_join_pending() else 0,
        )

    def _is_join_pending(self) -> bool:
        """Return whether JoinGroup is pending: the coordinator waits for the other members.

        In a classic group that takes up to the largest rebalance timeout of a member.
        """
        view = self._membership.status()
        return self.options.classic and bool(view.member_id) and view.target is None

    def _warn_of_long_batch(self) -> None:
        """Log a warning if the last batch took over half of kafka.max.poll.interval.ms."""
        took_ms = (monotonic() - self._last_returned_s) * 1000
        if took_ms > self.options.rebalance_timeout_ms / 2:
            log.warning(
                "group %s: the last batch took %.0f s; after %.0f s "
                "(kafka.max.poll.interval.ms) the query loses its partitions: "
                "lower maxOffsetsPerTrigger or raise that option",
                self.options.group,
                took_ms / 1000,
                self.options.rebalance_timeout_ms / 1000,
            )

    def _log(self, reason: str) -> None:
        """Log why the query waits, once for each reason and not at every trigger."""
        if reason != self._last_logged:
            self._last_logged = reason
            log.warning("group %s: %s", self.options.group, reason or "reading again")

    _answers: ClassVar[Answers] = {
        **ANSWERS,
        ReadWriterReport: lambda member, query: member._read_writer_report(query.previous),
        StartMembership: lambda member, _query: member._join(),
        EndMembership: lambda member, _query: member._leave(),
        SessionTimeout: lambda member, _query: member._session_timeout_ms(),
        AskCoordinator: lambda member, query: member.cluster.ask_coordinator(
            query.query, timeout_ms=CALL_TIMEOUT_MS
        ),
        Note: _log_note,
    }
