"""The rule by which a member that works in micro-batches comes from one batch to the next.

The coordinator may change the target assignment at any time; only `BatchPlanner.plan_next` applies
it, so ownership is frozen while a batch runs. Spark hands a span back as `previous` once its batch
is in the sink.
This gives the order of the steps, which must not change:

1. Ask the query's writers, by a span that reads nothing, which sinks they are, and check that the
   group's committed offsets belong to the same sinks (`admission.py`). Only then join the group.
2. Commit the ends of `previous`, which are durable now, with the member's epoch.
3. Adopt the target. Only this acknowledges a revocation, so a new owner starts from the committed
   ends.
4. Fetch the committed offsets of gained partitions, and claim them for the query's sinks.
5. Plan the next span (`plan.py`), commit start positions that were chosen anew, return the span.

Example: `previous` is t-0 [0, 10), and the target moves to t-1. Step 2 commits t-0 at 10, step 3
gives up t-0, step 4 finds 7 committed for t-1 by its last owner, and step 5 returns t-1 [7, 20).

The rule is a generator that yields queries (`queries.py`); the driver has the sockets, the clock
and the retries. An attempt that ends with an exception leaves a state from which the next attempt
can go on.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.batch.admission import (
    GroupAdmission,
    fetch_group_offsets,
    offsets_skipping_records,
)
from apportion.member.batch.offsets import OffsetAndMetadata, due_commits
from apportion.member.batch.plan import BatchPlan, LogBounds, PlanInput, StartingOffsets, plan_batch
from apportion.member.batch.queries import (
    AdoptAssignment,
    CommitOffsets,
    DescribeAssignment,
    ExistingTopics,
    LogEndOffsets,
    LogStartOffsets,
    MembershipSnapshot,
    NotReady,
    QueryGenerator,
    ReadMembership,
    ReadWriterReport,
    ResolveTopicNames,
    SessionTimeout,
    SubscribedTopics,
)
from apportion.member.batch.sinks import (
    UNREAD_METADATA,
    AnotherSink,
    Sinks,
    WriterReport,
    claimed_sinks,
    refuse_other_sinks,
    rewound,
    sinks_of,
    unclaimed_offsets,
)
from apportion.member.batch.span import Span, topic_id_text
from apportion.member.classic.described import has_full_assignment
from apportion.member.membership import MembershipState, View
from apportion.topics import Topic, TopicId, TopicIdPartition, Topics

SHARE_GRACE_MS = 5_000
TOPIC_GONE = (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)


class DataLoss(RuntimeError):
    """Records that should have been read are gone; the text names the offsets and what to do."""


class MembershipFailed(RuntimeError):
    """The member cannot be in its group; the text says why."""


class AssignmentIncomplete(NotReady):
    """The group answers, but has not assigned everything to this member yet that it will."""


class HeldPartitions(NamedTuple):
    """The partitions of the last span, and the incarnation of the member that held them."""

    incarnation: int
    partitions: Mapping[TopicIdPartition, None]


class BatchPlanner:
    """The state of a member that works in micro-batches, from one batch to the next."""

    def __init__(
        self,
        topics: tuple[str, ...],
        *,
        checkpoint: str,
        starting: StartingOffsets,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Nothing is held. checkpoint: the id of every span, unless the first `previous` has one.

        held: what the last span stood on. planned_incarnation: the incarnation of the last plan; 0:
        there was none.
        ends: where each owned partition ended when last looked at.
        """
        self.ends: dict[TopicIdPartition, int] = {}
        self._topics = topics
        self._checkpoint = checkpoint
        self._starting_offsets = starting
        self._fail_on_data_loss = fail_on_data_loss
        self._admission = GroupAdmission(checkpoint)
        self._rewinds: dict[
            TopicIdPartition, tuple[int, int]
        ] = {}  # where to go back to when the question is answered, and the batch's end
        # partitions of each topic when this member first looked
        self._partition_counts: dict[TopicId, int] | None = None
        self._session_ms = 0
        self._forget_membership()

    def _forget_membership(self) -> None:
        """Reset everything that belongs to a membership.

        Whose group it is must be checked again.
        """
        self.held = HeldPartitions(0, {})
        self.planned_incarnation = 0
        # what this member has committed in this incarnation
        self._committed: dict[TopicIdPartition, int] = {}
        # the last incarnation that had a place, and when that was first seen
        self._assigned_since = (0, 0)
        # the incarnation and epoch in which a query whose sink has no name last looked for claims
        self._checked_epoch = (0, 0)
        self._provisional_starts: dict[
            TopicIdPartition, int
        ] = {}  # start positions that were committed before anybody was known to be alone

    def plan_next(
        self, previous: Span, limit: int | None, caps: Mapping[TopicIdPartition, int] | None = None
    ) -> QueryGenerator[Span]:
        """Return the span that follows `previous`, which is in the sink.

        `previous` itself if nothing is new.

        limit, caps: as in `PlanInput`. Raises NotReady, DataLoss, MembershipFailed, AnotherSink,
        and whatever the driver throws in.
        """
        told: WriterReport = yield ReadWriterReport(previous)
        if previous.sinks is None and not previous.question_number:
            return (yield from self._ask_writers(previous, previous, told.rewind))
        stands = yield from self._admission.check_answer(previous, told)
        if not self._admission.may_join:
            self._forget_membership()
        if stands is not None:
            return (yield from self._ask_writers(stands, previous, told.rewind))
        sinks = told.sinks if previous.sinks is None else previous.sinks
        stood = rewound(previous, told.rewind)
        view = yield from self._require_membership()
        if not sinks:
            yield from self._check_claims_once_per_epoch(view)
        yield from self._commit(due_commits(stood, self.held.partitions, self._committed))
        owned = yield from self._adopt_target(view)
        if self.planned_incarnation != view.incarnation and not {*owned}.issuperset(
            previous.ranges
        ):
            yield from self.require_full_assignment(
                self._assigned_since[1] + self._session_ms + SHARE_GRACE_MS
            )
        kept = dict.fromkeys(
            place for place in owned if place in self.held.partitions and place in previous.ranges
        )
        yield from self._refuse_deleted(previous, owned)
        gained = tuple(place for place in owned if place not in kept)
        committed, doubted = yield from self._claim_gained(
            sinks, stood, gained, told.has_records and previous.question_number > 0
        )
        back = {
            place: at
            for place, at in self._rewind_offsets(previous, told, committed).items()
            if place in owned
        }
        doubted = tuple(place for place in doubted if place not in back)
        yield from self._commit(back)
        committed.update((place, offset) for place, offset in back.items() if place in committed)
        starts: dict[TopicIdPartition, int] = yield LogStartOffsets(owned)
        self.ends = yield LogEndOffsets(owned)
        sizes = self._partition_counts or {}
        world = PlanInput(
            checkpoint=self._checkpoint,
            logs={place: LogBounds(starts[place], self.ends[place]) for place in owned},
            kept=kept,
            committed=committed,
            starting_offsets=self._starting_offsets,
            new_partitions=dict.fromkeys(
                place for place in owned if place.partition >= sizes.get(place.topic_id, 0)
            ),
            limit=limit,
            caps=caps,
        )
        following = plan_batch(stood, world)
        yield from self._refuse_gaps(following)
        if previous.question_number:
            self._provisional_starts.update(following.commit_first)
        yield from self._commit(following.commit_first)
        if previous.question_number:
            # Nobody else has come to the group at the same moment: of two that commit and then
            # look, one sees the other.
            yield from self._refuse_other_sinks(
                sinks, (yield from fetch_group_offsets(self.held.incarnation))
            )
            self._provisional_starts.clear()
            self._admission.record_claim()
        self._rewinds.clear()
        self.held, self.planned_incarnation = (
            HeldPartitions(view.incarnation, dict.fromkeys(owned)),
            view.incarnation,
        )
        is_news = following.span is not previous or previous.question_number
        planned = (
            following.span._replace(sinks=sinks, question_number=0, unclaimed=doubted)
            if is_news
            else previous
        )
        self._admission.last_planned = planned
        return planned

    def _ask_writers(
        self, stands: Span, previous: Span, back: Mapping[TopicIdPartition, int]
    ) -> QueryGenerator[Span]:
        """Return a question to the writers.

        Keep the rewinds that they asked for until it is answered.
        """
        asking = yield from self._admission.ask_writers(rewound(stands, back))
        ends = previous.end_offsets()
        self._rewinds.update(
            (place, (offset, ends[place])) for place, offset in back.items() if place in ends
        )
        return asking

    def _rewind_offsets(
        self, previous: Span, told: WriterReport, committed: Mapping[TopicIdPartition, int | None]
    ) -> dict[TopicIdPartition, int]:
        """Return the offsets to which the writers want to rewind, by partition.

        A partition that was read past the batch in question since, here or by another member, is
        left out.
        """
        ends = previous.end_offsets()
        said = {
            **self._rewinds,
            **{
                place: (offset, ends[place])
                for place, offset in told.rewind.items()
                if place in ends
            },
        }
        return {
            place: offset
            for place, (offset, end) in said.items()
            if place not in committed or (known := committed[place]) is None or known <= end
        }

    def _claim_gained(
        self, sinks: Sinks, stood: Span, gained: tuple[TopicIdPartition, ...], is_upgrade: bool
    ) -> QueryGenerator[tuple[dict[TopicIdPartition, int | None], tuple[TopicIdPartition, ...]]]:
        """Claim the gained partitions for this query's sinks by committing their offsets with the
        sinks' names.

        Returns their committed offsets, and the partitions that are not claimed yet: their offset
        carries no sink's name and may skip records, so the sink has to admit the batch first, whose
        end is then committed.
        is_upgrade: the query asked its writers and a sink has fences of the group. Then offsets
        without a name may come from an older version, which set no fence for a partition without
        rows. Raises AnotherSink.
        """
        if not gained:
            return {}, ()
        stored = yield from fetch_group_offsets(self.held.incarnation, gained)
        yield from self._refuse_other_sinks(sinks, stored)
        committed = {place: stored[place].offset for place in gained}
        doubted: tuple[TopicIdPartition, ...] = ()
        if sinks and not (is_upgrade and (stood.ranges or not claimed_sinks(stored))):
            unnamed = unclaimed_offsets({place: stored[place] for place in gained})
            above = {
                place: offset
                for place, offset in unnamed.items()
                if offset > (stood.end_or_none(place) or 0)
            }
            doubted = tuple(sorted((yield from offsets_skipping_records(above, stood))))
        foreign = (
            place
            for place in gained
            if sinks and sinks_of(stored[place].metadata) != sinks and place not in doubted
        )
        claimed = {place: offset for place in foreign if (offset := committed[place]) is not None}
        for place in doubted:
            self._committed.pop(place, None)
        # The ends of `stood` that the group has not heard of were written by an earlier
        # incarnation, or process.
        yield from self._commit({**claimed, **due_commits(stood, committed, committed)})
        return committed, doubted

    def _refuse_other_sinks(
        self, sinks: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
    ) -> QueryGenerator[None]:
        """Raise AnotherSink if another sink has claimed an offset.

        Then mark our own unread starts as nobody's.
        """
        try:
            refuse_other_sinks(sinks, stored)
            self._admission.refuse_new_unclaimed_offsets(sinks, stored)
        except AnotherSink:
            unread = {
                place: offset
                for place, offset in self._provisional_starts.items()
                if stored.get(place) == OffsetAndMetadata(offset, self._admission.commit_metadata)
            }
            if unread:
                yield CommitOffsets(unread, self.held.incarnation, UNREAD_METADATA)
            raise

    def _check_claims_once_per_epoch(self, view: View) -> QueryGenerator[None]:
        """Raise AnotherSink if a sink has claimed the group since.

        For a query whose sinks are unknown.
        """
        if (view.incarnation, view.epoch) != self._checked_epoch:
            yield from self._refuse_other_sinks(
                (), (yield from fetch_group_offsets(view.incarnation))
            )
            self._checked_epoch = view.incarnation, view.epoch

    def require_full_assignment(self, until_ms: int) -> QueryGenerator[None]:
        """Raise AssignmentIncomplete while the group will assign more to this member, until
        `until_ms`.

        A coordinator may admit a member before it has computed its assignment, or while others
        still hold its partitions. A query that reads what is there and stops (availableNow) would
        stop too early; one that restarts would forget its position in partitions that are yet to
        come.
        """
        seen: MembershipSnapshot = yield ReadMembership()
        if seen.read_at_ms < until_ms and not has_full_assignment(
            seen.view, (yield DescribeAssignment())
        ):
            raise AssignmentIncomplete("the group has not given this member all of its share yet")

    def _require_membership(self) -> QueryGenerator[View]:
        """Return the membership if the coordinator accepted it within a session timeout.

        Raises NotReady.
        """
        seen: MembershipSnapshot = yield ReadMembership()
        view = seen.view
        if view.state is MembershipState.FATAL:
            raise MembershipFailed(str(view.error))
        if self._partition_counts is None:
            yield from self._read_initial_topics()
        if view.incarnation != self.held.incarnation:
            self.held, self._committed = HeldPartitions(view.incarnation, {}), {}
        if view.epoch <= 0 or view.target is None:
            raise NotReady(f"the member has no place in the group yet ({view.state.value})")
        if view.incarnation != self._assigned_since[0]:
            self._assigned_since = view.incarnation, seen.read_at_ms
        if is_silent(seen, self._session_ms):
            raise NotReady(f"the coordinator has accepted no heartbeat for {self._session_ms} ms")
        return view

    def _read_initial_topics(self) -> QueryGenerator[None]:
        """Remember the topics' sizes at the start: partitions that appear later are read from their
        beginning.
        """
        self._session_ms = yield SessionTimeout()
        topics: dict[str, Topic] = yield SubscribedTopics()
        self._partition_counts = {topic.id: topic.partitions for topic in topics.values()}
        for name in self._topics:
            if name not in topics:
                yield Note(
                    "warning",
                    f"topic {name} does not exist yet; it is read from its beginning once it does",
                )

    def _adopt_target(self, view: View) -> QueryGenerator[tuple[TopicIdPartition, ...]]:
        """Adopt the coordinator's target.

        Revoked partitions are dropped here first, and only then acknowledged.
        """
        assert view.target is not None
        owned: tuple[TopicIdPartition, ...] = yield ResolveTopicNames(view.target)
        if view.target != view.owned:
            self.held = HeldPartitions(
                view.incarnation,
                dict.fromkeys(place for place in owned if place in self.held.partitions),
            )
            now: View = yield AdoptAssignment(view.incarnation, view.target)
            if (now.incarnation, now.owned) != (view.incarnation, view.target):
                raise NotReady("the group has changed its mind about what this member holds")
        return owned

    def _commit(self, offsets: Mapping[TopicIdPartition, int]) -> QueryGenerator[None]:
        """Commit offsets, without those that the group has already and those of deleted topics."""
        new = {
            place: offset
            for place, offset in offsets.items()
            if self._committed.get(place) != offset
        }
        if not new:
            return
        try:
            yield CommitOffsets(new, self.held.incarnation, self._admission.commit_metadata)
        except Refused as refused:
            gone = (yield from self._deleted_partitions(new)) if refused.code in TOPIC_GONE else ()
            if not gone:
                raise
            yield from self._report_deleted_topics(new, gone)
            self.held = HeldPartitions(
                self.held.incarnation,
                dict.fromkeys(place for place in self.held.partitions if place not in gone),
            )
            yield from self._commit(
                {place: offset for place, offset in new.items() if place not in gone}
            )
        self._committed.update(new)

    def _refuse_deleted(
        self, previous: Span, owned: tuple[TopicIdPartition, ...]
    ) -> QueryGenerator[None]:
        """Report data loss if a topic that the last span read was deleted: its unread records are
        gone.
        """
        mine = dict.fromkeys(owned)
        gone = yield from self._deleted_partitions(
            place for place in previous.ranges if place not in mine
        )
        if gone:
            yield from self._report_deleted_topics(previous.end_offsets(), gone)

    def _deleted_partitions(
        self, places: Iterable[TopicIdPartition]
    ) -> QueryGenerator[tuple[TopicIdPartition, ...]]:
        """Return the partitions whose topic was deleted, or recreated under the same name."""
        suspects = tuple(places)
        if not suspects:
            return ()
        topics: Topics = yield ExistingTopics(
            tuple(dict.fromkeys(place.topic for place in suspects))
        )
        return tuple(
            place
            for place in suspects
            if (now := topics.named(place.topic)) is None or now.id != place.topic_id
        )

    def _report_deleted_topics(
        self, read: Mapping[TopicIdPartition, int], gone: tuple[TopicIdPartition, ...]
    ) -> QueryGenerator[None]:
        topics = ", ".join(
            dict.fromkeys(f"{place.topic} (id {topic_id_text(place.topic_id)})" for place in gone)
        )
        unread = ", ".join(f"{place} from offset {read[place]}" for place in gone)
        yield from self._report_data_loss(
            f"topic {topics} was deleted or created again: not read were {unread}"
        )

    def _refuse_gaps(self, following: BatchPlan) -> QueryGenerator[None]:
        """Report offsets that are gone as data loss.

        If the topic was recreated, the gap is that topic's: ListOffsets asks by name.
        """
        if following.gaps:
            gone = yield from self._deleted_partitions(gap.partition for gap in following.gaps)
            if gone:
                yield from self._report_deleted_topics(
                    {gap.partition: gap.expected for gap in following.gaps}, gone
                )
                raise NotReady(
                    f"the group has not heard yet that topic {gone[0].topic} was deleted"
                )
            yield from self._report_data_loss("; ".join(map(str, following.gaps)))

    def _report_data_loss(self, what: str) -> QueryGenerator[None]:
        """Raise DataLoss, or log it where failOnDataLoss is false."""
        if self._fail_on_data_loss:
            raise DataLoss(f"{what}. Set failOnDataLoss to false to go on without these records.")
        yield Note("warning", f"{what}; failOnDataLoss is false, so the query goes on")


def is_silent(seen: MembershipSnapshot, session_ms: int) -> bool:
    """Return whether the coordinator may have expired this member: no heartbeat accepted for a
    session timeout.
    """
    accepted_ms = seen.view.last_accepted_ms
    return accepted_ms is None or seen.read_at_ms - accepted_ms > session_ms
