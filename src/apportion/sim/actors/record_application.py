"""An application that reads record by record, by the rule of `member.records`.

`RecordConsumer` decides what a poll does. This module answers its queries through the simulated
broker, and reports the partitions in use, deliveries and commits to the observer.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from apportion.errors import Refused, Unanswerable
from apportion.member import queries
from apportion.member.cluster_queries.records import refusals
from apportion.member.fetches import fetch_records
from apportion.member.membership import Adopted, Polled
from apportion.member.metadata_cache import MetadataCache
from apportion.member.records import queries as record_queries
from apportion.member.records.record_consumer import RecordConsumer
from apportion.member.records.record_ownership import RecordConsumerSettings, RecordOwnership
from apportion.rules import Rule, rule_script
from apportion.sim.actors import member_answers
from apportion.sim.actors.application import Application
from apportion.sim.actors.member_answers import at_once
from apportion.sim.actors.requests import (
    AwaitMember,
    answer_request,
    request_offsets,
    run_requests,
)
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, Sleep
from apportion.sim.kernel.clock import Script, ScriptRunner
from apportion.topics import TopicIdPartition

LATE_STEPS = 0.2  # of the rule's events, those that the member does not see at once
LATEST_STEP_MS = 1_000


class ObservedCommits(RecordOwnership):
    """A rule of a simulated application, which reports the commits that have failed.

    report_failure: called with the offsets. A commit fails, too, where its topics cannot be looked
    up, or a sink's claim to the group; the queries alone do not tell that from the same look
    outside of a commit.
    """

    def __init__(
        self,
        settings: RecordConsumerSettings,
        report_failure: Callable[[Mapping[TopicIdPartition, int]], None],
    ) -> None:
        super().__init__(settings)
        self._report_failure = report_failure

    def commit(
        self, offsets: Mapping[TopicIdPartition, int], timeout_ms: int | None = None
    ) -> Rule[None]:
        """Commit as the real rule does, and report a failure."""
        try:
            yield from super().commit(offsets, timeout_ms)
        except (Refused, Unanswerable):
            self._report_failure(offsets)
            raise


class ObservedConsumer(ObservedCommits, RecordConsumer):
    """The rule of a plain consumer, observed."""


class RecordApplication(Application):
    """An application whose script runs a rule of record consumers.

    rule: of this incarnation; the script creates it, with `metadata`. answers: how each kind of
    query is answered; the functions take the application and the query.
    """

    rule: RecordConsumer
    metadata: MetadataCache
    answers: ClassVar[Mapping[type, Callable[[Any, Any], Script]]]

    def give_up_partitions(self, then: Callable[[], None]) -> None:
        """Stop polling, give up all partitions by the rule, and call `then`."""
        self.cancel_script()
        # Nothing waits any more for the response to a request of the interrupted poll.
        self.work_channel.close()
        self._runner = ScriptRunner(self._close(then), self.perform_effect)
        self._runner.resume(0)

    def _close(self, then: Callable[[], None]) -> Script:
        try:
            yield from self.run_rule(self.rule.close())
        except (Refused, Unanswerable):
            self.simulation.write_trace(self.name, "closes without a commit")
        self.note_use()
        # After this script has ended: a script that runs cannot be cancelled.
        self.call_later(1, then)

    def poll_records(self, timeout_ms: int, limit: int) -> Script:
        """Poll once by the rule; return the records, which count as delivered."""
        try:
            records = self.rule.take_at_once(self.snapshot(), limit) or (
                yield from self.run_rule(self.rule.poll(timeout_ms, limit))
            )
        except (Refused, Unanswerable) as error:
            self.observer.deliveries.poll_failed(self, error)
            raise
        self.note_use()
        if records:
            self.observer.deliveries.records_delivered(self, records)
        return records

    def run_rule(self, rule: Rule[Any]) -> Script:
        """Run a part of the rule to its end, with this application's answers."""
        return rule_script(rule, self._answer)

    def _answer(self, query: Any) -> Script:
        # Before the query leaves: what it says, such as an acknowledgement, must be true by then.
        self.note_use()
        return (yield from self.answers[type(query)](self, query))

    def report_failed_commit(self, offsets: Mapping[TopicIdPartition, int]) -> None:
        """Report that a commit of these offsets was refused, or had no answer."""
        self.observer.deliveries.commit_failed(self, offsets)

    def note_use(self) -> None:
        """Report the partitions in use: those that have a position."""
        self.set_in_use(self.rule.incarnation, dict.fromkeys(self.rule.positions))

    # answers to the rule's queries

    def _await_change(self, timeout_ms: int) -> Script:
        before = self.member.view()
        yield AwaitMember(max(1, timeout_ms), lambda member: member.view() != before)

    def fetch_records(self, query: record_queries.FetchRecords) -> Script:
        """Fetch without waiting at the broker; wait here, where a new target ends the wait."""
        rule = fetch_records(
            self.metadata,
            query.positions,
            max_wait_ms=0,
            timeout_ms=REQUEST_TIMEOUT_MS,
            turn=query.turn,
        )
        fetched = yield from rule_script(rule, lambda each: answer_request(self, each))
        # As at a real broker: it waits for records, and an error ends the wait.
        if not refusals(fetched) and not any(each.batches for each in fetched.values()):
            yield from self._await_change(query.max_wait_ms)
        return fetched

    def _fetch_committed(self, query: queries.FetchCommitted) -> Script:
        deliveries = self.observer.deliveries
        deliveries.committed_requested(self, query.incarnation, query.partitions)
        committed = yield from request_offsets(self, query)
        offsets = {partition: found.offset for partition, found in committed.items()}
        deliveries.committed_fetched(self, offsets)
        return committed

    def _commit(self, query: queries.CommitOffsets) -> Script:
        self.observer.deliveries.commit_sent(self, query.offsets)
        yield from request_offsets(self, query)
        self.observer.deliveries.commit_acknowledged(self, query.offsets)

    def _adopt(self, query: queries.AdoptAssignment) -> Script:
        yield from self._be_late()
        self.step_member(Adopted(query.incarnation, query.target))
        return self.member.view()

    def _poll_membership(self) -> Script:
        yield from self._be_late()
        self.step_member(Polled())

    def _be_late(self) -> Script:
        """Let time pass at times: a client's thread steps the member, after what came before.

        Not in a rehearsal without faults, which shows what an upgrade alone does.
        """
        if self.simulation.scenario.faults and self.rng.random() < LATE_STEPS:
            yield Sleep(self.rng.randint(1, LATEST_STEP_MS))


# How each kind of query is answered, the listener's apart. All handlers have one signature.
ANSWERS: dict[type, Callable[[Any, Any], Script]] = {
    **member_answers.ANSWERS,
    queries.AdoptAssignment: RecordApplication._adopt,
    queries.CommitOffsets: RecordApplication._commit,
    queries.FetchCommitted: RecordApplication._fetch_committed,
    queries.PollMembership: lambda reader, _query: reader._poll_membership(),
    record_queries.AwaitMembershipChange: lambda reader, query: reader._await_change(
        query.timeout_ms
    ),
    queries.KnownTopics: lambda reader, query: run_requests(
        reader, reader.metadata.topics(query.names)
    ),
    record_queries.FetchRecords: RecordApplication.fetch_records,
    record_queries.CheckForTopics: lambda _reader, _query: at_once(None),
    record_queries.ReportFetch: lambda _reader, _query: at_once(None),
}
