"""The coordinator shards of this broker: one for each partition of `__consumer_offsets` that was ever needed.

A group belongs to the shard that Java's hash of its id names. What a shard appends goes to its partition as one batch, and every
answer of the shard waits until that is durable. A request over several groups is split and its answers joined under one ticket.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from apportion.coord.placement import shard_of
from apportion.coord.records import Append, CoordinatorRecord
from apportion.coord.shard import Shard, TopicsChanged
from apportion.errors import DecodeError
from apportion.machine import Arrived, Gone, Instant, Note, Reply, Tick, Ticket
from apportion.node.broker import BrokerContext
from apportion.node.flush_gate import PendingReply
from apportion.node.partitions import Partition
from apportion.node.splits import EVERY_SHARD, SPLITS
from apportion.store.disk import Damaged
from apportion.topics import Topics
from apportion.wire.batch import decode_batch
from apportion.wire.records.codec import decode_key, decode_value, encode_key, encode_value

if TYPE_CHECKING:
    from apportion.deadlines import Key

SendReply = Callable[[int, PendingReply], None]
"""Sends an answer when its mark is durable."""


def required_flush_seq(shard_seq: int, step_seq: int) -> int:
    """An answer waits for all that its shard has appended, whoever caused that: it may tell of any of it.

    shard_mark: of all that the shard has appended so far. step_mark: of what the step that answers has; 0: nothing.
    """
    return shard_seq


class HostedShard:
    """One shard on its partition. `flush_seq` is when everything that its answers may tell of is durable.

    is_confirmed: False from its start, or that of a step, until what the step is a part of is done; for ever if that broke off.
    """

    __slots__ = ("deadline", "flush_seq", "is_confirmed", "parked", "partition", "shard")

    def __init__(self, shard: Shard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        self.deadline: Key = ("shard", partition.index)
        self.parked: dict[Ticket, Arrived] = {}
        self.flush_seq = partition.flush_seq
        self.is_confirmed = False


class SplitRequest:
    """A request whose parts, in the order of `tickets`, are with several shards; None stands where an answer is missing."""

    __slots__ = ("answers", "request", "tickets")

    def __init__(self, asked: Arrived, tickets: list[Ticket]) -> None:
        self.request = asked
        self.tickets = tickets
        self.answers: dict[Ticket, Any] = dict.fromkeys(tickets)


class Coordinators:
    """All seats, and the way of every group request to its shard and back."""

    __slots__ = ("_broker", "_hosted", "_last_part", "_notes", "_send_reply", "_splits", "_stepped")

    def __init__(self, broker: BrokerContext, send_reply: SendReply) -> None:
        self._broker = broker
        self._send_reply = send_reply
        self._hosted: dict[int, HostedShard] = {}
        self._splits: dict[Ticket, SplitRequest] = {}  # by the tickets of the parts
        self._stepped: list[HostedShard] = []  # since the last `confirm`
        self._last_part = 0
        self._notes: list[Note] = []

    def route(self, arrived: Arrived, now: Instant) -> None:
        """The request is with the shard of its group, or its parts are with theirs."""
        split = SPLITS.get(type(arrived.request))
        if split is None:
            self._step(self._shard_of(arrived.request.group_id, arrived.fresh, now), arrived, now)
            return
        if type(arrived.request) is EVERY_SHARD:
            parts = [(hosted, arrived.request) for hosted in self._hosted.values()]
        else:
            parts = [(self._shard_of(group_id, arrived.fresh, now), part) for group_id, part in split.parts(arrived.request)]
        if not parts:
            self._send_reply(self._broker.topic_service.flush_seq, PendingReply(arrived.ticket, split.join([]), arrived))
        elif len(parts) == 1:
            self._step(parts[0][0], arrived._replace(request=parts[0][1]), now)
        else:
            self._step_parts(arrived, parts, now)

    def combine_parts(self, reply: PendingReply) -> PendingReply | None:
        """Return the answer to the whole request if this is its last part; None while others are missing, or after `forget`."""
        split = self._splits.get(reply.ticket)
        if split is None:
            return None
        split.answers[reply.ticket] = reply.body
        answers = [split.answers[ticket] for ticket in split.tickets]
        if any(answer is None for answer in answers):
            return None
        return PendingReply(split.request.ticket, SPLITS[type(split.request.request)].join(answers), split.request)

    def abandon(self, ticket: Ticket) -> Arrived | None:
        """Forget a request in parts that has this ticket, or a part with it; return the whole request, or None if there is none."""
        for split in self._splits.values():
            if split.request.ticket == ticket or ticket in split.answers:
                self.forget(split.tickets[0])
                return split.request
        return None

    def forget(self, part: Ticket) -> None:
        """Join no more the request that this part is of: it was answered."""
        for ticket in self._splits[part].tickets:
            del self._splits[ticket]

    def indexes(self) -> list[int]:
        """Return the number of each shard, in the order in which they were seated."""
        return list(self._hosted)

    def with_stale_topics(self, topics: Topics) -> list[int]:
        """Return the number of each shard that knows other topics than these."""
        return [index for index, hosted in self._hosted.items() if hosted.shard.topics is not topics]

    def update_topics(self, index: int, now: Instant) -> None:
        """Tell a shard of the topics that there are now; it shows nothing of them before they are durable."""
        hosted = self._hosted.get(index)
        if hosted is not None and hosted.shard.topics is not self._broker.topic_service.topics:
            hosted.flush_seq = max(hosted.flush_seq, self._broker.topic_service.flush_seq)
            self._step(hosted, TopicsChanged(self._broker.topic_service.topics), now)

    def tick(self, index: int, now: Instant) -> None:
        """The deadlines of that shard that have come are served."""
        if index in self._hosted:
            self._step(self._hosted[index], Tick(), now)

    def drop_tickets(self, said: tuple[int, Gone], now: Instant) -> None:
        """Let the shard of that number wait for these tickets no more."""
        hosted = self._hosted.get(said[0])
        if hosted is not None:
            for ticket in said[1].tickets:
                hosted.parked.pop(ticket, None)
            self._step(hosted, said[1], now)

    def load_all(self, now: Instant) -> None:
        """Every shard that has a log is as its log says."""
        topic = self._broker.topic_service.offsets_topic_or_none()
        if topic is not None:
            for index in self._broker.partitions.written_indexes(topic):
                self._load(index, self._broker.partitions.of(topic, index), now)

    def reload(self, partition: Partition, now: Instant) -> list[Arrived]:
        """The shard of that partition is thrown away and rebuilt from its log; the requests that it had parked."""
        hosted = self._hosted.pop(partition.index)
        self._load(partition.index, partition, now)
        return list(hosted.parked.values())

    def close(self) -> list[Arrived]:
        """There are no shards any more; the requests that they had parked."""
        parked = [asked for hosted in self._hosted.values() for asked in hosted.parked.values()]
        for hosted in self._hosted.values():
            self._broker.deadlines.disarm(hosted.deadline)
        self._hosted.clear()
        return parked

    def unconfirmed(self) -> list[Partition]:
        """The partitions of the shards that were stepped since `confirm`. If that broke off, nobody may be told what they say."""
        return [hosted.partition for hosted in self._hosted.values() if not hosted.is_confirmed]

    def rearm(self, from_ms: int) -> None:
        """Arm the tick of every shard, since one may have been lost on its way; none comes before `from_ms`."""
        for hosted in self._hosted.values():
            self._arm(hosted, from_ms)

    def confirm(self) -> None:
        """Keep what the shards have done until now, whatever comes after."""
        for hosted in self._stepped:
            hosted.is_confirmed = True
        self._stepped.clear()

    def shards(self) -> Iterator[tuple[Partition, Shard]]:
        """The shards with the partitions of their logs, in the order in which they were seated."""
        return ((hosted.partition, hosted.shard) for hosted in self._hosted.values())

    def notes(self) -> Iterable[Note]:
        """What the shards have said since the last call."""
        said, self._notes = self._notes, []
        return said

    def _shard_of(self, group_id: str, fresh: bytes, now: Instant) -> HostedShard:
        """The seat of the group's shard, taken now if it was empty."""
        topic = self._broker.topic_service.ensure_offsets_topic(fresh)
        index = shard_of(group_id, topic.partitions)
        return self._hosted.get(index) or self._load(index, self._broker.partitions.of(topic, index), now)

    def _load(self, index: int, partition: Partition, now: Instant) -> HostedShard:
        """A new shard that has read its log sits at `index`."""
        shard = Shard(self._broker.settings.group, self._broker.topic_service.topics)
        for record in stored_records(partition):
            shard.replay(record[0], offset=record[1])
        hosted = self._hosted[index] = HostedShard(shard, partition)
        self._stepped.append(hosted)
        hosted.flush_seq = max(hosted.flush_seq, self._broker.topic_service.flush_seq)
        self._perform(hosted, shard.loaded(now), now)
        return hosted

    def _step_parts(self, arrived: Arrived, parts: list[tuple[HostedShard, Any]], now: Instant) -> None:
        tickets = [Ticket(self._last_part - number) for number in range(1, len(parts) + 1)]
        self._last_part -= len(parts)
        self._splits |= dict.fromkeys(tickets, SplitRequest(arrived, tickets))
        for (hosted, request), ticket in zip(parts, tickets, strict=True):
            self._step(hosted, Arrived(ticket, request, arrived.version, arrived.caller, arrived.fresh), now)

    def _step(self, hosted: HostedShard, event: Any, now: Instant) -> None:
        hosted.is_confirmed = False
        self._stepped.append(hosted)
        if type(event) is Arrived:  # not before: a shard that keeps a request is among those that are read again
            hosted.parked[event.ticket] = event
        self._perform(hosted, hosted.shard.step(event, now), now)

    def _perform(self, hosted: HostedShard, actions: list[Any], now: Instant) -> None:
        """The shard's actions in their order: appends first make every later answer wait for them."""
        step_seq = 0
        for action in actions:
            if type(action) is Reply:
                self._send_reply(
                    required_flush_seq(hosted.flush_seq, step_seq),
                    PendingReply(action.ticket, action.body, hosted.parked.pop(action.ticket, None)),
                )
            elif type(action) is Append:
                hosted.partition.append_records(
                    [
                        (encode_key(each.key), None if each.value is None else encode_value(each.value), ())
                        for each in action.records
                    ],
                    now.wall_ms,
                )
                step_seq = hosted.flush_seq = max(hosted.flush_seq, hosted.partition.flush_seq)
            else:
                self._notes.append(action)
        self._arm(hosted)

    def _arm(self, hosted: HostedShard, from_ms: int = 0) -> None:
        """Have the shard ticked when it wants to be, but not before `from_ms`."""
        wake_ms = hosted.shard.wake_at()
        if wake_ms is None:
            self._broker.deadlines.disarm(hosted.deadline)
        else:
            self._broker.deadlines.arm(hosted.deadline, max(wake_ms, from_ms))


def stored_records(partition: Partition, since: int = 0) -> Iterable[tuple[CoordinatorRecord, int]]:
    """The records of a shard's log with their offsets, oldest first; kinds that are not known here are left out.

    since: what stands before this offset is left out; it may be below the log's start, or in a batch that was cleaned.

    Damaged, with the place, for a record that cannot be read: to go on without it would be to forget a commit or an epoch.
    """
    offset = max(since, partition.log.start_offset)
    try:
        for view in partition.log.batches(offset):
            offset = int.from_bytes(view[:8], "big")
            for stood in decode_batch(view):
                offset = stood.offset
                key = None if stood.key is None or offset < since else decode_key(stood.key)
                if key is not None:
                    yield CoordinatorRecord(key, None if stood.value is None else decode_value(key, stood.value)), offset
    except DecodeError as error:
        raise Damaged(f"{partition.topic.name}-{partition.index}, offset {offset}: {error}") from None
