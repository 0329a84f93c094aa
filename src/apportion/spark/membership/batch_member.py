"""The group member behind one Spark query: the driver of the batch rule.

`member/batch/retries.py` decides what happens in latestOffset, with `planner.py`, which decides
what a micro-batch reads. The rule is a generator: it yields queries, and this module answers each
one from the membership, from the cluster or from what the writers reported. The heartbeat thread of
the membership receives a new target assignment at any time; only `next_span` adopts it, between two
micro-batches. Spark asks for a batch after it has committed the one before, so the span that comes
back as `previous` is in the sink: the planner builds on that. No record is read here.
"""

import logging
from typing import ClassVar
from uuid import uuid4

from apportion.client.group_membership import GroupMembership
from apportion.client.member_answers import ANSWERS, Answers, RuleDriver
from apportion.client.members import new_member
from apportion.errors import Refused, Unanswerable
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import (
    AwaitNewTarget,
    AwaitNextAttempt,
    BrokerSetting,
    DeleteOldReports,
    EndMembership,
    GroupSetting,
    ReadWriterReport,
    StartMembership,
)
from apportion.member.batch.retries import BatchRetries, QuerySettings
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.membership import Event
from apportion.member.queries import AskCoordinator, PollMembership
from apportion.spark.connections.clusters import cluster_of
from apportion.spark.membership.client_ids import member_client_id
from apportion.spark.membership.fixed_assignment import FixedAssignment
from apportion.spark.monitoring.rebalance_lines import GroupName, RebalanceLines
from apportion.spark.monitoring.source_report import LogPosition, ReportedMember, SourceReport
from apportion.spark.options.stream import SourceOptions
from apportion.spark.processes import handover, stop_requests
from apportion.spark.processes.stop_requests import StopAnswer, StopRequest

LEAVE_TIMEOUT_MS = 3_000
CALL_TIMEOUT_MS = 5_000
EPOCH_WAIT_MS = 500

log = logging.getLogger("apportion.spark")


class StopRequested(Exception):
    """The driver asks for no further batch."""


class BatchMember(RuleDriver):
    """A member of the query's group, which plans one offset range for each micro-batch.

    The member joins when the batch planner asks for it: once the group belongs to this query's
    sink. Every method runs on the thread on which Spark plans micro-batches; heartbeats have their
    own.
    """

    _log = log
    _request_timeout_ms = CALL_TIMEOUT_MS
    _membership: GroupMembership[Event] | FixedAssignment

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.cluster = cluster_of(options, client_id=member_client_id(options))
        self._membership = self._new_membership()
        self.planner = BatchPlanner(
            BatchGroup(
                options.group,
                options.topics,
                classic_session_ms=options.session_timeout_ms if options.classic else None,
                is_balanced=options.assigned is None,
                servers=options.bootstrap,
            ),
            # Used by a new checkpoint alone: every later span copies the id of the one before.
            checkpoint=uuid4().hex,
            starting=options.starting,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        self._retries = BatchRetries(
            self.planner,
            QuerySettings(
                options.group,
                options.bootstrap,
                options.topics,
                classic=options.classic,
                max_poll_interval_ms=(
                    options.rebalance_timeout_ms if options.assigned is None else None
                ),
                least_offsets=options.min_offsets or 0,
                longest_delay_ms=options.max_delay_ms,
            ),
        )
        self._has_joined = False
        # True at first: a process that was lost may have left reports of its writers.
        self._has_stale_reports = True
        self._last_report = NO_REPORT
        self._rebalances = RebalanceLines(
            GroupName(options.group, options.instance_id, classic=options.classic)
        )
        # What Spark was given last, and what it handed back last, which is in the sink.
        self._planned = self._written = EMPTY_SPAN
        self._is_replay = False  # the batch was planned by an earlier process of the query
        self._answer: StopAnswer | None = None  # to the driver's request; None once it has planned

    def _new_membership(self) -> GroupMembership[Event] | FixedAssignment:
        if self.options.assigned is not None:
            return FixedAssignment(self.cluster, self.options.group, self.options.assigned)
        member = new_member(self.options.group, **self.options.membership())
        return GroupMembership(self.cluster, member, self.options.topics.names)

    def close(self, timeout_ms: int = LEAVE_TIMEOUT_MS) -> None:
        """Leave the group, waiting at most `timeout_ms`.

        If the driver has asked for it, and says that Spark has committed the last batch, that batch
        is committed to the group first.
        """
        try:
            request = self._stop_request_or_none()
            if request is not None:
                if request.committed == self._planned:
                    self._written = self._planned
                self.leave_in_order(self._written, is_heard=False)
        finally:
            try:
                if self._has_joined:
                    is_confirmed = self._membership.leave(timeout_ms)
                    self._rebalances.log_end(is_confirmed=is_confirmed)
            finally:
                self.cluster.close()

    def touch(self) -> None:
        """Restart the poll timer, as KafkaConsumer.poll() does (kafka.max.poll.interval.ms)."""
        if self._has_joined:
            self._membership.touch()

    def stop_at_present_ends(self) -> None:
        """Read no partition beyond its present end from now on, for trigger(availableNow=True)."""
        self._run(self._retries.stop_at_present_ends())

    def next_span(self, previous: Span, limit: int | None, *, reads_all: bool = False) -> Span:
        """Return the span to read after `previous`, for Spark's latestOffset: `previous` if none.

        limit: maxOffsetsPerTrigger. reads_all: without minOffsetsPerTrigger. Raises as
        `BatchRetries.next_span` does.
        """
        self._remove_old_requests(previous)
        self._written = previous
        epoch = self._membership.status().epoch
        try:
            self._planned = self._run(self._retries.next_span(previous, limit, reads_all=reads_all))
        except StopRequested:
            self._planned = previous
            self.leave_in_order(previous)
        else:
            self._answer = None
            self._log_rebalance(epoch)
        self._is_replay = False
        return self._planned

    def _log_rebalance(self, last_epoch: int) -> None:
        """Log what the plan has changed of the query's partitions, if anything.

        last_epoch: of the member, before the plan.
        """
        ownership = self.planner.ownership
        is_planned = self.planner.planned_incarnation == ownership.incarnation
        if self.options.assigned is not None:
            return  # no group has balanced anything
        if not self._rebalances.has_change(ownership, is_planned=is_planned):
            return
        if self._rebalances.gives_up_some(ownership) and not self.options.classic:
            # The answer to the acknowledgement brings the new epoch, mostly before the plan has
            # ended. Waited for, as an idle query has no further batch that would show it.
            self._membership.wait(lambda view: view.epoch != last_epoch, EPOCH_WAIT_MS)
        self._rebalances.log_change(ownership, self._membership.status().epoch)

    def source_report(self) -> SourceReport | None:
        """Return what the last plan says of this membership; None if nothing was planned."""
        if self.planner.planned_incarnation is None:
            return None
        logs, member = self.planner.logs, None
        if self.options.assigned is None:
            status = self._membership.status()
            member = ReportedMember(
                status.member_id, status.epoch, self.options.rebalance_timeout_ms
            )
        return SourceReport(
            self.options.group,
            member,
            {
                partition.topic_partition: LogPosition(to, logs[partition])
                for partition, to in self._planned.end_offsets().items()
                # Not in it: a partition that the member has given up, where no plan came after.
                if partition in logs and partition in self.planner.ownership.partitions
            },
        )

    @property
    def waits_for(self) -> str:
        """The reason why the query waits, as `BatchRetries.waits_for`."""
        return "it is being stopped" if self._answer is not None else self._retries.waits_for

    def begin_batch(self, planned: Span) -> None:
        """Show that the query is alive, as Spark plans the tasks of a batch.

        A query that starts again may begin with the tasks of a batch that its last process planned.
        """
        self._is_replay = self._remove_old_requests(planned) or self._is_replay
        self.touch()

    def _remove_old_requests(self, span: Span) -> bool:
        """Remove requests to an earlier run, at the first call that names a span; return if so."""
        if self._planned != EMPTY_SPAN or not span.id:
            return False
        stop_requests.delete_both(span.id)
        self._planned = span
        return True

    def _stop_request_or_none(self) -> StopRequest | None:
        """Return the driver's request to stop this query."""
        # Before the first batch of a new checkpoint nobody knows its id.
        return stop_requests.request_or_none(self._planned.id) if self._planned.id else None

    def _poll(self) -> None:
        """Show that the query asks for a batch; raise StopRequested if there is to be none."""
        self.touch()
        if self._stop_request_or_none() is not None:
            raise StopRequested

    def leave_in_order(self, written: Span, *, is_heard: bool = True) -> None:
        """Commit `written`, which is in the sink, leave the group, and tell the driver.

        is_heard: what this process logs is read. Spark closes the pipe of its stderr as it ends the
        process, so then the driver gets the line and logs it.

        No signal of Spark's interrupts this: it would end the process with the leave half sent, and
        the driver would learn that the query has not ended in order.
        """
        if self._answer is None:
            is_committed = has_left = False
            line = ""
            try:
                is_committed = self._run(self._retries.commit_last(written))
            finally:
                try:
                    has_left = self._leave(for_good=False)
                    if is_heard:
                        self._rebalances.log_end(is_confirmed=has_left)
                    else:
                        line = self._rebalances.end_line(is_confirmed=has_left)
                finally:
                    # The batch of an earlier process can be committed by a member only, and this
                    # one may have been none.
                    is_committed = is_committed and written == self._planned and not self._is_replay
                    # Also after an error: the process ends then, and calls again.
                    self._answer = StopAnswer(is_committed, has_left, line)
        stop_requests.write_answer(self._planned.id, self._answer)

    def _read_writer_report(self, previous: Span) -> WriterReport:
        """Return the writers' report about the batch of this span."""
        report = handover.read_reports(previous)
        self._has_stale_reports = self._has_stale_reports or report != NO_REPORT
        self._last_report = report
        return report

    def _delete_stale_reports(self, previous: Span) -> None:
        """Delete the reports of earlier spans, for DeleteOldReports, unless a restart needs them.

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
            try:
                self._membership.start()
            except (Refused, Unanswerable):
                # Of a fixed assignment, which looks for its partitions: the next attempt does.
                self._has_joined = False
                raise
            expression = self.options.topics.expression
            if expression and isinstance(self._membership, GroupMembership):
                self._membership.subscribe((), expression)

    def _leave(self, *, for_good: bool = True) -> bool:
        """Leave the group; return whether that is confirmed.

        for_good: also as a static member, whose next process would find its assignment.
        """
        if not self._has_joined:
            return True
        self._has_joined = False
        is_confirmed = self._membership.leave(LEAVE_TIMEOUT_MS, for_good=for_good)
        # A membership that has ended cannot join again.
        self._membership = self._new_membership()
        return is_confirmed

    _answers: ClassVar[Answers] = {
        **ANSWERS,
        ReadWriterReport: lambda member, query: member._read_writer_report(query.previous),
        DeleteOldReports: lambda member, query: member._delete_stale_reports(query.previous),
        PollMembership: lambda member, _query: member._poll(),
        AwaitNewTarget: lambda member, query: member._membership.wait(
            lambda view: view.target != view.owned, query.timeout_ms
        ),
        AwaitNextAttempt: lambda member, query: member._membership.wait_for_change(
            query.timeout_ms
        ),
        StartMembership: lambda member, _query: member._join(),
        EndMembership: lambda member, _query: member._leave(),
        GroupSetting: lambda member, query: member.cluster.group_setting(
            member.options.group, query.name
        ),
        BrokerSetting: lambda member, query: member.cluster.broker_setting(query.name),
        AskCoordinator: lambda member, query: member.cluster.ask_coordinator(
            query.query, timeout_ms=CALL_TIMEOUT_MS
        ),
    }
