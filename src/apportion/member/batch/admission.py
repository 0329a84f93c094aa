"""Whether a query may be in its group: its writers say which sinks they are, the group to which
sinks it belongs.

A question is a span that reads nothing (`Span.question_number`); the writers' answer is there with
the next call. A question of an earlier process is asked again where its answer is missing or would
refuse the query, so that what the writers say now counts. Reasons: docs/decisions/0041.
"""

from collections.abc import Mapping

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.queries import (
    CommitOffsets,
    EndMembership,
    FetchCommitted,
    ListMembers,
    LogStartOffsets,
    MembershipSnapshot,
    NotReady,
    QueryGenerator,
    ReadMembership,
    SessionTimeout,
    StartMembership,
    SubscribedTopics,
)
from apportion.member.batch.sinks import (
    AnotherSink,
    Sinks,
    WriterReport,
    claimed_sinks,
    metadata_of,
    refuse_other_sinks,
    refuse_silent_writers,
    refuse_skipped_records,
    rewound,
    sink_names,
    sinks_without_report,
    unclaimed_offsets,
)
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.topics import Topic, TopicIdPartition

CLAIM_GRACE_MS = 5_000
# the question to which no answer is one, although another process has asked it
SILENCE_BELIEVED_AT = 2
GROUP_HAS_MEMBERS = (  # a commit that no member makes is refused so where the group has members
    Code.UNKNOWN_MEMBER_ID,
    Code.ILLEGAL_GENERATION,
    Code.STALE_MEMBER_EPOCH,
    Code.FENCED_MEMBER_EPOCH,
    Code.REBALANCE_IN_PROGRESS,
)


class GroupAdmission:
    """What one process of a query has asked, and what it knows by the answers."""

    def __init__(self, checkpoint: str) -> None:
        """Nothing is known. checkpoint: the id of the first question, unless a span before it has
        one.

        planned: what this process has planned last, a question or a batch. metadata: of every
        commit. may_join: the group was found to be this query's.
        """
        self.last_planned = EMPTY_SPAN
        self.commit_metadata = ""
        self.may_join = False
        self._checkpoint = checkpoint
        # the last batch of which it is known that all writers were given it
        self._confirmed = EMPTY_SPAN
        self._awaited_sinks: Sinks = ()  # the sinks that have to answer the question that is open
        # as a newcomer has found the group; None: it has proof
        self._unclaimed_at_start: dict[TopicIdPartition, int] | None = None
        # those that have claimed nothing, and since when just they are seen
        self._unclaimed_members: tuple[str, ...] = ()
        self._unclaimed_since_ms = 0

    def ask_writers(self, previous: Span) -> QueryGenerator[Span]:
        """Return a span that reads nothing, by which the writers are asked which sinks they are.

        It names the partitions whose committed offset names no sink: the writers say whether they
        know them.
        """
        stored = yield from fetch_group_offsets(0)
        resting = {place: (to, to) for place, to in previous.end_offsets().items()}
        self.last_planned = Span(
            previous.id or self._checkpoint,
            resting,
            question_number=previous.question_number + 1,
            unclaimed=tuple(sorted(unclaimed_offsets(stored))),
        )
        return self.last_planned

    def check_answer(self, previous: Span, told: WriterReport) -> QueryGenerator[Span | None]:
        """Return None where the member may be in the group.

        Else the span that the next question follows.

        Raises AnotherSink where the group belongs to another sink and this process has asked for
        itself. The answer to an earlier process may be out of date: the user may have set
        adopt=True since.
        """
        is_mine = previous == self.last_planned
        if is_mine and not previous.question_number and previous != self._confirmed:
            if missing := sinks_without_report(previous, told):
                yield Note(
                    "warning",
                    f"the last batch was not given to {sink_names(missing)}: the writers "
                    "are asked, and it is planned again",
                )
                return (
                    yield from self._leave_and_ask(
                        rewound(previous, start_offsets(previous)), told, previous.sinks or ()
                    )
                )
            self._confirmed = previous
        if previous.sinks is not None and told.adopt and told.sinks not in ((), previous.sinks):
            return (yield from self._leave_and_ask(previous, told, told.sinks))
        if is_mine and previous.question_number:
            refuse_silent_writers(self._awaited_sinks, told)
        sinks = told.sinks if previous.sinks is None else previous.sinks
        self.commit_metadata = metadata_of(sinks)
        if self.may_join:
            return None
        if (
            previous.question_number
            and not is_mine
            and not sinks
            and previous.question_number < SILENCE_BELIEVED_AT
        ):
            yield Note(
                "warning",
                "no writer has said which table it writes to; they are asked again, with "
                "another empty batch",
            )
            return previous
        try:
            yield from self._check_group(
                sinks, told if is_mine else told._replace(adopt=False), previous
            )
        except AnotherSink as refused:
            if is_mine:
                raise
            yield Note(
                "warning",
                "the writers are asked again, with another empty batch, since this query "
                f"would be refused: {refused}",
            )
            return previous
        yield StartMembership()
        self.may_join = True
        return None

    def refuse_new_unclaimed_offsets(
        self, sinks: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
    ) -> None:
        """Raise AnotherSink where a member without a sink has committed since this new query looked
        first.
        """
        if self._unclaimed_at_start is not None:
            strange = {
                place: offset
                for place, offset in unclaimed_offsets(stored).items()
                if self._unclaimed_at_start.get(place) != offset
            }
            refuse_skipped_records(sinks, strange)

    def record_claim(self) -> None:
        """Record that the query has claimed the group, and nobody else has."""
        self._unclaimed_at_start = None

    def _leave_and_ask(
        self, stands: Span, told: WriterReport, awaited: Sinks
    ) -> QueryGenerator[Span]:
        """Leave the group, which cannot be adopted while it has members.

        Return the span for the next question.
        """
        self._awaited_sinks = told.sinks if told.adopt else awaited
        yield EndMembership()
        self.may_join = False
        return stands

    def _check_group(
        self, sinks: Sinks, told: WriterReport, previous: Span
    ) -> QueryGenerator[None]:
        """Raise AnotherSink unless the group is this query's or nobody's, before the member takes
        any partition.
        """
        stored = yield from fetch_group_offsets(0)
        is_claimed = bool(claimed_sinks(stored))
        is_new = bool(
            sinks and previous.question_number and not told.has_records and not is_claimed
        )
        try:
            refuse_other_sinks(sinks, stored)
            if is_new:
                refuse_skipped_records(
                    sinks,
                    (yield from offsets_skipping_records(unclaimed_offsets(stored), previous)),
                )
        except AnotherSink:
            if not told.adopt:
                raise
            yield from self._adopt_group(sinks, stored)
        else:
            if is_new and stored and not previous.ranges:
                yield from self._await_claim(sinks)
                self._unclaimed_at_start = unclaimed_offsets(stored)

    def _adopt_group(
        self, sinks: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
    ) -> QueryGenerator[None]:
        """Commit every offset again with this query's sinks.

        Raises AnotherSink where the group has members.
        """
        offsets = {place: one.offset for place, one in stored.items() if one.offset is not None}
        try:
            yield CommitOffsets(offsets, 0, self.commit_metadata)
        except Refused as refused:
            if refused.code not in GROUP_HAS_MEMBERS:
                raise
            raise AnotherSink(
                "it cannot be adopted while it has members, whose records go elsewhere: "
                "stop them first, and if this query has "
                f"several sources of the group, give each a group of its own ({refused})"
            ) from None
        before = (
            " and ".join(dict.fromkeys(sink_names(each) for each in claimed_sinks(stored).values()))
            or "no sink that is known"
        )
        yield Note(
            "warning",
            f"adopt=True: the group belonged to {before}, and belongs to "
            f"{sink_names(sinks)} from now on",
        )

    def _await_claim(self, sinks: Sinks) -> QueryGenerator[None]:
        """Wait for members that have not named their sink, a session timeout at most.

        Another query of the same sink that began a moment earlier names it with its first commit.
        Raises NotReady while that may happen, AnotherSink after.
        """
        members: tuple[str, ...] = yield ListMembers()
        if not members:
            return
        seen: MembershipSnapshot = yield ReadMembership()
        if members != self._unclaimed_members:
            self._unclaimed_members, self._unclaimed_since_ms = members, seen.read_at_ms
        what = f"it has members ({len(members)}) that have not said which sink they write to"
        if seen.read_at_ms - self._unclaimed_since_ms <= (yield SessionTimeout()) + CLAIM_GRACE_MS:
            raise NotReady(
                f"{what}; this query, which writes to {sink_names(sinks)}, waits for "
                "their first offsets, or their end"
            )
        raise AnotherSink(
            f"{what}, and this query writes to {sink_names(sinks)}: what they read would "
            "never be there. "
            "Give this query a group of its own (kafka.group.id); or stop these members "
            "and start again, with the same checkpoint"
        )


def offsets_skipping_records(
    offsets: Mapping[TopicIdPartition, int], previous: Span
) -> QueryGenerator[dict[TopicIdPartition, int]]:
    """Return the offsets that skip records: ahead of a log's start, and not where the checkpoint
    ends.
    """
    others = {
        place: offset for place, offset in offsets.items() if previous.end_or_none(place) != offset
    }
    starts: dict[TopicIdPartition, int] = (yield LogStartOffsets(tuple(others))) if others else {}
    return {place: offset for place, offset in others.items() if offset > starts[place]}


def start_offsets(batch: Span) -> dict[TopicIdPartition, int]:
    """Return where each partition of the batch begins."""
    return {place: start for place, (start, _) in batch.ranges.items()}


def fetch_group_offsets(
    incarnation: int, gained: tuple[TopicIdPartition, ...] = ()
) -> QueryGenerator[dict[TopicIdPartition, OffsetAndMetadata]]:
    """Return the committed offsets of every partition that the group's members may read."""
    topics: dict[str, Topic] = yield SubscribedTopics()
    places = {
        TopicIdPartition(topic.name, topic.id, number)
        for topic in topics.values()
        for number in range(topic.partitions)
    }
    wanted = tuple(sorted(places.union(gained)))
    stored: dict[TopicIdPartition, OffsetAndMetadata] = (
        (yield FetchCommitted(wanted, incarnation)) if wanted else {}
    )
    return stored
