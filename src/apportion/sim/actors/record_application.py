"""An application that reads record by record, by the rule of `member.records`.

`RecordConsumer` decides what a poll does. This module answers its queries through the simulated
broker, and reports the partitions in use, deliveries and commits to the observer.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note
from apportion.member import queries
from apportion.member.membership import Adopted, Polled
from apportion.member.reactions import Reaction, reaction
from apportion.member.records import queries as record_queries
from apportion.member.records.fetches import (
    FetchPosition,
    FetchQuery,
    PartitionFetch,
)
from apportion.member.records.record_consumer import RecordConsumer
from apportion.rules import Rule, rule_script
from apportion.sim.actors.application import Application
from apportion.sim.actors.requests import (
    AwaitMember,
    commit,
    committed_with_metadata,
    list_offsets,
    sending,
)
from apportion.sim.actors.topic_cache import TopicCache
from apportion.sim.kernel.clock import Script, ScriptRunner
from apportion.topics import TopicIdPartition


class RecordApplication(Application):
    """An application whose script runs a rule of record consumers.

    rule: of this incarnation; the script creates it, with `topics_known`. answers: how each kind of
    query is answered; the functions take the application and the query.
    """

    rule: RecordConsumer
    topics_known: TopicCache
    answers: ClassVar[Mapping[type, Callable[[Any, Any], Script]]]

    def give_up_partitions(self, then: Callable[[], None]) -> None:
        """Stop polling, give up all partitions by the rule, and call `then`."""
        self.cancel_script()
        # A request of the poll that was interrupted: its answer is nobody's.
        self.work_channel.close()
        self._runner = ScriptRunner(self._close(then), self.perform_effect)
        self._runner.resume(0)

    def _close(self, then: Callable[[], None]) -> Script:
        try:
            yield from self.run_rule(self.rule.close())
        except (Refused, Unanswerable):
            self.simulation.write_trace(self.name, "closes without a commit")
        # After this script has ended: a script that runs cannot be cancelled.
        self.call_later(1, then)

    def poll_records(self, timeout_ms: int, limit: int) -> Script:
        """Poll once by the rule; return the records, which count as delivered."""
        records = yield from self.run_rule(self.rule.poll(timeout_ms, limit))
        self.note_use()
        if records:
            self.observer.records_delivered(self, records)
        return records

    def run_rule(self, rule: Rule[Any]) -> Script:
        """Run a part of the rule to its end, with this application's answers."""
        return rule_script(rule, self._answer)

    def _answer(self, query: Any) -> Script:
        # Before the query leaves: what it says, such as an acknowledgement, must be true by then.
        self.note_use()
        try:
            return (yield from self.answers[type(query)](self, query))
        except (Refused, Unanswerable):
            self.observer.request_failed(self)
            raise

    def note_use(self) -> None:
        """Report the partitions in use: those that have a position."""
        self.set_in_use(self.rule.incarnation, dict.fromkeys(self.rule.positions))

    # answers to the rule's queries

    def _await_change(self, timeout_ms: int) -> Script:
        before = self.member.view()
        yield AwaitMember(max(1, timeout_ms), lambda member: member.view() != before)

    def fetch_records(self, query: record_queries.FetchRecords) -> Script:
        """Fetch without waiting at the broker; wait here, where a new target ends the wait."""
        positions = {
            partition: FetchPosition(offset) for partition, offset in query.positions.items()
        }
        fetch = FetchQuery(positions, max_wait_ms=0)
        answer = yield sending(fetch)
        if answer is None:
            raise Unanswerable(fetch.api)
        fetched = _without_errors(fetch.parse(answer))
        if not any(each.batches for each in fetched.values()):
            yield from self._await_change(query.max_wait_ms)
        return fetched

    def _commit(self, query: queries.CommitOffsets) -> Script:
        self.observer.commit_sent(self, query.offsets)
        yield from commit(self, query.offsets, query.incarnation, query.metadata)
        self.observer.commit_acknowledged(self, query.offsets)

    def _adopt(self, query: queries.AdoptAssignment) -> Script:
        self.step_member(Adopted(query.incarnation, query.target))
        return at_once(self.member.view())

    def _poll_membership(self) -> Script:
        self.step_member(Polled())
        return at_once(None)

    def _trace(self, text: str) -> Script:
        self.simulation.write_trace(self.name, text)
        return at_once(None)


def _without_errors(
    fetched: Mapping[TopicIdPartition, PartitionFetch],
) -> dict[TopicIdPartition, PartitionFetch]:
    """Leave out partitions whose error a later fetch may mend, as a client does; raise others."""
    kept = {}
    for partition, fetch in fetched.items():
        if fetch.code in (Code.NONE, Code.OFFSET_OUT_OF_RANGE):
            kept[partition] = fetch
        elif reaction("Fetch", fetch.code) is Reaction.RAISE:
            raise Refused(fetch.code, f"Fetch of {partition}")
    return kept


def at_once(answer: Any) -> Script:
    """Return the answer without an effect."""
    yield from ()
    return answer


# How each kind of query is answered, the listener's apart. All handlers have one signature.
ANSWERS: dict[type, Callable[[RecordApplication, Any], Script]] = {
    queries.ReadMembership: lambda reader, _query: at_once(
        queries.MembershipSnapshot(reader.member.view(), reader.now().mono_ms)
    ),
    queries.ResolveTopicNames: lambda reader, query: reader.topics_known.resolve(query.partitions),
    queries.AdoptAssignment: RecordApplication._adopt,
    queries.FetchCommitted: lambda reader, query: committed_with_metadata(
        reader, query.partitions, query.incarnation
    ),
    queries.CommitOffsets: RecordApplication._commit,
    queries.ListOffsets: lambda reader, query: list_offsets(
        reader, query.partitions, query.timestamp
    ),
    record_queries.PollMembership: lambda reader, _query: reader._poll_membership(),
    record_queries.AwaitMembershipChange: lambda reader, query: reader._await_change(
        query.timeout_ms
    ),
    record_queries.KnownTopics: lambda reader, query: reader.topics_known.named(query.names),
    queries.ExistingTopics: lambda reader, query: reader.topics_known.fetch(query.names),
    record_queries.FetchRecords: RecordApplication.fetch_records,
    record_queries.ReportFetch: lambda _reader, _query: at_once(None),
    Note: lambda reader, query: reader._trace(query.text),
}
