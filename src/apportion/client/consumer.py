"""`apportion.Consumer`: read topics as a member of a group, in plain Python.

All work happens in the caller's thread, inside `poll`: assignments, callbacks, fetches. Only
heartbeats go on in the background. A record is delivered when `poll` or the iteration returns it.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, Unpack

from apportion.client.claims import MEMBERSHIP_LOST, SinkClaimChecks
from apportion.client.cluster import Cluster, Fetch
from apportion.client.connection import Disconnected
from apportion.client.group_membership import GroupMembership
from apportion.client.missing_topics import MissingTopics
from apportion.client.options import (
    RESETS,
    Callback,
    ConsumerOptions,
    checked,
    membership,
    topic_names,
)
from apportion.client.outage import Outage
from apportion.errors import Code, Refused
from apportion.member.batch.sinks import AnotherSink
from apportion.member.membership import Assignment, MembershipState, View, assignment
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.batch import Headers, decode_batch, read_header

log = logging.getLogger("apportion.consumer")

FETCH_WAIT_MS = 250
# one look-up may hold a poll up so long, while a broker is half away; the next poll tries again
FOLLOW_MS = 5_000
QUIET_COMMIT_MS = 5_000


class ConsumerRecord(NamedTuple):
    """One record. `timestamp_ms` is the producer's, or the broker's for LogAppendTime topics."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Consumer:
    """A member of a consumer group that reads records. For one thread at a time.

    bootstrap_servers: "host:port,host:port" or a list. topics: a name or names; the group decides
    who reads which partitions. Options: `ConsumerOptions` declares each with its bounds and its
    default; docs/settings.md is the table.
    """

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
        self._reset: str = chosen["auto_offset_reset"]
        self._auto_commit_ms: int | None = (
            chosen["auto_commit_interval_ms"] if chosen["auto_commit"] else None
        )
        self._max_records: int = chosen["max_poll_records"]
        self._callbacks: dict[str, Callback | None] = {
            name: chosen[name] for name in ("on_assigned", "on_revoked", "on_lost")
        }
        self._cluster = Cluster(bootstrap_servers, client_id=chosen["client_id"])
        self._topics: tuple[str, ...] = ()
        self._session = GroupMembership(
            self._cluster,
            group_id,
            (),
            before_join=self._check_before_join,
            **self._session_settings(chosen),
        )
        self._missing_topics = MissingTopics(self._cluster, group_id)
        self._outage = Outage(group_id)
        self._touch_every_s = chosen["max_poll_interval_ms"] / 10_000
        self._timeout_ms = min(FOLLOW_MS, max(1, chosen["max_poll_interval_ms"] // 4))
        self._claims = SinkClaimChecks(self._cluster, self._timeout_ms)
        self._touched_at = self._committed_at = time.monotonic()
        self._incarnation = 0
        self._adopted: Assignment = ()  # what the member was last told that this consumer holds
        # of every owned partition: the offset after the last delivered record
        self._positions: dict[TopicIdPartition, int] = {}
        self._committed: dict[TopicIdPartition, int] = {}  # what the group is known to have
        self._fetched: deque[tuple[TopicIdPartition, memoryview]] = deque()  # fetched, not decoded
        self._decoded: deque[ConsumerRecord] = deque()  # decoded, not delivered
        self._decoded_partition: TopicIdPartition | None = None
        self._fetch_rotation = 0
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
            self._session.start()
            self._started = True
        self._session.subscribe(names)
        self._missing_topics.expect(self._missing_topics_to_report(names))

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

        Raises Refused if this consumer may no longer commit: its successor delivers those records
        again; AnotherSink as `poll` does; Disconnected where no coordinator has answered for 30
        seconds. Inside `on_lost` the lost partitions have no position any more.
        """
        said = (
            self._uncommitted()
            if offsets is None
            else {self._to_topic_id_partition(*name): offset for name, offset in offsets.items()}
        )
        try:
            self._commit_offsets(said)
        except AnotherSink:
            self._end_refused()
            raise

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset of each partition; None where there is none."""
        places = [self._to_topic_id_partition(*partition) for partition in partitions]
        stored = self._cluster.committed(self._session.settings.group_id, places)
        return {place.topic_partition: offset for place, offset in stored.items()}

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be delivered; KeyError if not owned."""
        return self._positions[self._to_topic_id_partition(*partition)]

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this consumer owns, as of its last poll."""
        return _named(self._positions)

    @property
    def session(self) -> GroupMembership:
        """The membership, for those who watch it: status and history."""
        return self._session

    def close(self, timeout_ms: int = 5_000) -> None:
        """Revoke all partitions, commit if `auto_commit`, and leave the group.

        Again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if (
                self._started
                and self._session.status().incarnation == self._incarnation
                and self._positions
            ):
                self._revoke_partitions(tuple(self._positions))
        finally:
            if self._started:
                self._session.leave(timeout_ms)
            self._cluster.close()

    def _session_settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        return membership(chosen)

    def _missing_topics_to_report(self, names: Sequence[str]) -> Sequence[str]:
        return names

    # delivery

    def _poll(self, timeout_ms: int, limit: int) -> list[ConsumerRecord]:
        if not self._started or self._closed:
            raise RuntimeError(
                "this consumer is closed" if self._closed else "subscribe to topics before you poll"
            )
        deadline = time.monotonic() + timeout_ms / 1000
        asked = False
        while True:
            try:
                self._keep_alive()
                self._apply_assignment()
            except AnotherSink:
                self._end_refused()
                raise
            if self._incarnation and self._session.status().epoch > 0:  # else nobody answers yet
                self._missing_topics.look()
            delivered = self._deliver(limit)
            left_ms = max(0, int((deadline - time.monotonic()) * 1000))
            if delivered or (asked and not left_ms):
                return delivered
            self._fetch(min(left_ms, FETCH_WAIT_MS, self._timeout_ms))
            asked = True

    def _deliver(self, limit: int) -> list[ConsumerRecord]:
        delivered: list[ConsumerRecord] = []
        while len(delivered) < limit:
            if not self._decoded and not self._unpack():
                break
            assert self._decoded_partition is not None
            record = self._decoded.popleft()
            self._positions[self._decoded_partition] = record.offset + 1
            delivered.append(record)
        return delivered

    def _unpack(self) -> bool:
        """Decode the next fetched batch; return False if there is none."""
        while self._fetched:
            place, batch = self._fetched.popleft()
            position = self._positions[place]
            records = [record for record in decode_batch(batch) if record.offset >= position]
            self._decoded.extend(
                ConsumerRecord(place.topic, place.partition, *record) for record in records
            )
            if records:
                self._decoded_partition = place
                return True
            # compaction left nothing of it
            self._positions[place] = max(position, read_header(batch).last_offset + 1)
        return False

    def _fetch(self, wait_ms: int) -> None:
        """Fetch from the owned partitions' positions; wait a little if there is nothing."""
        if not self._positions:
            self._session.wait_for_news(wait_ms)
            return
        try:
            for place, fetch in self._cluster.fetch(
                self._fetch_positions(), max_wait_ms=wait_ms
            ).items():
                self._store_fetched(place, fetch)
            self._outage.record_success()
        except (Disconnected, Refused) as error:
            if isinstance(error, Refused) and not error.code.retriable:
                raise
            self._outage.record_failure(error)
            self._session.wait_for_news(wait_ms)

    def _fetch_positions(self) -> dict[TopicIdPartition, int]:
        """Return the positions in rotation: brokers fill a response in the request's order."""
        self._fetch_rotation += 1
        order = sorted(self._positions)
        first = self._fetch_rotation % len(order)
        return {place: self._positions[place] for place in order[first:] + order[:first]}

    def _store_fetched(self, place: TopicIdPartition, fetch: Fetch) -> None:
        if fetch.code is Code.OFFSET_OUT_OF_RANGE:
            why = (
                f"{place}: offset {self._positions[place]} is out of range; the log begins at "
                f"{fetch.log_start}"
            )
            log.warning(why)
            self._positions.update(self._starting_offsets([place], why))
        elif fetch.batches:
            self._fetched.extend((place, batch) for batch in fetch.batches)
        elif fetch.next_offset > self._positions[place]:  # nothing but markers and aborted records
            self._positions[place] = fetch.next_offset

    # ownership

    def _read_membership(self) -> View:
        return self._session.status()

    def _resolve_partitions(self, target: Assignment) -> Sequence[TopicIdPartition]:
        return self._session.resolve_names(target)

    def _calls_for_me(self, view: View) -> bool:
        moved = view.target is not None and not view.target == view.owned == self._adopted
        return view.incarnation != self._incarnation or moved or view.state is MembershipState.FATAL

    def _apply_assignment(self) -> None:
        """Apply the member's target: revoke partitions, start the gained ones, then `adopt`.

        The order must not change: `adopt` acknowledges the revocation, so revoked partitions are
        committed and given up before.
        """
        if self._session.refusal is not None:
            raise self._session.refusal
        view = self._read_membership()
        if view.state is MembershipState.FATAL and view.error is not None:
            self._lose()
            raise Refused(view.error.code, view.error.why)
        if not self._calls_for_me(view):
            self._claims.check_once_per_epoch(self._session, view, self._topics)
            return
        if view.incarnation != self._incarnation:
            self._lose()
            self._incarnation, self._adopted = view.incarnation, ()
        if view.target is None:
            return
        try:
            wanted = dict.fromkeys(self._resolve_partitions(view.target))
            going = tuple(place for place in self._positions if place not in wanted)
            coming = tuple(place for place in wanted if place not in self._positions)
            if going:
                self._revoke_partitions(going)
            if coming:
                self._start_partitions(coming)
        except (Disconnected, Refused) as error:
            if (
                isinstance(error, Refused)
                and not error.code.retriable
                and error.code not in MEMBERSHIP_LOST
            ):
                raise
            log.warning("cannot follow the group now: %s", error)
            return
        self._adopted = assignment(place.id_partition for place in self._positions)
        self._session.adopt(view.incarnation, self._adopted)

    def _start_partitions(self, coming: tuple[TopicIdPartition, ...]) -> None:
        stored = self._claims.check(self._session, self._incarnation, (), coming)
        unknown = [place for place in coming if stored[place].offset is None]
        starts = {place: offset for place in coming if (offset := stored[place].offset) is not None}
        self._committed |= starts
        self._positions |= starts | self._starting_offsets(
            unknown, "the group has no committed offset for it"
        )
        self._run_callback("on_assigned", coming)

    def _check_before_join(self) -> None:
        self._claims.check_before_join(self._session.settings.group_id, self._topics)

    def _end_refused(self) -> None:
        self._lose()
        self.close()

    def _revoke_partitions(self, going: tuple[TopicIdPartition, ...]) -> None:
        if self._auto_commit_ms is not None:
            self._commit_quietly()
        self._run_callback("on_revoked", going)
        self._drop_partitions(going)

    def _lose(self) -> None:
        if self._positions:
            lost = tuple(self._positions)
            self._drop_partitions(lost)
            self._run_callback("on_lost", lost)

    def _drop_partitions(self, gone: Iterable[TopicIdPartition]) -> None:
        """Forget positions, fetched batches and decoded records of these partitions."""
        without = dict.fromkeys(gone)
        self._fetched = deque(entry for entry in self._fetched if entry[0] not in without)
        if self._decoded_partition in without:
            self._decoded.clear()
        for place in without:
            self._positions.pop(place, None)
            self._committed.pop(place, None)

    def _starting_offsets(
        self, places: Sequence[TopicIdPartition], why: str
    ) -> dict[TopicIdPartition, int]:
        when = RESETS[self._reset]
        if not places:
            return {}
        if when is None:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE, f"auto_offset_reset is 'error', and of {places[0]}: {why}"
            )
        return self._cluster.list_offsets(places, when, timeout_ms=self._timeout_ms)

    def _run_callback(self, name: str, places: tuple[TopicIdPartition, ...]) -> None:
        callback = self._callbacks[name]
        if callback is not None:
            callback(_named(places))

    # upkeep

    def _keep_alive(self) -> None:
        moment = time.monotonic()
        if (
            moment - self._touched_at >= self._touch_every_s
            or self._session.status().state is MembershipState.STALE
        ):
            self._touched_at = moment
            self._session.touch()
        if (
            self._auto_commit_ms is not None
            and moment - self._committed_at >= self._auto_commit_ms / 1000
        ):
            self._commit_quietly(self._timeout_ms)

    def _commit_offsets(
        self, offsets: Mapping[TopicIdPartition, int], timeout_ms: int | None = None
    ) -> None:
        if offsets:
            self._claims.check_before_commit(self._session, self._incarnation, self._topics)
        self._session.commit(offsets, incarnation=self._incarnation, timeout_ms=timeout_ms)
        self._committed |= offsets
        self._committed_at = time.monotonic()

    def _uncommitted(self) -> dict[TopicIdPartition, int]:
        return {
            place: offset
            for place, offset in self._positions.items()
            if self._committed.get(place) != offset
        }

    def _commit_quietly(self, timeout_ms: int = QUIET_COMMIT_MS) -> None:
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


def _named(places: Iterable[TopicIdPartition]) -> tuple[TopicPartition, ...]:
    return tuple(place.topic_partition for place in sorted(places))
