"""The attempts to plan a query's next micro-batch: when to try again, skip a trigger, or give up.

`planner.py` makes one attempt; here its errors are judged, over all micro-batches of a query:

- An error that may pass is waited for. Mostly the last span is returned meanwhile, and Spark asks
  again at its next trigger; a query that begins, or must read up to fixed ends
  (trigger(availableNow=True)), tries again without returning.
- With fixed ends an unchanged span ends the query, so it is returned only when everything is known
  to be read: no partition may be on its way to this member.
- An error that has lasted for its limit (`retry_limits.py`) ends the query.

Example: a broker that cannot be reached ends a query that begins after 60 s. A query that has had
an assignment logs once that it waits, returns its last span every 100 ms, and logs when it reads
again.

The rule reads time from the snapshots of the membership (monotonic ms). It knows no records, no
writers and no sockets.
"""

from typing import NamedTuple

from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note
from apportion.member.batch import retry_limits
from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.plan import ReadLimits
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import (
    AwaitNewTarget,
    AwaitNextAttempt,
    DeleteOldReports,
    NotReady,
    NotReadyForATime,
)
from apportion.member.batch.span import Span
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.group_claims import AnotherSink
from apportion.member.missing_topic import missing_topic_remedy
from apportion.member.queries import (
    ListOffsets,
    MembershipSnapshot,
    PollMembership,
    ReadMembership,
)
from apportion.member.reactions import is_authentication_failure
from apportion.member.time_limits import RetryDeadline
from apportion.readable import readable
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.messages.list_offsets import LATEST

# A query that starts waits this long for its first assignment: else Spark would begin with an empty
# batch, or take the last batch of the checkpoint for the end of what there is.
FIRST_ASSIGNMENT_WAIT_MS = 3_000


class Pauses(NamedTuple):
    """The pauses of a query, in ms; each is over early if the member gets a new assignment.

    idle: before an unchanged span is returned. skipped: the same after an error. retry: before the
    next attempt, where no span may be returned.
    """

    idle_ms: int = 100
    skipped_ms: int = 100
    retry_ms: int = 500


class QuerySettings(NamedTuple):
    """The settings of one query: its group, its brokers as the user gave them, its topics.

    classic: the member speaks the classic protocol. max_poll_interval_ms: the time within which
    the query must ask for its next batch, also the member's rebalance timeout; None for a reader
    without a membership. least_offsets: fewer new offsets are not read until `longest_delay_ms`
    after the last batch (minOffsetsPerTrigger).
    """

    group_id: str
    servers: str
    topics: TopicChoice
    classic: bool
    max_poll_interval_ms: int | None
    pauses: Pauses = Pauses()
    least_offsets: int = 0
    longest_delay_ms: int = 0


class BatchRetries:
    """The attempts of one process of a query, from its first micro-batch to its last.

    Spark may ask about every 10 ms when idle: the pauses before an unchanged span spare the
    brokers. It has no limit for latestOffset, and heartbeats go on meanwhile, so the rule may take
    its time.
    """

    def __init__(self, planner: BatchPlanner, settings: QuerySettings) -> None:
        self._planner, self._settings = planner, settings
        # By partition, the end offset that trigger(availableNow=True) stops at.
        self._end_limits: dict[TopicIdPartition, int] | None = None
        self._unplanned_since_ms: int | None = None  # since when no batch could be planned
        # the same without the time of errors that end their wait by themselves
        self._failing_since_ms: int | None = None
        self._returned_at_ms: int | None = None
        # When the last span with records was returned.
        self._read_at_ms: int | None = None
        self._last_logged = ""

    @property
    def waits_for(self) -> str:
        """The reason why the query waits, in the words of its log; "" while it reads."""
        if self._last_logged:
            return self._last_logged
        missing = self._planner.missing_topics()
        if missing.expression:
            return f"no topic matched {missing.expression} as the query began"
        names = ", ".join(missing.names)
        return f"{names}: no such topic as the query began" if names else ""

    def stop_at_present_ends(self) -> Rule[None]:
        """Read no partition beyond its present end from now on, for trigger(availableNow=True).

        Raises MembershipFailed if no broker tells the ends in time, or one of the topics that are
        named does not exist by then: the query would end as if there were nothing to read.
        """
        began_ms = yield from self._read_time_ms()
        deadlines: dict[float, RetryDeadline] = {}
        while True:
            try:
                self._end_limits = yield from self._fetch_ends()
                return
            except (Refused, Unanswerable) as error:
                failure = error
            self._raise_if_locked_out(failure)
            limit_s = retry_limits.end_limit_s(failure)
            yield from self._log(retry_limits.waiting_text(failure, limit_s))
            deadline = deadlines.setdefault(limit_s, RetryDeadline(began_ms, int(limit_s * 1000)))
            text = (
                f"the ends of {self._settings.topics} cannot be read: {failure}"
                f"{retry_limits.remedy(failure)}"
            )
            now_ms = yield from self._read_time_ms()
            yield AwaitNextAttempt(deadline.next_pause_ms(now_ms, MembershipFailed(text)))

    def _fetch_ends(self) -> Rule[dict[TopicIdPartition, int]]:
        """Return the present end of each partition; raise Refused for a topic that is missing."""
        topics = self._settings.topics
        existing = yield from topics.find_topics()
        for name in topics.names:
            if existing.named(name) is None:
                raise Refused(
                    Code.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {name} does not exist: "
                    + missing_topic_remedy(name, self._settings.servers),
                )
        partitions = tuple(each for topic in existing for each in partitions_of(topic))
        ends: dict[TopicIdPartition, int] = yield ListOffsets(partitions, LATEST)
        return ends

    def next_span(
        self, previous: Span, limit: int | None, *, reads_all: bool = False
    ) -> Rule[Span]:
        """Return the span of the query's next micro-batch after `previous`, which is in the sink.

        Returns `previous` itself if there is nothing new, or if nothing can be planned now. After
        `stop_at_present_ends` the latter does not happen.

        limit: maxOffsetsPerTrigger. reads_all: any number of new offsets is enough. Raises
        DataLoss, NoRecordAtTime, MembershipFailed, AnotherSink.
        """
        now_ms = yield from self._read_time_ms()
        yield from self._warn_of_long_batch(now_ms)
        limit_ms = int(retry_limits.NO_PROGRESS_TIMEOUT_S * 1000)
        limits = ReadLimits(
            limit, 0 if reads_all else self._least_offsets(now_ms), self._end_limits
        )
        while True:
            yield PollMembership()
            try:
                # The whole plan is made anew in each attempt: the planner keeps a state from which
                # it can go on.
                following: Span = yield from self._planner.plan_next(previous, limits)
                if self._is_end(previous, following):
                    yield from self._planner.require_full_assignment(now_ms + limit_ms, limit_ms)
            except (NotReady, Refused, Unanswerable) as error:
                failure = error
            except (MembershipFailed, AnotherSink) as failed:
                # An exception in latestOffset ends the query at once, so its text is all that a
                # person gets to see.
                raise type(failed)(f"group {readable(self._settings.group_id)}: {failed}") from None
            else:
                yield from self._record_plan(previous, following)
                break
            snapshot: MembershipSnapshot = yield ReadMembership()
            yield from self._record_failure(failure, snapshot)
            skips = self._may_skip_trigger(snapshot.read_at_ms)
            pauses = self._settings.pauses
            yield AwaitNextAttempt(pauses.skipped_ms if skips else pauses.retry_ms)
            if skips:
                following = previous
                break
        self._returned_at_ms = yield from self._read_time_ms()
        if following != previous and any(start < end for start, end in following.ranges.values()):
            self._read_at_ms = self._returned_at_ms
        return following

    def _least_offsets(self, now_ms: int) -> int:
        """Return the fewest new offsets that are worth a batch now (minOffsetsPerTrigger)."""
        # The first batch comes at once, and with fixed ends the rest would never be read.
        if self._read_at_ms is None or self._end_limits is not None:
            return 0
        waited_ms = now_ms - self._read_at_ms
        return self._settings.least_offsets if waited_ms < self._settings.longest_delay_ms else 0

    def commit_last(self, previous: Span) -> Rule[bool]:
        """Commit `previous`, which is in the sink, for a member that leaves next, in one attempt.

        Return whether nothing of it is left to commit; if something is, the log says why.
        """
        try:
            return (yield from self._planner.commit_last(previous))
        except (NotReady, Refused, Unanswerable, MembershipFailed, AnotherSink, DataLoss) as error:
            yield Note(
                "warning",
                f"the group does not know of the last batch, which is in the sink: {error}; it is "
                "committed when the query starts again, and until then the next owner of its "
                "partitions reads it once more",
            )
            return False

    def _is_end(self, previous: Span, following: Span) -> bool:
        """Return whether a query with fixed ends would end with this span: it has nothing new."""
        return (
            self._end_limits is not None
            and not following.question_number
            and following.end_offsets() == previous.end_offsets()
        )

    def _record_plan(self, previous: Span, following: Span) -> Rule[None]:
        """Record that a batch was planned; pause if it has nothing new."""
        self._forget_failures()
        yield from self._log("")
        # After the plan: until then a restart would ask for the same reports again.
        yield DeleteOldReports(previous)
        if following == previous and self._end_limits is None:
            yield AwaitNewTarget(self._settings.pauses.idle_ms)

    def _forget_failures(self) -> None:
        self._unplanned_since_ms = self._failing_since_ms = None

    def _record_failure(self, error: Exception, snapshot: MembershipSnapshot) -> Rule[None]:
        """Record that an attempt failed, and log why the query waits.

        snapshot: after the attempt. Raises MembershipFailed where trying any longer would only hide
        the fault.
        """
        self._raise_if_locked_out(error)
        now_ms = snapshot.read_at_ms
        if self._unplanned_since_ms is None:
            self._unplanned_since_ms = now_ms
        has_assignment = self._planner.planned_incarnation is not None
        # JoinGroup is held back until every member has rejoined, which may take their longest
        # rebalance timeout.
        view = snapshot.view
        is_join_pending = self._settings.classic and bool(view.member_id) and view.target is None
        limit_s = retry_limits.retry_limit_s(
            error,
            has_assignment=has_assignment,
            must_end=self._end_limits is not None,
            join_limit_s=(
                (self._settings.max_poll_interval_ms or 0) / 1000 if is_join_pending else 0
            ),
        )
        # Every join takes a moment: a new query does not warn of it.
        if has_assignment or self._is_late(now_ms):
            yield from self._log(retry_limits.waiting_text(error, limit_s))
        self._raise_if_hopeless(error, now_ms, limit_s)

    def _may_skip_trigger(self, now_ms: int) -> bool:
        """Return whether Spark may get its last span again while nothing can be planned."""
        # An unchanged span says that all is read: with end limits the query would end, and
        # processAllAvailable would return as a query starts, also from a checkpoint.
        has_assignment = self._planner.planned_incarnation is not None
        return self._end_limits is None and (has_assignment or self._is_late(now_ms))

    def _is_late(self, now_ms: int) -> bool:
        """Return whether no batch could be planned for longer than a first assignment takes."""
        since_ms = self._unplanned_since_ms
        return since_ms is not None and now_ms - since_ms > FIRST_ASSIGNMENT_WAIT_MS

    def _raise_if_locked_out(self, error: Exception) -> None:
        """Raise MembershipFailed if the brokers do not let this query in."""
        if is_authentication_failure(error):
            raise MembershipFailed(
                f"group {readable(self._settings.group_id)} at {self._settings.servers}: {error}"
            ) from error

    def _raise_if_hopeless(self, error: Exception, now_ms: int, limit_s: float | None) -> None:
        """Raise MembershipFailed if attempts have failed for longer than the error's limit."""
        if isinstance(error, NotReadyForATime):
            self._failing_since_ms = None
            return
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        waited_s = (now_ms - self._failing_since_ms) / 1000
        if limit_s is not None and waited_s > limit_s:
            raise MembershipFailed(
                f"group {readable(self._settings.group_id)} at {self._settings.servers}: "
                f"nothing to read for {waited_s:.0f} s: {error}{retry_limits.remedy(error)}"
            ) from error

    def _warn_of_long_batch(self, now_ms: int) -> Rule[None]:
        """Log a warning if the last batch took over half of kafka.max.poll.interval.ms."""
        limit_ms = self._settings.max_poll_interval_ms
        if limit_ms is None or self._returned_at_ms is None:
            return
        took_ms = now_ms - self._returned_at_ms
        if took_ms > limit_ms / 2:
            yield Note(
                "warning",
                f"the last batch took {took_ms / 1000:.0f} s; after {limit_ms / 1000:.0f} s "
                "(kafka.max.poll.interval.ms) the query loses its partitions: "
                "lower maxOffsetsPerTrigger or raise that option",
            )

    def _log(self, reason: str) -> Rule[None]:
        """Log why the query waits, once for each reason and not at every trigger."""
        if reason != self._last_logged:
            self._last_logged = reason
            yield Note("warning", reason or "reading again")

    def _read_time_ms(self) -> Rule[int]:
        snapshot: MembershipSnapshot = yield ReadMembership()
        return snapshot.read_at_ms
