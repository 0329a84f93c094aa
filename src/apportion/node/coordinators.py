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


def required_flush_seq(shard_mark: int, step_mark: int) -> int:
    """An answer waits for all that its shard has appended, whoever caused that: it may tell of any of it.

    shard_mark: of all that the shard has appended so far. step_mark: of what the step that answers has; 0: nothing.
    """
    return shard_mark


class HostedShard:
    """One shard on its partition. `mark` is when everything that its answers may tell of is durable.

    is_whole: False from its start, or that of a step, until what the step is a part of is done; for ever if that broke off.
    """

    __slots__ = ("deadline", "is_whole", "mark", "parked", "partition", "shard")

    def __init__(self, shard: Shard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        self.deadline: Key = ("shard", partition.index)
        self.parked: dict[Ticket, Arrived] = {}
        self.mark = partition.mark
        self.is_whole = False


class SplitRequest:
    """A request whose parts, in the order of `tickets`, are with several shards; None stands where an answer is missing."""

    __slots__ = ("answers", "asked", "tickets")

    def __init__(self, asked: Arrived, tickets: list[Ticket]) -> None:
        self.asked = asked
        self.tickets = tickets
        self.answers: dict[Ticket, Any] = dict.fromkeys(tickets)


class Coordinators:
    """All seats, and the way of every group request to its shard and back."""

    __slots__ = ("_broker", "_joints", "_last_part", "_notes", "_say", "_seats", "_stepped")

    def __init__(self, broker: BrokerContext, say: SendReply) -> None:
        self._broker = broker
        self._say = say
        self._seats: dict[int, HostedShard] = {}
        self._joints: dict[Ticket, SplitRequest] = {}  # by the tickets of the parts
        self._stepped: list[HostedShard] = []  # since the last `confirm`
        self._last_part = 0
        self._notes: list[Note] = []

    def arrived(self, ask: Arrived, now: Instant) -> None:
        """The request is with the shard of its group, or its parts are with theirs."""
        split = SPLITS.get(type(ask.request))
        if split is None:
            self._step(self._place(ask.request.group_id, ask.fresh, now), ask, now)
            return
        if type(ask.request) is EVERY_SHARD:
            parts = [(seat, ask.request) for seat in self._seats.values()]
        else:
            parts = [(self._place(group_id, ask.fresh, now), part) for group_id, part in split.parts(ask.request)]
        if not parts:
            self._say(self._broker.registry.mark, PendingReply(ask.ticket, split.join([]), ask))
        elif len(parts) == 1:
            self._step(parts[0][0], ask._replace(request=parts[0][1]), now)
        else:
            self._ask_parts(ask, parts, now)

    def joined(self, held: PendingReply) -> PendingReply | None:
        """Return the answer to the whole request if this is its last part; None while others are missing, or after `forget`."""
        joint = self._joints.get(held.ticket)
        if joint is None:
            return None
        joint.answers[held.ticket] = held.body
        answers = [joint.answers[ticket] for ticket in joint.tickets]
        if any(answer is None for answer in answers):
            return None
        return PendingReply(joint.asked.ticket, SPLITS[type(joint.asked.request)].join(answers), joint.asked)

    def abandon(self, ticket: Ticket) -> Arrived | None:
        """Forget a request in parts that has this ticket, or a part with it; return the whole request, or None if there is none."""
        for joint in self._joints.values():
            if joint.asked.ticket == ticket or ticket in joint.answers:
                self.forget(joint.tickets[0])
                return joint.asked
        return None

    def forget(self, part: Ticket) -> None:
        """Join no more the request that this part is of: it was answered."""
        for ticket in self._joints[part].tickets:
            del self._joints[ticket]

    def indexes(self) -> list[int]:
        """Return the number of each shard, in the order in which they were seated."""
        return list(self._seats)

    def untold(self, topics: Topics) -> list[int]:
        """Return the number of each shard that knows other topics than these."""
        return [index for index, seat in self._seats.items() if seat.shard.topics is not topics]

    def tell(self, index: int, now: Instant) -> None:
        """Tell a shard of the topics that there are now; it shows nothing of them before they are durable."""
        seat = self._seats.get(index)
        if seat is not None and seat.shard.topics is not self._broker.registry.topics:
            seat.mark = max(seat.mark, self._broker.registry.mark)
            self._step(seat, TopicsChanged(self._broker.registry.topics), now)

    def tick(self, index: int, now: Instant) -> None:
        """The deadlines of that shard that have come are served."""
        if index in self._seats:
            self._step(self._seats[index], Tick(), now)

    def gone(self, said: tuple[int, Gone], now: Instant) -> None:
        """Let the shard of that number wait for these tickets no more."""
        seat = self._seats.get(said[0])
        if seat is not None:
            for ticket in said[1].tickets:
                seat.parked.pop(ticket, None)
            self._step(seat, said[1], now)

    def recover(self, now: Instant) -> None:
        """Every shard that has a log is as its log says."""
        topic = self._broker.registry.offsets_topic_or_none()
        if topic is not None:
            for index in self._broker.partitions.written(topic):
                self._seated(index, self._broker.partitions.of(topic, index), now)

    def reload(self, partition: Partition, now: Instant) -> list[Arrived]:
        """The shard of that partition is thrown away and rebuilt from its log; the requests that it had parked."""
        seat = self._seats.pop(partition.index)
        self._seated(partition.index, partition, now)
        return list(seat.parked.values())

    def close(self) -> list[Arrived]:
        """There are no shards any more; the requests that they had parked."""
        parked = [asked for seat in self._seats.values() for asked in seat.parked.values()]
        for seat in self._seats.values():
            self._broker.deadlines.disarm(seat.deadline)
        self._seats.clear()
        return parked

    def broken(self) -> list[Partition]:
        """The partitions of the shards that were stepped since `confirm`. If that broke off, nobody may be told what they say."""
        return [seat.partition for seat in self._seats.values() if not seat.is_whole]

    def broke_off(self, from_ms: int) -> None:
        """Arm the tick of every shard, since one may have been lost on its way; none comes before `from_ms`."""
        for seat in self._seats.values():
            self._arm(seat, from_ms)

    def confirm(self) -> None:
        """Keep what the shards have done until now, whatever comes after."""
        for seat in self._stepped:
            seat.is_whole = True
        self._stepped.clear()

    def shards(self) -> Iterator[tuple[Partition, Shard]]:
        """The shards with the partitions of their logs, in the order in which they were seated."""
        return ((seat.partition, seat.shard) for seat in self._seats.values())

    def notes(self) -> Iterable[Note]:
        """What the shards have said since the last call."""
        said, self._notes = self._notes, []
        return said

    def _place(self, group_id: str, fresh: bytes, now: Instant) -> HostedShard:
        """The seat of the group's shard, taken now if it was empty."""
        topic = self._broker.registry.offsets_topic(fresh)
        index = shard_of(group_id, topic.partitions)
        return self._seats.get(index) or self._seated(index, self._broker.partitions.of(topic, index), now)

    def _seated(self, index: int, partition: Partition, now: Instant) -> HostedShard:
        """A new shard that has read its log sits at `index`."""
        shard = Shard(self._broker.settings.group, self._broker.registry.topics)
        for record in stored_records(partition):
            shard.replay(record[0], offset=record[1])
        seat = self._seats[index] = HostedShard(shard, partition)
        self._stepped.append(seat)
        seat.mark = max(seat.mark, self._broker.registry.mark)
        self._perform(seat, shard.loaded(now), now)
        return seat

    def _ask_parts(self, ask: Arrived, parts: list[tuple[HostedShard, Any]], now: Instant) -> None:
        tickets = [Ticket(self._last_part - number) for number in range(1, len(parts) + 1)]
        self._last_part -= len(parts)
        self._joints |= dict.fromkeys(tickets, SplitRequest(ask, tickets))
        for (seat, request), ticket in zip(parts, tickets, strict=True):
            self._step(seat, Arrived(ticket, request, ask.version, ask.caller, ask.fresh), now)

    def _step(self, seat: HostedShard, event: Any, now: Instant) -> None:
        seat.is_whole = False
        self._stepped.append(seat)
        if type(event) is Arrived:  # not before: a shard that keeps a request is among those that are read again
            seat.parked[event.ticket] = event
        self._perform(seat, seat.shard.step(event, now), now)

    def _perform(self, seat: HostedShard, actions: list[Any], now: Instant) -> None:
        """The shard's actions in their order: appends first make every later answer wait for them."""
        step_mark = 0
        for action in actions:
            if type(action) is Reply:
                self._say(
                    required_flush_seq(seat.mark, step_mark),
                    PendingReply(action.ticket, action.body, seat.parked.pop(action.ticket, None)),
                )
            elif type(action) is Append:
                seat.partition.append_records(
                    [
                        (encode_key(each.key), None if each.value is None else encode_value(each.value), ())
                        for each in action.records
                    ],
                    now.wall_ms,
                )
                step_mark = seat.mark = max(seat.mark, seat.partition.mark)
            else:
                self._notes.append(action)
        self._arm(seat)

    def _arm(self, seat: HostedShard, from_ms: int = 0) -> None:
        """Have the shard ticked when it wants to be, but not before `from_ms`."""
        wake_ms = seat.shard.wake_at()
        if wake_ms is None:
            self._broker.deadlines.disarm(seat.deadline)
        else:
            self._broker.deadlines.arm(seat.deadline, max(wake_ms, from_ms))


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
