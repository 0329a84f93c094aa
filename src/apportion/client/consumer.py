"""`apportion.Consumer`: read topics as a member of a group, in plain Python.

All work happens in the caller's thread, inside `poll`: assignments, callbacks, fetches. Only
heartbeats go on in the background. A record is delivered when `poll` or the iteration returns it.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self, Unpack

from apportion.client.bootstrap import require_known_host
from apportion.client.cluster import Cluster
from apportion.client.group_membership import GroupMembership
from apportion.client.member_answers import ANSWERS, Answers, RuleDriver
from apportion.client.members import new_member
from apportion.client.missing_topics import MissingTopics
from apportion.client.options import (
    RESETS,
    ConsumerOptions,
    RebalanceCallback,
    checked,
    checked_offsets,
    checked_partition,
    checked_partitions,
    checked_pattern,
    checked_timeout,
    membership_settings,
    topic_names,
)
from apportion.client.outage import Outage
from apportion.client.security_options import client_security
from apportion.drive.clocks import now
from apportion.errors import Code, Refused
from apportion.member.assignors.interface import MeasuringAssignor
from apportion.member.assignors.runs import assignor_failure
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.group_claims import AnotherSink
from apportion.member.membership import CoordinatorFound, Event
from apportion.member.metadata_cache import with_topic_ids
from apportion.member.queries import KnownTopics, PollMembership
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.member.records.queries import (
    AwaitMembershipChange,
    CallListener,
    CheckForTopics,
    FetchRecords,
    ReportFetch,
)
from apportion.member.records.record_consumer import RecordConsumer
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.topics import TopicIdPartition, TopicPartition

log = logging.getLogger("apportion.consumer")

# Of one request in a poll. A broker that does not answer must not make the poll late; the next poll
# tries again.
POLL_REQUEST_TIMEOUT_MS = 5_000


class Consumer(RuleDriver):
    """A member of a consumer group that reads records. For one thread at a time.

    bootstrap_servers: "host:port,host:port" or a list. topics: a name or names; the group decides
    who reads which partitions. Options: `ConsumerOptions` declares each with its bounds and its
    default; docs/settings.md is the table.
    """

    _log = log
    _warns_of_missing_topics = True
    _membership: GroupMembership[Event]

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        *,
        topics: Iterable[str] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Join the group at once if there are topics.

        Raises ValueError for a wrong option, and Disconnected where no host of the bootstrap
        servers has an address.
        """
        chosen = checked(group_id, options)
        self._group_protocol: str = chosen["group_protocol"]
        self._max_records: int = chosen["max_poll_records"]
        self._listeners: dict[str, RebalanceCallback | None] = {
            name: chosen[name] for name in ("on_assigned", "on_revoked", "on_lost")
        }
        self._cluster = Cluster(
            bootstrap_servers,
            client_id=chosen["client_id"],
            security=client_security(options),
        )
        require_known_host(self._cluster.bootstrap_servers, waits_for_name_server=True)
        self._membership = self._new_membership(group_id, chosen)
        self._measuring = [
            each
            for each in self._membership.settings.assignors
            if isinstance(each, MeasuringAssignor)
        ]
        self._measuring_outage = Outage(log, group_id)
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
        self._started = self._is_closing = self._is_closed = False
        self._process = os.getpid()
        self._running_listener: str | None = None
        if isinstance(topics, Iterable) and not isinstance(topics, str):
            topics = tuple(topics)
        if topics != ():
            self.subscribe(topics)

    def __enter__(self) -> Self:
        """Return the consumer; raise RuntimeError if it is closed."""
        self._require_usable(self._is_closing)
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records for ever; each is delivered when it is yielded."""
        while True:
            yield from self._poll(timeout_ms=1_000, limit=1)

    def subscribe(self, topics: Iterable[str] | None = (), *, pattern: str | None = None) -> None:
        """Subscribe to these topics, replacing the present subscription.

        pattern: a regular expression of RE2, beside the topics, or in their place where there are
        none. The broker finds the topics whose whole names it matches, also those that are created
        later. Only with group_protocol="consumer", and Kafka 4.0 or newer.
        ValueError: a wrong name, or an argument that cannot be used. A pattern that the broker
        refuses ends the membership: `poll` raises Refused (INVALID_REGULAR_EXPRESSION).
        """
        expression = "" if pattern is None else checked_pattern(pattern, self._group_protocol)
        names = topic_names(topics, may_be_none=bool(expression))
        self._require_usable(self._is_closing)
        self._rule.topics, self._rule.expression = names, expression
        if not self._started:
            self._membership.start()
            self._started = True
        self._membership.subscribe(names, expression)
        self._missing_topics.subscribe(names if self._warns_of_missing_topics else ())

    def poll(self, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return the next records, which are thereby delivered; [] if none came in time.

        Assignments are applied and callbacks run in here. With `timeout_ms` 0 the brokers are asked
        once. A poll that waits for records keeps the consumer in its group: `max_poll_interval_ms`
        counts from the end of that wait, or from up to a tenth of the interval before.

        Raises Refused if the group does not admit this consumer, or an offset is out of range and
        `auto_offset_reset` is "error"; AnotherSink if the group belongs to the sink of a Spark
        query: the consumer has not joined it, or has left it, and is closed; DecodeError at a
        damaged batch, in every call until another member owns the partition. An unreachable broker
        is waited for. ValueError for a timeout that is no number; RuntimeError in a listener, for a
        consumer that is closed, and for one that was made before a fork.
        """
        return self._poll(checked_timeout(timeout_ms), self._max_records)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the positions of everything delivered so far, or just `offsets`, the next to read.

        Raises Refused if this consumer may no longer commit: the next owner of the partitions
        delivers those records again; and for offsets of topics that were deleted, after the others
        were committed. AnotherSink if the group belongs to the sink of a Spark query
        (the consumer is closed then, as in `poll`); Disconnected where no coordinator has answered
        for 30 seconds; ValueError for an offset that is negative or no whole number. Inside
        `on_lost` the lost partitions have no position any more.
        """
        self._require_usable(self._is_closed)
        if offsets is None:
            by_partition = self._rule.uncommitted()
        else:
            chosen = checked_offsets(offsets)
            owned = self._owned()
            ids = owned | self._look_up([each for each in chosen if each not in owned])
            by_partition = {ids[each]: offset for each, offset in chosen.items()}
        try:
            self._run(self._rule.commit(by_partition, self._cluster.timeout_ms))
        except AnotherSink:
            # In a listener the poll around it closes: its error comes out there.
            if self._running_listener is None:
                self.close()
            raise

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset of each partition; None where there is none.

        Raises ValueError for what is no list of partitions.
        """
        self._require_usable(self._is_closed)
        chosen = checked_partitions(partitions)
        requested = self._look_up(chosen, must_exist=False).values()
        committed = self._cluster.committed(self._membership.settings.group_id, requested)
        return {partition.topic_partition: offset for partition, offset in committed.items()}

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be delivered; KeyError if not owned.

        Raises ValueError for what is no partition.
        """
        self._require_usable(self._is_closed)
        return self._rule.positions[self._owned()[checked_partition(partition, "partition")]]

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer owns, as of its last poll."""
        return _to_topic_partitions(self._rule.positions)

    @property
    def session(self) -> GroupMembership[Event]:
        """The membership in the group, for programs that watch it: status and history."""
        return self._membership

    def close(self, timeout_ms: int = 5_000) -> None:
        """Revoke all partitions, commit if `auto_commit`, and leave the group.

        A second call does nothing. Raises what `on_revoked` or `on_lost` raises, and AnotherSink if
        the group belongs to the sink of a Spark query: then nothing is committed, and the
        partitions count as lost. RuntimeError in a listener. In a process that was forked it does
        nothing: the connections and the membership are the parent's.
        """
        if self._is_closing or self._process != os.getpid():
            return
        self._refuse_in_listener("close")
        self._is_closing = True
        try:
            if self._started:
                self._run(self._rule.close())
        finally:
            if self._started:
                self._membership.leave(timeout_ms)
            self._cluster.close()
            # Only now: `on_revoked` may commit while the consumer closes.
            self._is_closed = True

    def _new_rule(self, settings: RecordConsumerSettings) -> RecordConsumer:
        return RecordConsumer(settings)

    def _new_membership(self, group_id: str, chosen: Mapping[str, Any]) -> GroupMembership[Event]:
        member = new_member(group_id, **membership_settings(chosen))
        return GroupMembership(self._cluster, member, (), before_join=self._check_before_join)

    def _poll(self, timeout_ms: int, limit: int) -> list[ConsumerRecord]:
        self._require_usable(self._is_closing)
        self._refuse_in_listener("poll")
        if not self._started:
            raise RuntimeError("subscribe to topics before you poll")
        try:
            return self._rule.take_at_once(self._membership.snapshot(), limit) or self._run(
                self._rule.poll(timeout_ms, limit)
            )
        except AnotherSink:
            self.close()
            raise

    def _require_usable(self, is_closed: bool) -> None:
        """Raise RuntimeError in a process that was forked, and if the consumer is closed."""
        # A child has none of the threads that send heartbeats, and its requests would be mixed with
        # the parent's on one connection.
        if self._process != os.getpid():
            raise RuntimeError(
                f"this consumer was made in process {self._process}, before a fork: make a "
                "consumer of its own in each process that reads"
            )
        if is_closed:
            raise RuntimeError("this consumer is closed")

    @contextmanager
    def _running(self, listener: str) -> Iterator[None]:
        """Note that the application's listener of that name runs in the block."""
        self._running_listener = listener
        try:
            yield
        finally:
            self._running_listener = None

    def _refuse_in_listener(self, what: str) -> None:
        """Raise RuntimeError if a listener of the application is running (KIP-1306)."""
        # A poll would apply the same assignment again, and so call the listener without end.
        if self._running_listener is not None:
            raise RuntimeError(
                f"{self._running_listener} cannot {what}: it is called within a poll or a close "
                f"that has not ended; {what} after that has returned"
            )

    def _owned(self) -> dict[TopicPartition, TopicIdPartition]:
        """Return the partitions that this consumer owns, by their names."""
        return {partition.topic_partition: partition for partition in self._rule.positions}

    def _look_up(
        self, partitions: Sequence[TopicPartition], *, must_exist: bool = True
    ) -> dict[TopicPartition, TopicIdPartition]:
        """Return the partitions with their topics' ids; raise Refused if a topic is missing.

        must_exist: raise Refused also for a partition that its topic does not have.
        """
        if not partitions:
            return {}
        # Not from the cache: nothing refreshes the id of a topic that this consumer does not read,
        # and it may have been deleted and created again.
        topics = self._cluster.topics([topic for topic, _ in partitions], fresh=True)
        found = {each.topic_partition: each for each in with_topic_ids(partitions, topics)}
        for name, number in found:
            if must_exist and topics.partition(name, number) is None:
                why = f"topic {name!r} has no partition {number}"
                raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, why)
        return found

    # answers to the rule's queries

    def _check_before_join(self, found: CoordinatorFound) -> Event:
        return self._run(self._rule.check_before_join(found))

    def _call_listener(self, query: CallListener) -> Exception | None:
        listener = self._listeners[query.name]
        if listener is not None:
            try:
                with self._running(query.name):
                    listener(_to_topic_partitions(query.partitions))
            # The application's own, whatever it is: the rule raises it after the revocation.
            except Exception as error:
                return error
        return None

    def _fetch(self, query: FetchRecords) -> dict[TopicIdPartition, PartitionFetch]:
        fetched = self._cluster.fetch(
            query.positions,
            max_wait_ms=query.max_wait_ms,
            timeout_ms=self._request_timeout_ms,
            turn=query.turn,
        )
        for assignor in self._measuring:
            sizes = {
                each.topic_partition: sum(map(len, fetch.batches))
                for each, fetch in fetched.items()
            }
            try:
                assignor.record_fetched(sizes, now().mono_ms)
            # The assignor's own, whatever it is: what was fetched is delivered all the same.
            except Exception as error:
                why = assignor_failure(assignor, error).why
                self._measuring_outage.record_failure(f"record_fetched: {why}")
        return fetched

    def _report_fetch(self, query: ReportFetch) -> None:
        if query.error is None:
            self._outage.record_success("fetches again")
        else:
            self._outage.record_failure(
                f"cannot fetch now, and tries again until it can: {query.error}"
            )

    _answers: ClassVar[Answers] = {
        **ANSWERS,
        PollMembership: lambda consumer, _query: consumer._membership.touch(),
        AwaitMembershipChange: lambda consumer, query: consumer._membership.wait_for_change(
            query.timeout_ms
        ),
        KnownTopics: lambda consumer, query: consumer._cluster.topics(
            query.names, timeout_ms=consumer._request_timeout_ms
        ),
        CheckForTopics: lambda consumer, _query: consumer._missing_topics.check(),
        FetchRecords: _fetch,
        ReportFetch: _report_fetch,
        CallListener: _call_listener,
    }


def _to_topic_partitions(partitions: Iterable[TopicIdPartition]) -> tuple[TopicPartition, ...]:
    return tuple(partition.topic_partition for partition in sorted(partitions))
