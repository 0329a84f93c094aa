"""`apportion.Consumer`: read topics as a member of a group, in plain Python.

All work happens in the caller's thread, inside `poll`: assignments, callbacks, fetches. Only
heartbeats go on in the background. A record is delivered when `poll` or the iteration returns it.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from apportion.client.claims import MEMBERSHIP_LOST, SinkClaimChecks
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.fetcher import ConsumerRecord, Fetcher
from apportion.client.group_membership import GroupMembership
from apportion.client.missing_topics import MissingTopics
from apportion.client.options import (
    ConsumerOptions,
    RebalanceCallback,
    checked,
    membership_settings,
    topic_names,
)
from apportion.errors import Code, Refused
from apportion.member.batch.sinks import AnotherSink
from apportion.member.membership import MemberAssignment, MembershipState, View, assignment
from apportion.topics import TopicIdPartition, TopicPartition

log = logging.getLogger("apportion.consumer")

FETCH_WAIT_MS = 250
# The longest that one request may hold up a poll while a broker is half away; the next poll tries
# again.
POLL_REQUEST_TIMEOUT_MS = 5_000
REVOCATION_COMMIT_TIMEOUT_MS = 5_000


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
        self._auto_commit_ms: int | None = (
            chosen["auto_commit_interval_ms"] if chosen["auto_commit"] else None
        )
        self._max_records: int = chosen["max_poll_records"]
        self._callbacks: dict[str, RebalanceCallback | None] = {
            name: chosen[name] for name in ("on_assigned", "on_revoked", "on_lost")
        }
        self._cluster = Cluster(bootstrap_servers, client_id=chosen["client_id"])
        self._topics: tuple[str, ...] = ()
        self._membership = GroupMembership(
            self._cluster,
            group_id,
            (),
            before_join=self._check_before_join,
            **self._membership_settings(chosen),
        )
        self._missing_topics = MissingTopics(self._cluster, group_id)
        # Ten times within max.poll.interval.ms, so that a poll that waits counts as one long poll.
        self._touch_every_s = chosen["max_poll_interval_ms"] / 10_000
        self._request_timeout_ms = min(
            POLL_REQUEST_TIMEOUT_MS, max(1, chosen["max_poll_interval_ms"] // 4)
        )
        self._claims = SinkClaimChecks(self._cluster, self._request_timeout_ms)
        self._touched_at = self._committed_at = time.monotonic()
        self._incarnation = 0
        self._adopted: MemberAssignment = ()  # the partitions that the member was last told to own
        self._fetcher = Fetcher(
            self._cluster, group_id, chosen["auto_offset_reset"], self._request_timeout_ms
        )
        self._positions = self._fetcher.positions  # of every owned partition
        self._committed: dict[TopicIdPartition, int] = {}  # what the group is known to have
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
        self._topics = names
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
            self._uncommitted()
            if offsets is None
            else {self._to_topic_id_partition(*name): offset for name, offset in offsets.items()}
        )
        try:
            self._commit_offsets(by_partition)
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
        return self._positions[self._to_topic_id_partition(*partition)]

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer owns, as of its last poll."""
        return _to_topic_partitions(self._positions)

    @property
    def session(self) -> GroupMembership:
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
            if (
                self._started
                and self._membership.status().incarnation == self._incarnation
                and self._positions
            ):
                self._revoke_partitions(tuple(self._positions))
        finally:
            if self._started:
                self._membership.leave(timeout_ms)
            self._cluster.close()

    def _membership_settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        return membership_settings(chosen)

    # delivery

    def _poll(self, timeout_ms: int, limit: int) -> list[ConsumerRecord]:
        if not self._started or self._closed:
            raise RuntimeError(
                "this consumer is closed" if self._closed else "subscribe to topics before you poll"
            )
        deadline = time.monotonic() + timeout_ms / 1000
        has_fetched = False
        while True:
            try:
                # First: a poll shows that the application lives (max.poll.interval.ms), even if it
                # gets no record.
                self._stay_in_group()
                self._apply_assignment()
            except AnotherSink:
                self._close_after_claim()
                raise
            # Before the first join no coordinator may answer yet, and that is logged elsewhere.
            if self._incarnation and self._membership.status().epoch > 0:
                self._missing_topics.check()
            # After the assignment was applied: what was revoked must not be delivered any more.
            records = self._fetcher.take(limit)
            left_ms = max(0, int((deadline - time.monotonic()) * 1000))
            # With a timeout of 0 there is one fetch, and its records are returned.
            if records or (has_fetched and not left_ms):
                return records
            wait_ms = min(left_ms, FETCH_WAIT_MS, self._request_timeout_ms)
            if not self._fetcher.fetch(wait_ms):
                self._membership.wait_for_change(wait_ms)
            has_fetched = True

    # ownership

    def _read_membership(self) -> View:
        return self._membership.status()

    def _resolve_partitions(self, target: MemberAssignment) -> Sequence[TopicIdPartition]:
        return self._membership.resolve_names(target)

    def _has_changed(self, view: View) -> bool:
        """Return whether the membership differs from what this consumer last applied."""
        has_target = view.target is not None and not view.target == view.owned == self._adopted
        return (
            view.incarnation != self._incarnation
            or has_target
            or view.state is MembershipState.FATAL
        )

    def _apply_assignment(self) -> None:
        """Apply the member's target: revoke partitions, start the gained ones, then `adopt`.

        The order must not change: `adopt` acknowledges the revocation, so revoked partitions are
        committed and given up before.
        """
        if self._membership.refusal is not None:
            raise self._membership.refusal
        view = self._read_membership()
        # on_lost before the error, so that the application stops its work on the partitions that it
        # no longer has.
        if view.state is MembershipState.FATAL and view.error is not None:
            self._lose_partitions()
            raise Refused(view.error.code, view.error.why)
        if not self._has_changed(view):
            self._claims.check_once_per_epoch(self._membership, view, self._topics)
            return
        if view.incarnation != self._incarnation:
            # The member was fenced, or its session expired: others own its partitions by now.
            self._lose_partitions()
            self._incarnation, self._adopted = view.incarnation, ()
        # A member without an assignment yet has nothing to start or to acknowledge.
        if view.target is None:
            return
        try:
            target = dict.fromkeys(self._resolve_partitions(view.target))
            revoked = tuple(each for each in self._positions if each not in target)
            added = tuple(each for each in target if each not in self._positions)
            # Revoked first, as in Kafka: on_revoked before on_assigned, and the last commit before
            # anything new is read.
            if revoked:
                self._revoke_partitions(revoked)
            if added:
                self._start_partitions(added)
        except (Disconnected, Refused) as error:
            if (
                isinstance(error, Refused)
                and not error.code.retriable
                and error.code not in MEMBERSHIP_LOST
            ):
                raise
            log.warning("cannot follow the group now: %s", error)
            return
        self._adopted = assignment(partition.id_partition for partition in self._positions)
        self._membership.adopt(view.incarnation, self._adopted)

    def _start_partitions(self, added: tuple[TopicIdPartition, ...]) -> None:
        """Set the positions of newly assigned partitions, and call `on_assigned`."""
        # Fetched as this member at its epoch, and only now: before the assignment the last owner
        # may still commit.
        stored = self._claims.check(self._membership, self._incarnation, (), added)
        without = [each for each in added if stored[each].offset is None]
        starts = {each: offset for each in added if (offset := stored[each].offset) is not None}
        # The group has these already: the next automatic commit need not commit them again.
        self._committed |= starts
        resets = self._fetcher.starting_offsets(without, "the group has no committed offset for it")
        self._positions.update(starts | resets)
        # After the positions are set, so that the callback may read or change them.
        self._run_callback("on_assigned", added)

    def _check_before_join(self) -> None:
        self._claims.check_before_join(self._membership.settings.group_id, self._topics)

    def _close_after_claim(self) -> None:
        """Close without a commit, because a sink has claimed the group."""
        # Lost and not revoked: a revocation would commit, and that is what the claim forbids.
        self._lose_partitions()
        self.close()

    def _revoke_partitions(self, revoked: tuple[TopicIdPartition, ...]) -> None:
        # The commit and the callback come first: both may need the positions.
        if self._auto_commit_ms is not None:
            self._try_commit(REVOCATION_COMMIT_TIMEOUT_MS)
        self._run_callback("on_revoked", revoked)
        self._drop_partitions(revoked)

    def _lose_partitions(self) -> None:
        """Drop every partition without a commit, and call `on_lost`."""
        if self._positions:
            lost = tuple(self._positions)
            # Before the callback, so that a commit in it cannot name what others own.
            self._drop_partitions(lost)
            self._run_callback("on_lost", lost)

    def _drop_partitions(self, dropped: Iterable[TopicIdPartition]) -> None:
        """Forget positions, fetched batches and decoded records of these partitions."""
        partitions = tuple(dropped)
        self._fetcher.drop(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)

    def _run_callback(self, name: str, partitions: tuple[TopicIdPartition, ...]) -> None:
        callback = self._callbacks[name]
        if callback is not None:
            callback(_to_topic_partitions(partitions))

    # upkeep

    def _stay_in_group(self) -> None:
        """Show the member that its owner polls, and commit if `auto_commit_interval_ms` is over."""
        moment = time.monotonic()
        # A stale member has left its group; only a poll brings it back (max.poll.interval.ms).
        if (
            moment - self._touched_at >= self._touch_every_s
            or self._membership.status().state is MembershipState.STALE
        ):
            self._touched_at = moment
            self._membership.touch()
        if (
            self._auto_commit_ms is not None
            and moment - self._committed_at >= self._auto_commit_ms / 1000
        ):
            self._try_commit(self._request_timeout_ms)

    def _commit_offsets(
        self, offsets: Mapping[TopicIdPartition, int], timeout_ms: int | None = None
    ) -> None:
        if offsets:
            self._claims.check_before_commit(self._membership, self._incarnation, self._topics)
        self._membership.commit(offsets, incarnation=self._incarnation, timeout_ms=timeout_ms)
        self._committed |= offsets
        self._committed_at = time.monotonic()

    def _uncommitted(self) -> dict[TopicIdPartition, int]:
        return {
            partition: offset
            for partition, offset in self._positions.items()
            if self._committed.get(partition) != offset
        }

    def _try_commit(self, timeout_ms: int) -> None:
        """Commit what was delivered; log a failure, because a later commit covers it."""
        try:
            self._commit_offsets(self._uncommitted(), timeout_ms)
        except (Disconnected, Refused) as error:
            self._committed_at = time.monotonic()
            log.warning("automatic commit failed: %s", error)

    def _to_topic_id_partition(self, topic: str, partition: int) -> TopicIdPartition:
        known = self._cluster.topics([topic]).named(topic)
        if known is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        return TopicIdPartition(topic, known.id, partition)


def _to_topic_partitions(partitions: Iterable[TopicIdPartition]) -> tuple[TopicPartition, ...]:
    return tuple(partition.topic_partition for partition in sorted(partitions))
