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

from apportion.client.cluster import Cluster
from apportion.client.group_membership import GroupMembership
from apportion.client.member_answers import ANSWERS, Answers, RuleDriver
from apportion.client.members import new_member
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
from apportion.spark import handover
from apportion.spark.options import SourceOptions
from apportion.spark.rebalance_lines import GroupName, RebalanceLines
from apportion.spark.source_report import LogPosition, SourceReport

LEAVE_TIMEOUT_MS = 3_000
CALL_TIMEOUT_MS = 5_000
EPOCH_WAIT_MS = 500

log = logging.getLogger("apportion.spark")


class BatchMember(RuleDriver):
    """A member of the query's group, which plans one offset range for each micro-batch.

    The member joins when the batch planner asks for it: once the group belongs to this query's
    sink. Every method runs on the thread on which Spark plans micro-batches; heartbeats have their
    own.
    """

    _log = log
    _request_timeout_ms = CALL_TIMEOUT_MS

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.cluster = Cluster(
            options.bootstrap,
            client_id=options.client_id,
            timeout_ms=options.request_timeout_ms,
            security=options.security,
        )
        self._membership = self._new_membership()
        self.planner = BatchPlanner(
            BatchGroup(
                options.group,
                options.topics,
                classic_session_ms=options.session_timeout_ms if options.classic else None,
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
                max_poll_interval_ms=options.rebalance_timeout_ms,
            ),
        )
        self._has_joined = False
        # True at first: a process that was lost may have left reports of its writers.
        self._has_stale_reports = True
        self._last_report = NO_REPORT
        self._planned = EMPTY_SPAN  # what `next_span` returned last
        self._rebalances = RebalanceLines(
            GroupName(options.group, options.instance_id, classic=options.classic)
        )

    def _new_membership(self) -> GroupMembership[Event]:
        member = new_member(self.options.group, **self.options.membership())
        return GroupMembership(self.cluster, member, self.options.topics)

    def close(self, timeout_ms: int = LEAVE_TIMEOUT_MS) -> None:
        """Leave the group, waiting at most `timeout_ms`."""
        if self._has_joined:
            is_confirmed = self._membership.leave(timeout_ms)
            self._rebalances.log_end(is_confirmed=is_confirmed)
        self.cluster.close()

    def touch(self) -> None:
        """Restart the poll timer, as KafkaConsumer.poll() does (kafka.max.poll.interval.ms)."""
        if self._has_joined:
            self._membership.touch()

    def stop_at_present_ends(self) -> None:
        """Read no partition beyond its present end from now on, for trigger(availableNow=True)."""
        self._run(self._retries.stop_at_present_ends())

    def next_span(self, previous: Span, limit: int | None) -> Span:
        """Return the span to read after `previous`, for Spark's latestOffset: `previous` if none.

        limit: maxOffsetsPerTrigger. Raises as `BatchRetries.next_span` does.
        """
        epoch = self._membership.status().epoch
        self._planned = self._run(self._retries.next_span(previous, limit))
        self._log_rebalance(epoch)
        return self._planned

    def _log_rebalance(self, last_epoch: int) -> None:
        """Log what the plan has changed of the query's partitions, if anything.

        last_epoch: of the member, before the plan.
        """
        ownership = self.planner.ownership
        is_planned = self.planner.planned_incarnation == ownership.incarnation
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
        status, ends = self._membership.status(), self.planner.ends
        return SourceReport(
            self.options.group,
            status.member_id,
            status.epoch,
            self.options.rebalance_timeout_ms,
            {
                partition.topic_partition: LogPosition(to, ends[partition])
                for partition, to in self._planned.end_offsets().items()
                # Not in it: a partition that the member has given up, where no plan came after.
                if partition in ends and partition in self.planner.ownership.partitions
            },
        )

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
            self._membership.start()

    def _leave(self) -> None:
        """Leave the group, for the rule's query EndMembership."""
        # A membership that has ended cannot join again.
        if self._has_joined:
            self._has_joined = False
            self._membership.leave(LEAVE_TIMEOUT_MS, for_good=True)
            self._membership = self._new_membership()

    _answers: ClassVar[Answers] = {
        **ANSWERS,
        ReadWriterReport: lambda member, query: member._read_writer_report(query.previous),
        DeleteOldReports: lambda member, query: member._delete_stale_reports(query.previous),
        PollMembership: lambda member, _query: member.touch(),
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
