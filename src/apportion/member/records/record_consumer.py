"""The rule of a member that reads record by record, as `poll` of a consumer works.

The member receives a new target assignment at any time, in a heartbeat. The application is told in
its next poll, so a record that it works on cannot be taken from it in between. One poll

1. shows the member that the application lives (max.poll.interval.ms), and commits if the interval
   of automatic commits is over;
2. applies a new target (`record_ownership.py`);
3. returns records that were fetched before, or fetches.

The rule is a generator that yields queries (`member.queries`, `member.records.queries`). Each query
may take time in which the member receives another target or loses its membership, so what a query
depends on names its incarnation, and a change that comes meanwhile is left to the next poll.
"""

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.membership import MembershipState, View
from apportion.member.queries import MembershipSnapshot, PollMembership
from apportion.member.reactions import is_permanent
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.member.records.fetch_failures import FetchFailures
from apportion.member.records.queries import (
    AwaitMembershipChange,
    CheckForTopics,
    FetchRecords,
    ReportFetch,
)
from apportion.member.records.record_ownership import RecordConsumerSettings, RecordOwnership
from apportion.member.records.resets import reset_position
from apportion.rules import Rule

FETCH_WAIT_MS = 250
POLLS_IN_INTERVAL = 10  # how often a poll that waits shows the member that it lives


class RecordConsumer(RecordOwnership):
    """One consumer: what a poll does, beside its partitions."""

    def __init__(self, settings: RecordConsumerSettings) -> None:
        super().__init__(settings)
        self._fetch_failures = FetchFailures()
        self._polled_at_ms = 0
        # the member's state, if the last poll has applied all of it
        self._applied_view: View | None = None

    def take_at_once(self, snapshot: MembershipSnapshot, limit: int) -> list[ConsumerRecord]:
        """Return the next records if a poll would do nothing else; [] otherwise.

        No query is needed for it, so a driver tries it before each `poll`: iteration would begin a
        generator for every record otherwise.
        """
        now_ms = snapshot.read_at_ms
        is_upkeep_due = self._is_poll_due(now_ms) or self._is_commit_due(now_ms)
        if snapshot.view is not self._applied_view or is_upkeep_due:
            return []
        return self.buffer.take(limit)

    def poll(self, timeout_ms: int, limit: int) -> Rule[list[ConsumerRecord]]:
        """Return the next records, which are thereby delivered; [] if none came in time.

        Raises Refused, AnotherSink, and what a listener raises.
        """
        now_ms = yield from self._stay_in_group()
        deadline_ms, has_fetched = now_ms + timeout_ms, False
        while True:
            self._applied_view = None
            self._applied_view = yield from self.apply_assignment()
            self._listener.raise_error()
            # Lost while the assignment was applied: it has to be applied anew before a delivery.
            snapshot = yield from self.read_membership()
            if self.positions and self._has_lost(snapshot.view):
                continue
            # After the assignment was applied: what was revoked must not be delivered any more.
            records = self.buffer.take(limit)
            # With a timeout of 0 there is one fetch, and its records are returned.
            if records or (has_fetched and now_ms >= deadline_ms):
                return records
            # Before the first join no coordinator may answer yet, and that is logged elsewhere.
            if self.incarnation and snapshot.view.epoch > 0:
                yield CheckForTopics()
            wait_ms = min(
                max(0, deadline_ms - now_ms), FETCH_WAIT_MS, self.settings.request_timeout_ms
            )
            if not (yield from self._fetch(wait_ms)):
                yield AwaitMembershipChange(wait_ms)
            has_fetched = True
            now_ms = yield from self._stay_in_group()

    def _fetch(self, wait_ms: int) -> Rule[bool]:
        """Fetch from the positions, waiting up to `wait_ms`; return False if that was impossible.

        It is impossible while the consumer owns no partition, while no broker answers, and while
        partitions with errors keep the brokers from waiting. Raises Refused for an error that no
        retry mends, with what came of other partitions in the buffer.
        """
        if not self.positions:
            return False
        try:
            positions = self.buffer.rotate_positions()
            fetched = yield FetchRecords(positions, wait_ms, self.buffer.turn)
            for partition, fetch in fetched.items():
                if fetch.code is Code.NONE:
                    self.buffer.add(partition, fetch)
            # Errors after the records: what an error ends must not lose what came beside it.
            for partition, fetch in fetched.items():
                if fetch.code is Code.OFFSET_OUT_OF_RANGE:
                    position = self.positions[partition]
                    start = yield from reset_position(self.settings.reset, partition, position)
                    self.buffer.positions.update(start)
            is_failing = yield from self._fetch_failures.record(fetched, self.positions)
        # A consumer outlives an outage of its brokers; positions are unchanged, so the next poll
        # fetches the same offsets.
        except (Refused, Unanswerable) as error:
            if is_permanent(error):
                raise
            yield ReportFetch(error)
            return False
        yield ReportFetch(None)
        return not is_failing or any(fetch.batches for fetch in fetched.values())

    def _stay_in_group(self) -> Rule[int]:
        """Show the member that its application polls, and commit if that is due.

        Return the present time (monotonic ms).
        """
        snapshot = yield from self.read_membership()
        view, now_ms = snapshot.view, snapshot.read_at_ms
        # A stale member has left its group; only a poll brings it back.
        if self._is_poll_due(now_ms) or view.state is MembershipState.STALE:
            self._polled_at_ms = now_ms
            yield PollMembership()
        if self._is_commit_due(now_ms):
            self._committed_at_ms = now_ms
            yield from self._commit_automatically(self.settings.request_timeout_ms)
        return now_ms

    def _is_poll_due(self, now_ms: int) -> bool:
        # Ten times within max.poll.interval.ms, so that a poll that waits counts as one long poll.
        interval_ms = self.settings.max_poll_interval_ms // POLLS_IN_INTERVAL
        return now_ms - self._polled_at_ms >= interval_ms

    def _is_commit_due(self, now_ms: int) -> bool:
        interval_ms = self.settings.auto_commit_ms
        return interval_ms is not None and now_ms - self._committed_at_ms >= interval_ms
