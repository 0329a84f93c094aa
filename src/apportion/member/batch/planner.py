"""The steps by which a member that works in micro-batches comes from one batch to the next.

The coordinator may change the target assignment at any time; only `BatchPlanner.plan_next` applies
it, so ownership is frozen while a batch runs. Spark hands a span back as `previous` once its batch
is in the sink.
This gives the order of the steps, which must not change:

1. Ask the query's writers, by a span that reads nothing, which sinks they are, and check that the
   group's committed offsets belong to the same sinks (`admission.py`). Only then join the group.
2. Commit the ends of `previous`, which are durable now, with the member's epoch.
3. Adopt the target (`membership.py`). Only this acknowledges a revocation, so a new owner starts
   from the committed ends.
4. Fetch the committed offsets of gained partitions, and claim them for the query's sinks.
5. Plan the next span (`plan.py`), commit start positions that were chosen anew, return the span.

Example: `previous` is t-0 [0, 10), and the target moves to t-1. Step 2 commits t-0 at 10, step 3
gives up t-0, step 4 finds 7 committed for t-1 by its last owner, and step 5 returns t-1 [7, 20).

The steps are a generator that yields queries (`queries.py`); the driver has the sockets, the clock
and the retries. An attempt that ends with an exception leaves a state from which the next attempt
can go on.
"""

from collections.abc import Container, Mapping

from apportion.log_bounds import LogBounds
from apportion.member.batch.admission import GroupAdmission, offsets_skipping_records
from apportion.member.batch.data_loss import DataLossCheck
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.membership import BatchMembership, BatchOwnership
from apportion.member.batch.plan import (
    NO_READ_LIMITS,
    BatchPlan,
    PlanInput,
    ReadLimits,
    StartingOffsets,
    due_commits,
    plan_batch,
)
from apportion.member.batch.queries import NotReady, ReadWriterReport
from apportion.member.batch.span import Span
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.batch.writer_reports import FinishedBatch, WriterReport, rewound
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import (
    UNREAD_METADATA,
    AnotherSink,
    EpochCheck,
    Sinks,
    claimed_sinks,
    is_starting,
    metadata_of,
    refuse_other_sinks,
    sinks_of,
    unclaimed_offsets,
)
from apportion.member.membership import View
from apportion.member.queries import CommitOffsets, ListOffsets
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

TopicIdPartitions = tuple[TopicIdPartition, ...]


class BatchPlanner:
    """The state of a member that works in micro-batches, from one batch to the next.

    planned_incarnation: the incarnation of the last plan; None if there was none.
    ends: the log end of each owned partition when the last batch was planned.
    """

    def __init__(
        self,
        group: BatchGroup,
        *,
        checkpoint: str,
        starting: StartingOffsets,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Begin without a membership, as in a new process of the query.

        checkpoint: the id of every span, unless the first `previous` has one.
        """
        self._group = group
        self.logs: dict[TopicIdPartition, LogBounds] = {}
        self._checkpoint = checkpoint
        self._starting_offsets = starting
        self._data_loss = DataLossCheck(fail=fail_on_data_loss)
        self._membership = BatchMembership(group, self._data_loss)
        self._admission = GroupAdmission(group, checkpoint)
        # the offsets to which the writers rewind when the question is answered, and the batch's end
        self._rewinds: dict[TopicIdPartition, tuple[int, int]] = {}
        self._forget_membership()

    @property
    def ownership(self) -> BatchOwnership:
        """The partitions of the last span, and the incarnation in which the member owns them."""
        return self._membership.ownership

    def missing_topics(self) -> TopicChoice:
        """Return the topics that did not exist as the query began and were never assigned to it."""
        return self._membership.missing_topics()

    def _forget_membership(self) -> None:
        """Reset everything that belongs to a membership, as the Spark query has left its group."""
        self._membership.forget()
        self.planned_incarnation: int | None = None
        self._epoch_check = EpochCheck()  # for a query of unknown sinks
        # start positions that were committed before this query was known to be the only new one
        self._provisional_starts: dict[TopicIdPartition, int] = {}

    def plan_next(self, previous: Span, limits: ReadLimits = NO_READ_LIMITS) -> Rule[Span]:
        """Return the span of a query's next micro-batch; `previous`, which is in the sink, if none.

        Raises NotReady, DataLoss, NoRecordAtTime, MembershipFailed, AnotherSink, and whatever the
        driver throws in.
        """
        report: WriterReport = yield ReadWriterReport(previous)
        if previous.sinks is None and not previous.question_number:
            # The first span, or one of an older format: its sinks are not known.
            return (yield from self._ask_writers(previous, previous, report.rewind))
        # Before anything is committed or adopted: a query whose sinks are not the group's must
        # leave no trace in it.
        to_ask = yield from self._admission.check_answer(previous, report)
        if not self._admission.may_join:
            self._forget_membership()
        if to_ask is not None:
            return (yield from self._ask_writers(to_ask, previous, report.rewind))
        batch = FinishedBatch(previous, report)
        owned = yield from self._commit_and_adopt(batch)
        plan, starting = yield from self._plan_owned(batch, owned, limits)
        # Before the span is returned: with `latest` an owner that dies before its first commit
        # would lose what it skipped over.
        yield from self._commit_starts(batch, plan)
        # Only now: an attempt that failed before must rewind again.
        self._rewinds.clear()
        # Last, so that an attempt that fails at any step above leaves the ownership of the last
        # span.
        self._membership.record_batch(owned)
        self.planned_incarnation = self.ownership.incarnation
        if plan.span is previous and not previous.question_number:
            self._admission.last_planned = previous
        else:
            self._admission.last_planned = plan.span._replace(
                sinks=batch.sinks, question_number=0, unclaimed=(), starting=starting
            )
        return self._admission.last_planned

    def commit_last(self, previous: Span) -> Rule[bool]:
        """Commit `previous`, which is in the sink, for a member that leaves next.

        Return whether nothing of it is left to commit. The next plan joins again. Raises as
        `plan_next` does, NotReady also where this member cannot commit all of it.
        """
        batch = FinishedBatch(previous, (yield ReadWriterReport(previous)))
        try:
            if not self._admission.may_join or previous.question_number:
                # It has read nothing, but an earlier process of the query may have.
                if previous.ranges:
                    raise NotReady("the query is not a member of its group")
                return True
            if (yield from self._admission.check_answer(previous, batch.report)) is not None:
                return False
            yield from self._require_membership(batch)
            owned, committed = self.ownership.partitions, self._membership.committed
            rewinds = batch.rewind_offsets(self._rewinds, {})
            kept = {each: offset for each, offset in rewinds.items() if each in owned}
            yield from self._commit({**due_commits(batch.written, owned, committed), **kept})
            if kept != rewinds or due_commits(batch.written, batch.written.ranges, committed):
                raise NotReady("the member has lost partitions of the batch since")
            return True
        finally:
            self._forget_membership()
            self._admission.may_join = False

    def _ask_writers(
        self, to_ask: Span, previous: Span, rewinds: Mapping[TopicIdPartition, int]
    ) -> Rule[Span]:
        """Return a question to the Spark query's writers, the span that follows `to_ask`.

        rewinds: what the writers asked for with the report of `previous`; kept until the answer.
        """
        question = yield from self._admission.ask_writers(rewound(to_ask, rewinds))
        ends = previous.end_offsets()
        self._rewinds.update(
            (partition, (offset, ends[partition]))
            for partition, offset in rewinds.items()
            if partition in ends
        )
        return question

    def _require_membership(self, batch: FinishedBatch) -> Rule[View]:
        """Return the view of a member that may commit `batch`; raise NotReady, AnotherSink."""
        # Checked first: a commit as a member that may have been removed is refused, and others may
        # read the span that it plans.
        view = yield from self._membership.require()
        if not batch.sinks:
            yield from self._epoch_check.run(view.incarnation, view.epoch, self._check_claims(()))
        return view

    def _commit_and_adopt(self, batch: FinishedBatch) -> Rule[TopicIdPartitions]:
        """Commit the offsets of the last micro-batch, then adopt the target; return the target."""
        view = yield from self._require_membership(batch)
        membership = self._membership
        # Before the adoption, which frees revoked partitions: their next owner starts at the
        # committed offset.
        yield from self._commit(
            due_commits(batch.written, self.ownership.partitions, membership.committed)
        )
        owned = yield from membership.adopt_target(view)
        if self.planned_incarnation != view.incarnation and not {*owned}.issuperset(
            batch.span.ranges
        ):
            # A restarted query: positions of partitions that are still to come would be forgotten.
            yield from membership.require_full_assignment()
        # A partition may have been revoked because its topic was deleted: then its records are lost
        # and not moved.
        yield from self._data_loss.check_revoked(batch.span, owned)
        return owned

    def _plan_owned(
        self, batch: FinishedBatch, owned: TopicIdPartitions, limits: ReadLimits
    ) -> Rule[tuple[BatchPlan, TopicIdPartitions]]:
        """Return the plan of the query's owned partitions, and those that its sinks begin with."""
        kept = dict.fromkeys(
            partition
            for partition in owned
            if partition in self.ownership.partitions and partition in batch.span.ranges
        )
        # Also those that were owned in an earlier incarnation: in between, another member may have
        # read on and committed.
        gained = tuple(partition for partition in owned if partition not in kept)
        committed, claimed = yield from self._claim_gained(batch, gained)
        rewinds = {
            partition: offset
            for partition, offset in batch.rewind_offsets(self._rewinds, committed).items()
            if partition in owned
        }
        # Committed before the plan reads the offsets: a crash now must not skip what the writers
        # lack.
        yield from self._commit(rewinds)
        committed.update(
            (partition, offset) for partition, offset in rewinds.items() if partition in committed
        )
        starting_offsets = yield from self._starting_offsets.with_times_found(
            tuple(
                partition
                for partition in gained
                if committed[partition] is None
                and batch.written.end_or_none(partition) is None
                and not self._membership.is_new(partition)
            )
        )
        starts: dict[TopicIdPartition, int] = yield ListOffsets(owned, EARLIEST)
        ends: dict[TopicIdPartition, int] = yield ListOffsets(owned, LATEST)
        self.logs = {each: LogBounds(starts[each], ends[each]) for each in owned}
        inputs = PlanInput(
            checkpoint=self._checkpoint,
            logs=self.logs,
            kept=kept,
            committed=committed,
            starting_offsets=starting_offsets,
            new_partitions=dict.fromkeys(filter(self._membership.is_new, owned)),
            limits=limits,
        )
        plan = plan_batch(batch.written, inputs)
        yield from self._data_loss.check_gaps(plan)
        return plan, tuple(
            partition
            for partition, (start, _) in plan.span.ranges.items()
            if start and (partition in claimed or partition in plan.commit_first)
        )

    def _commit_starts(self, batch: FinishedBatch, plan: BatchPlan) -> Rule[None]:
        """Commit the start positions that the plan chose anew, before the span is used.

        With the first plan after a question this claims the group for the query's sinks. Raises
        AnotherSink if another query has claimed it at the same time.
        """
        is_first = batch.span.question_number > 0
        if is_first:
            self._provisional_starts.update(plan.commit_first)
        yield from self._commit(plan.commit_first, starting=True)
        if is_first:
            # First commit, then look: of two queries that do so at the same moment, at least one
            # sees the other.
            yield from self._check_claims(batch.sinks)
            self._provisional_starts.clear()
            self._admission.record_claim()

    def _commit(
        self, offsets: Mapping[TopicIdPartition, int], *, starting: bool = False
    ) -> Rule[None]:
        """Commit offsets with the sinks' names as metadata.

        starting: the sinks are to begin there. Each is committed again after its first batch, as
        the sinks must have a fence of it from then on.
        """
        sinks = self._admission.sinks
        yield from self._membership.commit(offsets, metadata_of(sinks, starting=starting))
        if starting and sinks:
            self._membership.forget_committed(offsets)

    def _claim_gained(
        self, batch: FinishedBatch, gained: TopicIdPartitions
    ) -> Rule[tuple[dict[TopicIdPartition, int | None], Container[TopicIdPartition]]]:
        """Claim gained partitions for a Spark query's sinks by committing their offsets again.

        Called when a rebalance has brought partitions, before the next micro-batch is planned. Each
        query that it yields is a request to Kafka, which the driver answers.

        Return the committed offsets, and the partitions that the sinks begin with. Not claimed yet
        is an offset without a sink's name that may skip records: the sink has to admit the batch
        first, whose end is then committed.
        After an upgrade offsets without a name may come from an older version, which set no fence
        for a partition without rows. Raises AnotherSink if another sink has claimed a partition.
        """
        if not gained:
            return {}, ()
        sinks, written = batch.sinks, batch.written
        # With the member's own epoch, and after the adoption: the last owner cannot commit any more
        # by now.
        stored = yield from self._group.fetch_offsets(self.ownership.incarnation, gained)
        yield from self._refuse_other_sinks(sinks, stored)
        committed = {partition: stored[partition].offset for partition in gained}
        unclaimed: TopicIdPartitions = ()
        if sinks and not (batch.is_upgrade and (written.ranges or not claimed_sinks(stored))):
            unnamed = unclaimed_offsets({partition: stored[partition] for partition in gained})
            ahead = {
                partition: offset
                for partition, offset in unnamed.items()
                if offset > (written.end_or_none(partition) or 0)
            }
            unclaimed = tuple(sorted((yield from offsets_skipping_records(ahead, written))))
        to_claim = {
            partition: offset
            for partition in gained
            if sinks
            and sinks_of(stored[partition].metadata) != sinks
            and partition not in unclaimed
            and (offset := committed[partition]) is not None
        }
        # The next commit of the same offset carries the sink's name.
        self._membership.forget_committed(unclaimed)
        # Ends of `written` that the group does not have were written by an earlier incarnation or
        # process, which died before it could commit them.
        due = {**to_claim, **due_commits(written, committed, committed)}
        starting = {
            partition: offset
            for partition, offset in due.items()
            if not batch.says_written(partition, committed[partition])
        }
        yield from self._commit({each: due[each] for each in due if each not in starting})
        yield from self._commit(starting, starting=True)
        marked = (each for each in gained if is_starting(stored[each].metadata))
        return committed, {*starting, *(each for each in marked if each not in due)}

    def _refuse_other_sinks(
        self, sinks: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
    ) -> Rule[None]:
        """Raise AnotherSink if another sink has claimed the Spark query's group by an offset.

        The query's own start positions, of which nothing is read, are given back first.
        """
        try:
            refuse_other_sinks(sinks, stored)
            self._admission.refuse_new_unclaimed_offsets(sinks, stored)
        except AnotherSink:
            unread = {
                partition: offset
                for partition, offset in self._provisional_starts.items()
                if stored.get(partition)
                == OffsetAndMetadata(offset, metadata_of(self._admission.sinks, starting=True))
            }
            if unread:
                yield CommitOffsets(unread, self.ownership.incarnation, UNREAD_METADATA)
            raise

    def _check_claims(self, sinks: Sinks) -> Rule[None]:
        """Raise AnotherSink if another sink has claimed the Spark query's group by now."""
        stored = yield from self._group.fetch_offsets(self.ownership.incarnation)
        yield from self._refuse_other_sinks(sinks, stored)

    def require_full_assignment(self, until_ms: int, limit_ms: int | None = None) -> Rule[None]:
        """Raise AssignmentIncomplete while the group will assign more, until `until_ms`.

        For availableNow, before it takes an unchanged span for the end. limit_ms: how long the
        whole wait may take, for the error's text.
        """
        yield from self._membership.require_full_assignment(until_ms, limit_ms)
