"""A Spark query's member: runs the batch rule, answering its queries from the session and the
cluster.

The session's thread learns of a new target at any time; only `next_span` applies it. Spark asks for
the next batch after it has committed the last one, so the span that comes back as `previous` is in
the sink: the batch rule builds on that. This module decides how long to retry; it reads no record
and does not decide what is read.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar, cast
from uuid import uuid4

from apportion.client.cluster import Cluster, partitions_of
from apportion.client.connection import Disconnected
from apportion.client.group_membership import GroupMembership
from apportion.client.network_client import RetryTimer
from apportion.drive.clocks import now
from apportion.errors import Refused
from apportion.machine import Note
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.plan import EARLIEST, LATEST
from apportion.member.batch.queries import (
    AdoptAssignment,
    CommitOffsets,
    DescribeAssignment,
    EndMembership,
    ExistingTopics,
    FetchCommitted,
    ListMembers,
    LogEndOffsets,
    LogStartOffsets,
    MembershipSnapshot,
    NotReady,
    Query,
    QueryGenerator,
    ReadMembership,
    ReadWriterReport,
    ResolveTopicNames,
    SessionTimeout,
    StartMembership,
    SubscribedTopics,
)
from apportion.member.batch.rule import AssignmentIncomplete, BatchPlanner, MembershipFailed
from apportion.member.batch.sinks import NO_REPORT, AnotherSink, WriterReport
from apportion.member.batch.span import Span
from apportion.member.membership import View
from apportion.readable import readable
from apportion.spark import handover
from apportion.spark.group_description import (
    CALL_TIMEOUT_MS,
    describe_assignment,
    list_readers,
    subscribed_topics,
)
from apportion.spark.options import SourceOptions
from apportion.topics import TopicIdPartition

FIRST_ANSWER_LIMIT_S = 60.0
# a new query waits so long for its place: else Spark would begin with an empty batch
FIRST_PLACE_WAIT_S = 3.0
STANDSTILL_LIMIT_S = 120.0
GOODBYE_MS = 3_000
IDLE_WAIT_MS = 100
RETRY_WAIT_MS = 500
NO_BROKER = (
    "; see that a broker listens there and can be reached from this host, or give another "
    "kafka.bootstrap.servers"
)
T = TypeVar("T")

log = logging.getLogger("apportion.spark")


class BatchMember:
    """A member of the group that reads in spans.

    It joins once the group is known to be this query's.
    """

    def __init__(self, options: SourceOptions) -> None:
        """The member joins on a thread of its own, once the group is known to be this query's."""
        self.options = options
        self.cluster = Cluster(
            options.bootstrap, client_id=options.client_id, timeout_ms=options.request_timeout_ms
        )
        self.session = self._new_session()
        self.planner = BatchPlanner(
            options.topics,
            checkpoint=uuid4().hex,
            starting=options.starting,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        self._caps: dict[TopicIdPartition, int] | None = None
        self._failing_since_s: float | None = None  # since when nothing can be planned
        self._began_s = self._answered_s = monotonic()
        self._last_logged = ""
        self._has_joined = False
        self._has_stale_reports = True  # something that writers have said may lie about
        self._last_report = NO_REPORT

    def _new_session(self) -> GroupMembership:
        return GroupMembership(
            self.cluster, self.options.group, self.options.topics, **self.options.membership()
        )

    def close(self, timeout_ms: int = GOODBYE_MS) -> None:
        """Leave the group, waiting at most `timeout_ms`."""
        if self._has_joined:
            self.session.leave(timeout_ms)
        self.cluster.close()

    def touch(self) -> None:
        """Tell the session that Spark has asked for a batch (max.poll.interval.ms)."""
        if self._has_joined:
            self.session.touch()

    def stop_at_present_ends(self) -> None:
        """Read no partition beyond its present end from now on (`trigger(availableNow=True)`)."""
        retry_timer = RetryTimer(int(STANDSTILL_LIMIT_S * 1000))
        while True:
            try:
                topics = subscribed_topics(self.cluster, self.options)
                places = [place for topic in topics.values() for place in partitions_of(topic)]
                self._caps = self.cluster.list_offsets(places, LATEST, timeout_ms=CALL_TIMEOUT_MS)
                return
            except (Refused, Disconnected) as error:
                retry_timer.pause(
                    MembershipFailed(
                        f"the ends of {', '.join(self.options.topics)} cannot be read: {error}"
                    )
                )

    def next_span(self, previous: Span, limit: int | None) -> Span:
        """Return the span after `previous`.

        `previous` itself if nothing is new or nothing can be planned now.

        With `stop_at_present_ends` an unchanged span means that everything is read, so it is
        returned only once that is certain. Raises DataLoss, MembershipFailed, AnotherSink.
        """
        self._warn_of_long_batch()
        try:
            return self._plan_with_retries(previous, limit)
        finally:
            self._answered_s = monotonic()

    def _plan_with_retries(self, previous: Span, limit: int | None) -> Span:
        share_until_ms = now().mono_ms + int(STANDSTILL_LIMIT_S * 1000)
        while True:
            self.touch()
            try:
                following = self._run(self.planner.plan_next(previous, limit, self._caps))
                if (
                    self._caps is not None
                    and not following.question_number
                    and following.end_offsets() == previous.end_offsets()
                ):
                    self._run(self.planner.require_full_assignment(share_until_ms))
                self._failing_since_s = None
                self._log("")
                self._delete_stale_reports(previous)
                if following == previous and self._caps is None:
                    self.session.wait(lambda view: view.target != view.owned, IDLE_WAIT_MS)
                return following
            except (NotReady, Refused, Disconnected) as error:
                late = monotonic() - self._began_s > FIRST_PLACE_WAIT_S
                # that a join takes a moment is no news
                if self.planner.planned_incarnation or late:
                    self._log(str(error))
                self._raise_if_stuck(error)
                answers = self._caps is None and (bool(previous.ranges) or late)
                self.session.wait_for_change(IDLE_WAIT_MS if answers else RETRY_WAIT_MS)
                if answers:
                    return previous
            except (MembershipFailed, AnotherSink) as failed:
                raise type(failed)(f"group {self.options.group}: {failed}") from None

    def ends(self) -> dict[TopicIdPartition, int]:
        """Return where each owned partition ended when last looked at."""
        return dict(self.planner.ends)

    def _run(self, asking: QueryGenerator[T]) -> T:
        """Run a rule: put each of its queries to the cluster or the session, and return its
        result.
        """
        try:
            ask = next(asking)
            while True:
                try:
                    answer = ANSWERS[type(ask)](self, ask)
                except (Refused, Disconnected) as error:
                    ask = asking.throw(error)
                else:
                    ask = asking.send(answer)
        except StopIteration as end:
            return cast("T", end.value)

    def _read_report(self, previous: Span) -> WriterReport:
        """Return what the writers reported of that span."""
        told = handover.read_reports(previous)
        self._has_stale_reports = self._has_stale_reports or told != NO_REPORT
        self._last_report = told
        return told

    def _delete_stale_reports(self, previous: Span) -> None:
        """Delete reports of earlier spans, once a span without a report carries what they said."""
        if (
            self._has_stale_reports
            and previous.sinks is not None
            and self._last_report == NO_REPORT
        ):
            handover.delete_reports(previous)
            self._has_stale_reports = False

    def _join(self) -> None:
        if not self._has_joined:
            self._has_joined = True
            self._began_s = monotonic()
            self.session.start()

    def _leave(self) -> None:
        if self._has_joined:
            self._has_joined = False
            self.session.leave(GOODBYE_MS, for_good=True)
            self.session = self._new_session()

    def _fetch_committed(self, ask: FetchCommitted) -> dict[TopicIdPartition, OffsetAndMetadata]:
        if ask.incarnation == 0:
            return self.cluster.committed_offsets(
                self.options.group, ask.partitions, timeout_ms=CALL_TIMEOUT_MS
            )
        return self.session.committed_offsets(
            ask.partitions, incarnation=ask.incarnation, timeout_ms=CALL_TIMEOUT_MS
        )

    def _commit(self, ask: CommitOffsets) -> None:
        if ask.incarnation == 0:
            self.cluster.commit(
                self.options.group, ask.offsets, metadata=ask.metadata, timeout_ms=CALL_TIMEOUT_MS
            )
        else:
            self.session.commit(
                ask.offsets,
                incarnation=ask.incarnation,
                metadata=ask.metadata,
                timeout_ms=CALL_TIMEOUT_MS,
            )

    def _snapshot(self) -> MembershipSnapshot:
        return MembershipSnapshot(self.session.status(), now().mono_ms)

    def _session_timeout_ms(self) -> int:
        if self.options.classic:
            return self.options.session_timeout_ms
        return int(self.cluster.broker_setting("group.consumer.session.timeout.ms") or 45_000)

    def _adopt(self, ask: AdoptAssignment) -> View:
        self.session.adopt(ask.incarnation, ask.target)
        return self.session.status()

    def _log_note(self, note: Note) -> None:
        log.log(
            logging.getLevelName(note.level.upper()),
            "group %s: %s",
            readable(self.options.group),
            readable(note.text),
        )

    def _raise_if_stuck(self, error: Exception) -> None:
        """Raise MembershipFailed where retrying longer would hide a fault: no answer since the
        start, or no end in sight.
        """
        if isinstance(error, AssignmentIncomplete):
            self._failing_since_s = None
            return
        if self._failing_since_s is None:
            self._failing_since_s = monotonic()
        hopeless = isinstance(error, Refused) and not error.code.retriable
        if self.planner.planned_incarnation == 0:
            limit_s = FIRST_ANSWER_LIMIT_S / 4 if hopeless else FIRST_ANSWER_LIMIT_S
            if self._waits_for_others():
                limit_s = max(limit_s, self.options.rebalance_timeout_ms / 1000)
        elif hopeless or self._caps is not None:
            limit_s = STANDSTILL_LIMIT_S
        else:
            return  # a broker that is away comes back
        waited_s = monotonic() - self._failing_since_s
        if waited_s > limit_s:
            remedy = NO_BROKER if isinstance(error, Disconnected) else ""
            raise MembershipFailed(
                f"group {self.options.group} at {self.options.bootstrap}: nothing to read "
                f"for {waited_s:.0f} s: {error}{remedy}"
            ) from error

    def _waits_for_others(self) -> bool:
        """Return whether the coordinator holds back JoinGroup until all members of the classic
        group have rejoined.
        """
        view = self.session.status()
        return self.options.classic and bool(view.member_id) and view.target is None

    def _warn_of_long_batch(self) -> None:
        """Log a warning if the last batch took over half of kafka.max.poll.interval.ms."""
        took_ms = (monotonic() - self._answered_s) * 1000
        if took_ms > self.options.rebalance_timeout_ms / 2:
            log.warning(
                "group %s: the last batch took %.0f s; after %.0f s "
                "(kafka.max.poll.interval.ms) the query loses its partitions: "
                "lower maxOffsetsPerTrigger or raise that option",
                self.options.group,
                took_ms / 1000,
                self.options.rebalance_timeout_ms / 1000,
            )

    def _log(self, what: str) -> None:
        """Log why the query waits when the reason changes, not at every trigger."""
        if what != self._last_logged:
            self._last_logged = what
            log.warning("group %s: %s", self.options.group, what or "reading again")


# What each question of the rule is put to.
ANSWERS: dict[type[Query], Callable[[BatchMember, Any], Any]] = {
    ReadWriterReport: lambda owner, ask: owner._read_report(ask.previous),
    StartMembership: lambda owner, ask: owner._join(),
    EndMembership: lambda owner, ask: owner._leave(),
    ReadMembership: lambda owner, ask: owner._snapshot(),
    SessionTimeout: lambda owner, ask: owner._session_timeout_ms(),
    SubscribedTopics: lambda owner, ask: subscribed_topics(owner.cluster, owner.options),
    ExistingTopics: lambda owner, ask: owner.cluster.topics(ask.names, fresh=True),
    ResolveTopicNames: lambda owner, ask: owner.session.resolve_names(ask.partitions),
    AdoptAssignment: BatchMember._adopt,
    FetchCommitted: BatchMember._fetch_committed,
    CommitOffsets: BatchMember._commit,
    LogStartOffsets: lambda owner, ask: owner.cluster.list_offsets(
        ask.partitions, EARLIEST, timeout_ms=CALL_TIMEOUT_MS
    ),
    LogEndOffsets: lambda owner, ask: owner.cluster.list_offsets(
        ask.partitions, LATEST, timeout_ms=CALL_TIMEOUT_MS
    ),
    DescribeAssignment: lambda owner, ask: describe_assignment(owner.cluster, owner.options),
    ListMembers: lambda owner, ask: list_readers(owner.cluster, owner.options),
    Note: BatchMember._log_note,
}
