"""An application that reads in micro-batches, by the rule that the Spark source uses.

`member.batch.retries.BatchRetries` decides when to read and what. This module answers its queries
through the simulated broker, writes its spans to the sink, and keeps a checkpoint in Spark's order:
planned, written to the sink, done. A process that dies in between leaves its checkpoint to the next
one, and so does a query that the rule ends.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.member import queries
from apportion.member.batch import queries as batch_queries
from apportion.member.batch.fences import admit
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.retries import BatchRetries, Pauses, QuerySettings
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.cluster_queries.configs import SettingQuery
from apportion.member.membership import Adopted, Polled
from apportion.member.metadata_cache import MetadataCache
from apportion.member.reactions import is_permanent
from apportion.rules import Rule, rule_script
from apportion.sim.actors import member_answers
from apportion.sim.actors.application import (
    LEAVE_TIMEOUT_MS,
    RESTART_DELAY_US,
    Application,
)
from apportion.sim.actors.first_look import take_first_look
from apportion.sim.actors.member_answers import at_once
from apportion.sim.actors.members import has_new_target
from apportion.sim.actors.requests import AwaitMember, ask
from apportion.sim.actors.sink import Sink
from apportion.sim.actors.tasks import TaskReads
from apportion.sim.kernel.client import Sleep
from apportion.sim.kernel.clock import Script
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.kernel.scenario import Scenario
from apportion.topics import TopicIdPartition
from apportion.wire.messages.describe_configs import BROKER, GROUP
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

SERVERS = "the broker"
IDLE_MS = 1_000
RETRY_MS = 500
# How long the rule must have tried, at least, before an error ends the query.
LEAST_PATIENCE_MS = 60_000
LEAST_PATIENCE_IF_PERMANENT_MS = 15_000


class Checkpoint:
    """The part of a Spark checkpoint that a query needs: the spans planned last and committed last.

    announced: the last report of its writer on this host.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.planned: Span = EMPTY_SPAN
        self.done: Span = EMPTY_SPAN
        self.announced = NO_REPORT


class Worker(Application):
    """One query. All workers form one group and write to one sink."""

    group = "workers"
    sinks = ("the sink",)

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self.limit = self.rng.choice((None, None, 3, 50))
        self.is_replaced = True  # whether the next process starts with an empty checkpoint
        self._checkpoints = 0

    def attach_sink(self, sink: Sink, first: Mapping[TopicIdPartition, int]) -> None:
        """Write rows to `sink`.

        first: the offset at which the group began to read each partition.
        """
        self._sink, self._first = sink, first

    def join(self) -> None:
        """Do not join yet: `member.batch` decides when, after it has checked the group's sinks."""

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Change the topics to which the query subscribes."""
        super().subscribe(topics)
        if self.is_up and self.is_working:
            self.batch_group.topics = TopicChoice(topics)

    def script(self) -> Script:
        """Run the query until the process ends, or until the rule ends the query."""
        try:
            yield from self._run_query()
        except MembershipFailed as failed:
            self._end_query(failed)

    def _run_query(self) -> Script:
        """Look at the cluster if the scenario says so; then read, batch by batch."""
        if self.is_replaced:
            self.is_replaced = False
            self._checkpoints += 1
            self.checkpoint = Checkpoint(f"{self.name}/{self._checkpoints}")
        checkpoint = self.checkpoint
        self.metadata = MetadataCache()
        self._tasks = TaskReads(self.name, self.mono_ms)
        session_ms = self.simulation.scenario.session_ms
        self.batch_group = BatchGroup(
            self.group,
            TopicChoice(self.topics),
            classic_session_ms=session_ms if self.uses_classic_protocol else None,
        )
        self.batches = BatchPlanner(
            self.batch_group,
            checkpoint=checkpoint.name,
            starting=StartingOffsets(start_position(self.simulation.scenario)),
            # topics are deleted on purpose; the sink notices any other loss
            fail_on_data_loss=False,
        )
        retries = BatchRetries(self.batches, self._query_settings())
        self._planned_at_ms, self._has_read = self.mono_ms(), False
        if self.simulation.scenario.looks:
            yield from take_first_look(self, SERVERS)
        # As Spark does after a restart: a batch that is in the offset log and not in the commit log
        # is run again, before anything is planned.
        if checkpoint.planned is not checkpoint.done:
            yield from self._write(checkpoint.planned, incarnation=-1)
        while True:
            previous = checkpoint.done
            following = yield from self._run_rule(retries.next_span(previous, self.limit))
            if following == previous:
                continue
            self._record_plan()
            self._has_read = not following.question_number
            self._check_continuity(previous, following)
            # Before it is written to the sink: Spark's offset log comes first, so that a replay has
            # the same span.
            checkpoint.planned = following
            yield Sleep(1)
            yield from self._write(following, incarnation=self.batches.ownership.incarnation)

    def _query_settings(self) -> QuerySettings:
        """Return the settings of the query of this incarnation, with the pauses of its trigger."""
        scenario = self.simulation.scenario
        return QuerySettings(
            self.group,
            SERVERS,
            TopicChoice(self.topics),
            classic=self.uses_classic_protocol,
            max_poll_interval_ms=scenario.rebalance_ms,
            pauses=Pauses(max(IDLE_MS, scenario.batch_ms), RETRY_MS, RETRY_MS),
        )

    def _record_plan(self) -> None:
        """Record that the rule has planned, and report the partitions of the plan as in use."""
        self._planned_at_ms = self.mono_ms()
        self.set_in_use(*self.batches.ownership)

    def _end_query(self, failed: MembershipFailed) -> None:
        """Stop the query, as the rule has given it up; a new process of it starts later."""
        error = failed.__cause__
        # Without a cause the member itself has failed, and the law no-defect sees that.
        if not isinstance(error, Exception):
            raise failed
        self._check_patience(error)
        self.simulation.write_trace(self.name, f"its query ends: {failed}")
        # After this script has ended: a script that runs cannot be cancelled.
        self.call_later(1, self.stop)
        delay_us = LEAVE_TIMEOUT_MS * 1_000 + RESTART_DELAY_US
        self.simulation.call_later(delay_us, self._restart, self.incarnation)

    def _check_patience(self, error: Exception) -> None:
        """Check that the error may end the query: time does not mend it, and had its chance."""
        tried_ms = self.mono_ms() - self._planned_at_ms
        is_final = is_permanent(error)
        least_ms = LEAST_PATIENCE_IF_PERMANENT_MS if is_final else LEAST_PATIENCE_MS
        if tried_ms < least_ms or (self._has_read and not is_final):
            raise LawBroken(
                "query-goes-on",
                f"the query of {self.name} ended {tried_ms} ms after its last plan: {error}.",
            )

    def _write(self, batch: Span, incarnation: int) -> Script:
        """Read the query's batch, write it to its sink, and mark it done.

        A batch without rows that asks for the sinks is answered with the sink's name.
        """
        if batch.question_number:
            yield Sleep(1 + self.work_ms(20))
            self.checkpoint.announced = WriterReport(
                self.sinks, has_records=bool(self._sink.fences)
            )
            self.checkpoint.done = batch
            return
        self.set_in_use(incarnation, dict.fromkeys(batch.ranges))
        for partition, (start, end) in batch.ranges.items():
            offsets = yield from self._tasks.read(partition, (start, end))
            self.observer.deliveries.range_read(self, partition, (start, end), offsets)
        yield Sleep(self.work_ms(self.simulation.scenario.batch_ms))
        while True:
            fences = self._sink.fences
            admitted = admit(batch, fences, fail_on_data_loss=False)
            yield Sleep(1 + self.work_ms(20))
            if self._sink.commit(fences, admitted, self._first):
                break
            self.simulation.write_trace(self.name, "was beaten to the sink, and tries again")
        self.simulation.write_trace(
            self.name, f"wrote {sum(to - lower for lower, to, _ in admitted.values())} rows"
        )
        yield Sleep(1)
        # A moment after the sink: a process that dies in between replays the batch, and the fences
        # admit nothing.
        self.checkpoint.done = batch

    def _check_continuity(self, previous: Span, following: Span) -> None:
        """Check that the query reads no offset again that its previous batch has read.

        A span has the offset ranges of one micro-batch. It may start later than the previous one
        ended, where another query of the group has read a partition in between.
        """
        for partition, (start, _) in following.ranges.items():
            end = previous.end_or_none(partition)
            if end is not None and start < end:
                raise LawBroken(
                    "spans-continue",
                    f"{self.name} had read {partition} up to {end} and starts again at {start}.",
                )

    def _run_rule(self, rule: Rule[Any]) -> Script:
        """Run a part of the batch rule, answer each query it yields, and return its result."""
        return rule_script(rule, lambda query: ANSWERS[type(query)](self, query))

    def _start_membership(self) -> Script:
        """Let the member join, for the rule's query StartMembership."""
        super().join()
        return at_once(None)

    def _await_new_target(self, timeout_ms: int) -> Script:
        """Wait for the query's next trigger, or a new target; the plan before has nothing new."""
        self._record_plan()
        yield AwaitMember(timeout_ms, has_new_target)

    def _await_next_attempt(self, timeout_ms: int) -> Script:
        """Wait as long as the rule allows, whatever happens to the member."""
        yield Sleep(timeout_ms)

    def _poll_membership(self) -> Script:
        self.step_member(Polled())
        return at_once(None)

    def _adopt(self, query: queries.AdoptAssignment) -> Script:
        """Stop using revoked partitions, then report to the member that they are released.

        In the other order another member could be assigned a partition that is still in use.
        """
        self.set_in_use(*self.batches.ownership)
        self.step_member(Adopted(query.incarnation, query.target))
        return at_once(self.member.view())


def start_position(scenario: Scenario) -> int:
    """Return where workers begin a partition without a committed offset, by the seed alone."""
    return EARLIEST if scenario.seed % 4 else LATEST


ANSWERS: dict[type, Callable[[Any, Any], Script]] = {
    **member_answers.ANSWERS,
    batch_queries.ReadWriterReport: lambda worker, _query: at_once(worker.checkpoint.announced),
    # A checkpoint keeps the last report alone.
    batch_queries.DeleteOldReports: lambda _worker, _query: at_once(None),
    queries.PollMembership: lambda worker, _query: worker._poll_membership(),
    batch_queries.AwaitNewTarget: lambda worker, query: worker._await_new_target(query.timeout_ms),
    batch_queries.AwaitNextAttempt: lambda worker, query: worker._await_next_attempt(
        query.timeout_ms
    ),
    batch_queries.StartMembership: lambda worker, _query: worker._start_membership(),
    # No query of the simulation takes over another's group, and every writer reports.
    batch_queries.EndMembership: lambda _worker, _query: at_once(None),
    batch_queries.GroupSetting: lambda worker, query: ask(
        worker, SettingQuery(GROUP, worker.group, query.name)
    ),
    batch_queries.BrokerSetting: lambda worker, query: ask(
        worker, SettingQuery(BROKER, str(min(worker.metadata.nodes)), query.name)
    ),
    queries.AdoptAssignment: lambda worker, query: worker._adopt(query),
    queries.AskCoordinator: lambda worker, query: ask(worker, query.query),
}
"""How the simulation answers each query of the batch rule.

A query may be without fields, or its answer without effect: hence the unused arguments.
"""
