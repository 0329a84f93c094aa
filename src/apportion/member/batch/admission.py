"""The decision whether a query may join its group: its sinks must be those of the group's offsets.

The problem: a committed offset says that the records below it are processed, and that is true for
one sink only. A query with other sinks that joined the group would commit offsets past records that
the first sink never gets. The source of a Spark query does not know its sinks; the writers do, but
they run after the source has planned a batch.

The method: the first span of a query reads nothing. It is a question (`Span.question_number`) to
the writers: which sinks are you? Their report is there when Spark asks for the next span. Then the
names in the metadata of the group's committed offsets (`group_claims.py`) are compared with the
report, before the member joins and takes partitions from others. A question of an earlier process
is asked again where its answer is missing or would refuse the query: the user may have changed the
writers since, and only what they report now counts.

Why it ends: each question has the next number. A process refuses after its own question at the
latest, and takes the answer to an earlier one for "no sink" from `NO_ANSWER_COUNTS_FROM` on.

Example: the group's offsets name the sink /lake/a. A query that writes to /lake/b plans question 1,
its writer reports /lake/b, and the next call raises AnotherSink. With adopt=True the offsets are
committed again with /lake/b, and the query goes on. Reasons: docs/decisions/0041.
"""

from collections.abc import Mapping

from apportion.errors import Refused
from apportion.machine import Note
from apportion.member.batch.awaited_members import AwaitedMembers
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.queries import (
    EndMembership,
    NotReadyForATime,
    StartMembership,
)
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.member.batch.writer_reports import (
    WriterReport,
    refuse_silent_writers,
    rewound,
    sinks_without_report,
)
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import (
    AnotherSink,
    Sinks,
    claimed_sinks,
    metadata_of,
    refuse_other_sinks,
    refuse_skipped_records,
    sink_names,
    unclaimed_offsets,
)
from apportion.member.queries import (
    CommitOffsets,
    ListOffsets,
    MembershipSnapshot,
    ReadMembership,
)
from apportion.member.reactions import is_lost_membership
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST

CLIENTS_NAMED = 3  # of the members that have named no sink
NO_ANSWER_COUNTS_FROM = 2
"""The number of the question from which no answer means that no writer of apportion is there, even
if another process asked it."""


class GroupAdmission:
    """State of one process of a query: its sinks, and those of its group's offsets.

    last_planned: the span that this process planned last, a question or a batch.
    sinks: what this query writes to, as its commits name it.
    may_join: the group was found to be this query's.
    """

    def __init__(self, group: BatchGroup, checkpoint: str) -> None:
        """Begin without knowledge of the sinks, as in a new process of the query.

        checkpoint: the id of the first question, unless a span before it has one.
        """
        self.last_planned = EMPTY_SPAN
        self.sinks: Sinks = ()
        self.may_join = False
        self._group, self._checkpoint = group, checkpoint
        # the last batch that is known to have been given to all writers
        self._confirmed = EMPTY_SPAN
        self._awaited_sinks: Sinks = ()  # the sinks that have to answer the open question
        # the group's unclaimed offsets when a new query first looked; None once it has claimed
        self._unclaimed_at_start: dict[TopicIdPartition, int] | None = None
        self._awaited = AwaitedMembers()

    def ask_writers(self, previous: Span) -> Rule[Span]:
        """Return a question: a span that reads nothing and asks the writers for their sinks.

        A span is the offset ranges of one micro-batch. This one names the partitions whose
        committed offset names no sink: the writers report whether their sinks have fences of them.
        previous: if it names sinks, so does the question, and a writer of another sink refuses it.
        """
        # Without a member id, as the query has not joined yet.
        stored = yield from self._group.fetch_offsets(0)
        empty_ranges = {partition: (end, end) for partition, end in previous.end_offsets().items()}
        self.last_planned = Span(
            previous.id or self._checkpoint,
            empty_ranges,
            previous.sinks,
            question_number=previous.question_number + 1,
            unclaimed=tuple(sorted(unclaimed_offsets(stored))),
            starting=previous.starting,
        )
        return self.last_planned

    def check_answer(self, previous: Span, report: WriterReport) -> Rule[Span | None]:
        """Return None if the query's member may be in the group, else the span before a question.

        The question to the writers follows that span, and names the sinks that it names.
        Raises AnotherSink if the group belongs to another sink and this process has asked for
        itself. The answer to an earlier process may be out of date: the user may have set
        adopt=True since.
        """
        is_own = previous == self.last_planned
        if is_own and not previous.question_number and previous != self._confirmed:
            if missing := sinks_without_report(previous, report):
                return (yield from self._plan_again(previous, report, missing))
            self._confirmed = previous
        if previous.sinks is not None and report.adopt and report.sinks not in ((), previous.sinks):
            # The user gives the group to a query whose sinks have changed since the last batch.
            ended = previous._replace(starting=())
            return (yield from self._leave_and_ask(ended, report, report.sinks))
        if is_own and previous.question_number:
            # This process is alive, so a writer that was called has reported.
            refuse_silent_writers(self._awaited_sinks, report)
        sinks = report.sinks if previous.sinks is None else previous.sinks
        metadata_of(sinks, starting=True)  # raises if it is too long
        self.sinks = sinks
        if self.may_join:
            return None
        return (yield from self._join_or_ask(previous, report, sinks, is_own=is_own))

    def _plan_again(self, previous: Span, report: WriterReport, missing: Sinks) -> Rule[Span]:
        """Return what to ask, to plan the last batch again: it was not given to these sinks.

        Without that, a sink whose writer was not called would miss these records for good.
        """
        yield Note(
            "warning",
            f"the last batch was not given to {sink_names(missing)}: the writers "
            "are asked for their sinks, and the batch is planned again",
        )
        starts = {partition: start for partition, (start, _) in previous.ranges.items()}
        again = rewound(previous, starts)
        return (yield from self._leave_and_ask(again, report, previous.sinks or ()))

    def _join_or_ask(
        self, previous: Span, report: WriterReport, sinks: Sinks, *, is_own: bool
    ) -> Rule[Span | None]:
        """Let the member join the group if it is this query's; else return the span to ask about.

        is_own: this process has planned `previous`. Raises as `check_answer` does.
        """
        if (
            previous.question_number
            and not is_own
            and not sinks
            and previous.question_number < NO_ANSWER_COUNTS_FROM
        ):
            # The earlier process may have died before its writers were called.
            yield Note(
                "warning",
                "no writer has reported which table it writes to; they are asked again, with "
                "another empty batch",
            )
            return previous._replace(sinks=None)
        try:
            is_claimed = yield from self._check_group(
                sinks, report if is_own else report._replace(adopt=False), previous
            )
        except AnotherSink as refused:
            if is_own:
                raise
            # The report is as old as the question: the user may have changed the writers since.
            yield Note(
                "warning",
                "the writers are asked again, with another empty batch, since this query "
                f"would be refused: {refused}",
            )
            return previous._replace(sinks=None)
        if previous.sinks and previous.ranges and not (is_claimed or previous.question_number):
            # The checkpoint names sinks and the group does not, so the checkpoint may be another
            # program's. The writer must see that before the group is claimed for these sinks.
            return previous
        # Only here: joining takes partitions from other members, which a refused query must not do.
        yield StartMembership()
        self.may_join = True
        return None

    def refuse_new_unclaimed_offsets(
        self, sinks: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
    ) -> None:
        """Raise AnotherSink if an offset without a sink was committed since this query looked.

        For a new query. The offset is another member's, whose sink is not known.
        """
        if self._unclaimed_at_start is not None:
            foreign = {
                partition: offset
                for partition, offset in unclaimed_offsets(stored).items()
                if self._unclaimed_at_start.get(partition) != offset
            }
            refuse_skipped_records(sinks, foreign)

    def record_claim(self) -> None:
        """Record that this query has claimed the group, and no other query has."""
        self._unclaimed_at_start = None

    def _leave_and_ask(self, to_ask: Span, report: WriterReport, awaited: Sinks) -> Rule[Span]:
        """Leave the Spark query's group, to adopt it when it has no members; return what to ask.

        awaited: the sinks that have to answer, unless the user changes them with adopt=True.
        """
        self._awaited_sinks = report.sinks if report.adopt else awaited
        yield EndMembership()
        # The next answer is checked like the first one of a new process.
        self.may_join = False
        self._awaited = AwaitedMembers()
        return to_ask._replace(sinks=None)

    def _check_group(self, sinks: Sinks, report: WriterReport, previous: Span) -> Rule[bool]:
        """Return whether a sink has claimed the group, which is this Spark query's or nobody's.

        Raises AnotherSink if it is neither.
        Raises NotReady while members of the group have not named their sink yet, or while a group
        that is to be adopted has members that may be leaving.
        """
        stored = yield from self._group.fetch_offsets(0)
        # Nothing proves that the group is this query's: no fence in the sink, no name in the group.
        is_new = bool(
            sinks
            and previous.asks_for_sinks
            and not report.has_records
            and not claimed_sinks(stored)
        )
        try:
            refuse_other_sinks(sinks, stored)
            if is_new:
                refuse_skipped_records(
                    sinks,
                    (yield from offsets_skipping_records(unclaimed_offsets(stored), previous)),
                )
        except AnotherSink:
            if not report.adopt:
                raise
            yield from self._adopt_group(sinks, stored)
        else:
            if is_new and stored and not previous.ranges:
                # Without a position of its own the query would go on where the members are.
                yield from self._await_claim(sinks)
                self._unclaimed_at_start = unclaimed_offsets(stored)
        return bool(claimed_sinks(stored))

    def _adopt_group(
        self, sinks: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
    ) -> Rule[None]:
        """Commit every offset of the group again with the Spark query's sinks, for adopt=True.

        Raises NotReady while the group has members that may be leaving, AnotherSink afterwards.
        """
        offsets = {
            partition: committed.offset
            for partition, committed in stored.items()
            if committed.offset is not None
        }
        try:
            yield CommitOffsets(offsets, 0, metadata_of(sinks, starting=True))
        except Refused as refused:
            # A commit without a member id is refused so if the group has members.
            if not is_lost_membership(refused.code):
                raise
            what = "it cannot be adopted while it has members, whose records go elsewhere"
            # Mostly members of this query's last run, which was stopped or killed a moment ago.
            readers = yield from self._group.list_readers()
            members = tuple(reader.member_id for reader in readers)
            if not (yield from self._record_members(members)):
                raise NotReadyForATime(f"{what}; this query waits until they have left") from None
            raise AnotherSink(
                f"{what}: stop them first, and if this query has "
                f"several sources of the group, give each a group of its own ({refused})"
            ) from None
        self._awaited = AwaitedMembers()
        names = tuple(
            dict.fromkeys(name for sinks in claimed_sinks(stored).values() for name in sinks)
        )
        previous_sinks = sink_names(names) if names else "no sink that is known"
        yield Note(
            "warning",
            f"adopt=True: the group belonged to {previous_sinks}, and belongs to "
            f"{sink_names(sinks)} from now on",
        )

    def _await_claim(self, sinks: Sinks) -> Rule[None]:
        """Wait until members that have not named their sink do so, for a session timeout at most.

        Another query of the same sink that began a moment earlier names it with its first commit.
        Raises NotReady while that may happen, AnotherSink afterwards.
        """
        readers = yield from self._group.list_readers()
        if not readers:
            self._awaited = AwaitedMembers()
            return
        clients = ", ".join(reader.client for reader in readers[:CLIENTS_NAMED])
        more = ", ..." if len(readers) > CLIENTS_NAMED else ""
        what = (
            f"it has members ({len(readers)}: {clients}{more}) that have not reported which sink "
            "they write to"
        )
        # The time of the others does not count: without partitions they have nothing to commit.
        assigned = tuple(reader.member_id for reader in readers if reader.is_assigned)
        if not (yield from self._record_members(assigned)) or not assigned:
            raise NotReadyForATime(
                f"{what}; this query, which writes to {sink_names(sinks)}, waits for "
                "their first offsets, or their end"
            )
        raise AnotherSink(
            f"{what}, and this query writes to {sink_names(sinks)}: what they read would "
            "never be there. "
            "Give this query a group of its own (kafka.group.id); or stop these members "
            "and start again, with the same checkpoint"
        )

    def _record_members(self, members: tuple[str, ...]) -> Rule[bool]:
        """Record the members that the group has now; return whether they have stayed too long."""
        snapshot: MembershipSnapshot = yield ReadMembership()
        self._awaited = self._awaited.observe(members, snapshot)
        return self._awaited.have_stayed((yield from self._group.fetch_session_timeout()))


def offsets_skipping_records(
    offsets: Mapping[TopicIdPartition, int], previous: Span
) -> Rule[dict[TopicIdPartition, int]]:
    """Return the group's committed offsets with which a Spark query would skip records.

    Such offsets are ahead of the log's start, and not where the checkpoint's last span ends.
    """
    others = {
        partition: offset
        for partition, offset in offsets.items()
        if previous.end_or_none(partition) != offset
    }
    starts: dict[TopicIdPartition, int] = (
        (yield ListOffsets(tuple(others), EARLIEST)) if others else {}
    )
    return {partition: offset for partition, offset in others.items() if offset > starts[partition]}
