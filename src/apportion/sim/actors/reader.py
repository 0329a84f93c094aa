"""An application that reads record by record, by the rule of `apportion.Consumer`.

`member.records.record_consumer.RecordConsumer` decides what a poll does. This module answers its
queries through the simulated broker, works on the records that it delivers, and reports deliveries
and commits to the observer.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note
from apportion.member import queries
from apportion.member.membership import Adopted, Polled
from apportion.member.reactions import Reaction, reaction
from apportion.member.records import queries as record_queries
from apportion.member.records.fetches import (
    FetchPosition,
    PartitionFetch,
    fetch_request,
    parse_fetch_response,
)
from apportion.member.records.record_consumer import RecordConsumer, RecordConsumerSettings
from apportion.rules import Rule, rule_script
from apportion.sim.actors.application import Application
from apportion.sim.actors.requests import (
    AwaitMember,
    commit,
    committed_with_metadata,
    list_offsets,
)
from apportion.sim.actors.topic_cache import TopicCache
from apportion.sim.kernel.client import SendRequest, Sleep
from apportion.sim.kernel.clock import Script, ScriptRunner
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST

POLL_TIMEOUT_MS = 500
MAX_POLL_RECORDS = 500
RETRY_MS = 200
FETCH_VERSION = 17
REQUEST_TIMEOUT_MS = 5_000


class Reader(Application):
    """One plain consumer. All readers form one group.

    commits_automatically: by `auto_commit`; otherwise it commits after some of its polls, and in
    `on_revoked`.
    """

    group = "readers"

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self.max_poll_records = self.rng.choice((1, 10, MAX_POLL_RECORDS))

    def script(self) -> Script:
        """Poll until the process ends."""
        scenario = self.simulation.scenario
        self._topics_known = TopicCache(self)
        self.commits_automatically = self.rng.random() < 0.5
        self.rule = RecordConsumer(
            RecordConsumerSettings(
                group_id=self.group,
                reset=EARLIEST,
                auto_commit_ms=(
                    self.rng.choice((200, 1_000, 3_000)) if self.commits_automatically else None
                ),
                max_poll_interval_ms=scenario.rebalance_ms,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            )
        )
        self.rule.topics = self.topics
        while True:
            try:
                yield from self._poll()
            except (Refused, Unanswerable):
                yield Sleep(RETRY_MS)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Change the topics to which the simulated consumer subscribes."""
        super().subscribe(topics)
        if self.is_up and self.is_working:
            self.rule.topics = topics

    def stop(self) -> None:
        """Close the consumer: give up its partitions by the rule, then leave the group."""
        if not self.is_up:
            return
        self.cancel_script()
        # A request of the poll that was interrupted: its answer is nobody's.
        self.work_channel.close()
        self._runner = ScriptRunner(self._close(), self.perform_effect)
        self._runner.resume(0)

    def _poll(self) -> Script:
        """Poll once, work on the records, and perhaps commit."""
        records = yield from self._run(self.rule.poll(POLL_TIMEOUT_MS, self.max_poll_records))
        self._note_use()
        if records:
            self.observer.records_delivered(self, records)
            yield Sleep(self.work_ms(self.simulation.scenario.batch_ms))
        if not self.commits_automatically and (not records or self.rng.random() < 0.5):
            yield from self._run(self.rule.commit(self.rule.uncommitted()))

    def _close(self) -> Script:
        try:
            yield from self._run(self.rule.close())
        except (Refused, Unanswerable):
            self.simulation.write_trace(self.name, "closes without a commit")
        # After this script has ended: a script that runs cannot be cancelled.
        self.call_later(1, super().stop)

    def _run(self, rule: Rule[Any]) -> Script:
        """Run a rule to its end, with this application's answers."""
        return rule_script(rule, self._answer)

    def _answer(self, query: Any) -> Script:
        # Before the query leaves: what it says, such as an acknowledgement, must be true by then.
        self._note_use()
        try:
            return (yield from ANSWERS[type(query)](self, query))
        except (Refused, Unanswerable):
            self.observer.request_failed(self)
            raise

    def _note_use(self) -> None:
        """Report the partitions in use: those that have a position."""
        self.set_in_use(self.rule.incarnation, dict.fromkeys(self.rule.positions))

    # answers to the rule's queries

    def _read_membership(self) -> Script:
        return _at_once(queries.MembershipSnapshot(self.member.view(), self.now().mono_ms))

    def _await_change(self, timeout_ms: int) -> Script:
        before = self.member.view()
        yield AwaitMember(max(1, timeout_ms), lambda member: member.view() != before)

    def _fetch(self, query: record_queries.FetchRecords) -> Script:
        """Fetch without waiting at the broker; wait here, where a new target ends the wait."""
        positions = {
            partition: FetchPosition(offset) for partition, offset in query.positions.items()
        }
        answer = yield SendRequest(fetch_request(positions, 0), FETCH_VERSION)
        if answer is None:
            raise Unanswerable("Fetch")
        if answer.error_code != Code.NONE:
            raise Refused(Code.of(answer.error_code), "Fetch")
        fetched = _without_errors(parse_fetch_response(answer, positions))
        if not any(fetch.batches for fetch in fetched.values()):
            yield from self._await_change(query.max_wait_ms)
        return fetched

    def _commit(self, query: queries.CommitOffsets) -> Script:
        self.observer.commit_sent(self, query.offsets)
        yield from commit(self, query.offsets, query.incarnation, query.metadata)
        self.observer.commit_acknowledged(self, query.offsets)

    def _call_listener(self, query: record_queries.CallListener) -> Script:
        if query.name == "on_revoked" and not self.commits_automatically:
            # As a careful listener does: the partitions go, whether the commit succeeds or not.
            try:
                yield from self._run(self.rule.commit(self.rule.uncommitted()))
            except (Refused, Unanswerable) as error:
                self.simulation.write_trace(self.name, f"cannot commit what goes: {error}")
        yield Sleep(self.work_ms(100))

    def _adopt(self, query: queries.AdoptAssignment) -> Script:
        self.step_member(Adopted(query.incarnation, query.target))
        return _at_once(self.member.view())

    def _poll_membership(self) -> Script:
        self.step_member(Polled())
        return _at_once(None)

    def _trace(self, text: str) -> Script:
        self.simulation.write_trace(self.name, text)
        return _at_once(None)


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


def _at_once(answer: Any) -> Script:
    """Return the answer without an effect."""
    yield from ()
    return answer


# How each kind of query is answered. All handlers have one signature.
ANSWERS: dict[type, Callable[[Reader, Any], Script]] = {
    queries.ReadMembership: lambda reader, _query: reader._read_membership(),
    queries.ResolveTopicNames: lambda reader, query: reader._topics_known.resolve(query.partitions),
    queries.AdoptAssignment: Reader._adopt,
    queries.FetchCommitted: lambda reader, query: committed_with_metadata(
        reader, query.partitions, query.incarnation
    ),
    queries.CommitOffsets: Reader._commit,
    queries.ListOffsets: lambda reader, query: list_offsets(
        reader, query.partitions, query.timestamp
    ),
    record_queries.PollMembership: lambda reader, _query: reader._poll_membership(),
    record_queries.AwaitMembershipChange: lambda reader, query: reader._await_change(
        query.timeout_ms
    ),
    record_queries.KnownTopics: lambda reader, query: reader._topics_known.named(query.names),
    queries.ExistingTopics: lambda reader, query: reader._topics_known.fetch(query.names),
    record_queries.FetchRecords: Reader._fetch,
    record_queries.ReportFetch: lambda _reader, _query: _at_once(None),
    record_queries.CallListener: Reader._call_listener,
    Note: lambda reader, query: reader._trace(query.text),
}
