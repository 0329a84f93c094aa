"""`apportion.Consumer`: read topics as a member of a group, in plain Python.

All work happens in the caller's thread, inside `poll`: assignments, callbacks, fetches. Only
heartbeats go on in the background. A record is delivered when `poll` or the iteration returns it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from apportion.client.cluster import Cluster
from apportion.client.group_membership import GroupMembership
from apportion.client.members import make_member
from apportion.client.missing_topics import MissingTopics
from apportion.client.options import (
    RESETS,
    ConsumerOptions,
    RebalanceCallback,
    checked,
    membership_settings,
    topic_names,
)
from apportion.client.outage import Outage
from apportion.drive.clocks import now
from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.batch.sinks import AnotherSink
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.membership import View
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MembershipSnapshot,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.member.records.fetches import PartitionFetch
from apportion.member.records.queries import (
    AwaitMembershipChange,
    CallListener,
    FetchRecords,
    KnownTopics,
    PollMembership,
    ReportFetch,
)
from apportion.member.records.record_consumer import RecordConsumer, RecordConsumerSettings
from apportion.rules import Rule, run_rule
from apportion.topics import TopicIdPartition, TopicPartition

T = TypeVar("T")
log = logging.getLogger("apportion.consumer")

# The longest that one request may hold up a poll while a broker is half away; the next poll tries
# again.
POLL_REQUEST_TIMEOUT_MS = 5_000


class Consumer:
    """A member of a consumer group that reads records. For one thread at a time.

    bootstrap_servers: "host:port,host:port" or a list. topics: a name or names; the group decides
    who reads which partitions. Options: `ConsumerOptions` declares each with its bounds and its
    default; docs/settings.md is the table.
    """

    _warns_of_missing_topics = True

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        *,
        topics: Iterable[str] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Join the group at once if there are topics. ValueError: a wrong option."""
        chosen = checked(group_id, options)
        self._max_records: int = chosen["max_poll_records"]
        self._listeners: dict[str, RebalanceCallback | None] = {
            name: chosen[name] for name in ("on_assigned", "on_revoked", "on_lost")
        }
        self._cluster = Cluster(bootstrap_servers, client_id=chosen["client_id"])
        self._membership = self._new_membership(group_id, chosen)
        self._missing_topics = MissingTopics(self._cluster, group_id)
        self._outage = Outage(log, group_id)
        self._request_timeout_ms = min(
            POLL_REQUEST_TIMEOUT_MS, max(1, chosen["max_poll_interval_ms"] // 4)
        )
        self._rule = self._new_rule(
            RecordConsumerSettings(
                group_id=group_id,
                reset=RESETS[chosen["auto_offset_reset"]],
                auto_commit_ms=chosen["auto_commit_interval_ms"] if chosen["auto_commit"] else None,
                max_poll_interval_ms=chosen["max_poll_interval_ms"],
                request_timeout_ms=self._request_timeout_ms,
            )
        )
        self._started = self._closed = False
        names = (
            tuple(topics)
            if isinstance(topics, Iterable) and not isinstance(topics, str)
            else topics
        )
        if names != ():
            self.subscribe(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records for ever; each is delivered when it is yielded."""
        while True:
            yield from self._poll(timeout_ms=1_000, limit=1)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics, replacing the present subscription."""
        names = topic_names(topics)
        if self._closed:
            raise RuntimeError("this consumer is closed")
        self._rule.topics = names
        if not self._started:
            self._membership.start()
            self._started = True
        self._membership.subscribe(names)
        self._missing_topics.subscribe(names if self._warns_of_missing_topics else ())

    def poll(self, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return the next records, which are thereby delivered; [] if none came in time.

        Assignments are applied and callbacks run in here. With `timeout_ms` 0 the brokers are asked
        once. A poll that waits keeps the consumer in its group: `max_poll_interval_ms` counts from
        its end.

        Raises Refused if the group does not admit this consumer, or an offset is out of range and
        `auto_offset_reset` is "error"; AnotherSink if the group belongs to the sink of a Spark
        query: the consumer has not joined it, or has left it, and is closed. An unreachable broker
        is waited for.
        """
        return self._poll(timeout_ms, self._max_records)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the positions of everything delivered so far, or just `offsets`, the next to read.

        Raises Refused if this consumer may no longer commit: the next owner of the partitions
        delivers those records again; AnotherSink if the group belongs to the sink of a Spark query
        (the consumer is closed then, as in `poll`); Disconnected where no coordinator has answered
        for 30 seconds. Inside `on_lost` the lost partitions have no position any more.
        """
        by_partition = (
            self._rule.uncommitted()
            if offsets is None
            else {self._to_topic_id_partition(*name): offset for name, offset in offsets.items()}
        )
        try:
            self._run(self._rule.commit(by_partition))
        except AnotherSink:
            self._close_after_claim()
            raise

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset of each partition; None where there is none."""
        requested = [self._to_topic_id_partition(*partition) for partition in partitions]
        committed = self._cluster.committed(self._membership.settings.group_id, requested)
        return {partition.topic_partition: offset for partition, offset in committed.items()}

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be delivered; KeyError if not owned."""
        return self._rule.positions[self._to_topic_id_partition(*partition)]

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer owns, as of its last poll."""
        return _to_topic_partitions(self._rule.positions)

    @property
    def session(self) -> GroupMembership[Any]:
        """The membership in the group, for programs that watch it: status and history."""
        return self._membership

    def close(self, timeout_ms: int = 5_000) -> None:
        """Revoke all partitions, commit if `auto_commit`, and leave the group.

        A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._started:
                self._run(self._rule.close())
        finally:
            if self._started:
                self._membership.leave(timeout_ms)
            self._cluster.close()

    def _new_rule(self, settings: RecordConsumerSettings) -> RecordConsumer:
        return RecordConsumer(settings)

    def _new_membership(self, group_id: str, chosen: Mapping[str, Any]) -> GroupMembership[Any]:
        member = make_member(group_id, **membership_settings(chosen))
        return GroupMembership(self._cluster, member, (), before_join=self._check_before_join)

    def _poll(self, timeout_ms: int, limit: int) -> list[ConsumerRecord]:
        if not self._started or self._closed:
            raise RuntimeError(
                "this consumer is closed" if self._closed else "subscribe to topics before you poll"
            )
        try:
            return self._rule.take_at_once(self._read_membership(), limit) or self._run(
                self._rule.poll(timeout_ms, limit)
            )
        except AnotherSink:
            self._close_after_claim()
            raise

    def _close_after_claim(self) -> None:
        """Close without a commit, because a sink has claimed the group."""
        # Lost and not revoked: a revocation would commit, and that is what the claim forbids.
        self._run(self._rule.lose_partitions())
        self.close()

    def _to_topic_id_partition(self, topic: str, partition: int) -> TopicIdPartition:
        known = self._cluster.topics([topic]).named(topic)
        if known is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        return TopicIdPartition(topic, known.id, partition)

    # answers to the rule's queries

    def _run(self, rule: Rule[T]) -> T:
        """Run a rule to its end, with this consumer's answers."""
        return run_rule(rule, self._answer)

    def _answer(self, query: Any) -> Any:
        return ANSWERS[type(query)](self, query)

    def _check_before_join(self) -> None:
        self._run(self._rule.check_before_join())

    def _read_membership(self) -> MembershipSnapshot:
        if self._membership.refusal is not None:
            raise self._membership.refusal
        return MembershipSnapshot(self._membership.status(), now().mono_ms)

    def _await_membership_change(self, query: AwaitMembershipChange) -> None:
        self._check_missing_topics()
        self._membership.wait_for_change(query.timeout_ms)

    def _fetch_records(self, query: FetchRecords) -> dict[TopicIdPartition, PartitionFetch]:
        self._check_missing_topics()
        return self._cluster.fetch(query.positions, max_wait_ms=query.max_wait_ms)

    def _fetch_committed(self, query: FetchCommitted) -> dict[TopicIdPartition, OffsetAndMetadata]:
        # Incarnation 0: before the join, as any client without membership may ask.
        if query.incarnation == 0:
            return self._cluster.committed_offsets(
                self._membership.settings.group_id,
                query.partitions,
                timeout_ms=self._request_timeout_ms,
            )
        return self._membership.committed_offsets(
            query.partitions, incarnation=query.incarnation, timeout_ms=self._request_timeout_ms
        )

    def _commit(self, query: CommitOffsets) -> None:
        self._membership.commit(
            query.offsets, incarnation=query.incarnation, timeout_ms=query.timeout_ms
        )

    def _adopt(self, query: AdoptAssignment) -> View:
        self._membership.adopt(query.incarnation, query.target)
        return self._membership.status()

    def _list_offsets(self, query: ListOffsets) -> dict[TopicIdPartition, int]:
        return self._cluster.list_offsets(
            query.partitions, query.timestamp, timeout_ms=self._request_timeout_ms
        )

    def _call_listener(self, query: CallListener) -> Exception | None:
        listener = self._listeners[query.name]
        if listener is not None:
            try:
                listener(_to_topic_partitions(query.partitions))
            # The application's own, whatever it is: the rule raises it after the revocation.
            except Exception as error:
                return error
        return None

    def _report_fetch(self, query: ReportFetch) -> None:
        if query.error is None:
            self._outage.record_success("fetches again")
        else:
            self._outage.record_failure(
                f"cannot fetch now, and tries again until it can: {query.error}"
            )

    def _check_missing_topics(self) -> None:
        # Before the first join no coordinator may answer yet, and that is logged elsewhere.
        if self._rule.incarnation and self._membership.status().epoch > 0:
            self._missing_topics.check()


def _to_topic_partitions(partitions: Iterable[TopicIdPartition]) -> tuple[TopicPartition, ...]:
    return tuple(partition.topic_partition for partition in sorted(partitions))


def _log_note(_consumer: Consumer, note: Note) -> None:
    log.log(logging.getLevelName(note.level.upper()), note.text)


# How each kind of query of the rule is answered. All handlers have one signature.
ANSWERS: dict[type, Callable[[Any, Any], Any]] = {
    ReadMembership: lambda consumer, _query: consumer._read_membership(),
    PollMembership: lambda consumer, _query: consumer._membership.touch(),
    AwaitMembershipChange: Consumer._await_membership_change,
    ResolveTopicNames: lambda consumer, query: consumer._membership.resolve_names(query.partitions),
    AdoptAssignment: Consumer._adopt,
    KnownTopics: lambda consumer, query: consumer._cluster.topics(query.names),
    ExistingTopics: lambda consumer, query: consumer._cluster.topics(query.names, fresh=True),
    FetchCommitted: Consumer._fetch_committed,
    CommitOffsets: Consumer._commit,
    ListOffsets: Consumer._list_offsets,
    FetchRecords: Consumer._fetch_records,
    ReportFetch: Consumer._report_fetch,
    CallListener: Consumer._call_listener,
    Note: _log_note,
}
