"""The coordinator shards of this broker, one for each partition of `__consumer_offsets` in use.

A group belongs to the shard that `shard_of` names. The records of a step of a shard become one
batch of its partition, and every response waits until all that its shard has appended is durable. A
request about several groups is split, and its responses are joined under one ticket.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.coord.heartbeat_budget import HeartbeatBudget
from apportion.coord.placement import shard_of
from apportion.coord.records import Append
from apportion.coord.shard import Shard
from apportion.coord.shard_events import SettingsChanged, TopicsChanged
from apportion.errors import Code, Refused
from apportion.machine import (
    Abandon,
    Arrived,
    ComputationEnd,
    Compute,
    Gone,
    Instant,
    Note,
    Reply,
    Tick,
    Ticket,
)
from apportion.node.broker import BrokerContext
from apportion.node.coordinator_log import stored_records
from apportion.node.flush_gate import PendingReply, may_send
from apportion.node.partitions import Partition
from apportion.node.splits import EVERY_SHARD, SPLITS, SplitRequests
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from apportion.deadlines import Key

SHARD = "shard"
"""The deadline of a shard, at which it is stepped: the earliest of its own ones."""
SendReply = Callable[[int, PendingReply], None]
"""Sends a reply once the flush of that number has succeeded."""


class HostedShard:
    """A coordinator shard and the partition of `__consumer_offsets` that is its log.

    flush_seq: the flush for which a response of the shard has to wait. It covers all that the shard
        has appended, not just in its last step: a response that only reads may tell of any of it.
    is_confirmed: False while a unit of work that stepped the shard, or a steady heartbeat, is under
        way, and for good if that failed.
    """

    __slots__ = ("deadline", "flush_seq", "is_confirmed", "partition", "shard")

    def __init__(self, shard: Shard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        self.deadline: Key = (SHARD, partition.index)
        self.flush_seq = partition.flush_seq
        self.is_confirmed = False

    def step(self, event: Any, now: Instant) -> list[Any]:
        """Run one step of the coordinator shard; return the actions to perform."""
        self.is_confirmed = False
        return self.shard.step(event, now)


class Coordinators:
    """The loaded shards, and the way of each group request to its shard and back."""

    __slots__ = (
        "_broker",
        "_hosted",
        "_send_reply",
        "_split_requests",
        "_steady",
        "_stepped",
        "heartbeats",
    )

    def __init__(
        self, broker: BrokerContext, split_requests: SplitRequests, send_reply: SendReply
    ) -> None:
        self._broker = broker
        self._split_requests = split_requests
        self._send_reply = send_reply
        # One for all shards. What a step booked that is undone later stays booked until its time:
        # a booking too many costs a heartbeat, and no group depends on one.
        self.heartbeats = HeartbeatBudget(
            broker.settings.group.apportion_heartbeat_budget_per_second
        )
        self._hosted: dict[int, HostedShard] = {}
        self._stepped: list[HostedShard] = []  # since the last `confirm`
        # the shards of which a deadline may have moved since the last `arm_steady`
        self._steady: dict[int, None] = {}

    def steady_response_or_none(
        self, arrived: Arrived, now: Instant
    ) -> ConsumerGroupHeartbeatResponse | None:
        """Return the response to a steady heartbeat, which may leave at once.

        It is no step of a shard and no unit of work: a heartbeat that is found steady changes
        nothing that would have to be undone. If it fails, through a defect, the shard is loaded
        again like one whose step has failed. None for any other request, and while what the
        response tells is not yet on the disk.
        """
        if type(arrived.request) is not ConsumerGroupHeartbeatRequest:
            return None
        topic = self._broker.topic_service.offsets_topic_or_none()
        if topic is None:
            return None
        index = shard_of(arrived.request.group_id, topic.partitions)
        hosted = self._hosted.get(index)
        if hosted is None or not may_send(hosted.flush_seq, self._broker.flush_gate.durable_seq):
            return None
        self._steady[index] = None
        hosted.is_confirmed = False
        response = hosted.shard.steady_response_or_none(arrived, now)
        hosted.is_confirmed = True
        return response

    def arm_steady(self) -> None:
        """Arm the deadlines of the shards that were asked for steady heartbeats."""
        for index in self._steady:
            # as it is now: a rollback may have loaded it anew, or forgotten it
            if (hosted := self._hosted.get(index)) is not None:
                self._arm(hosted)
        self._steady.clear()

    def route(self, arrived: Arrived, now: Instant) -> None:
        """Hand a group request to the coordinator shard of its group, or its parts to several."""
        split = SPLITS.get(type(arrived.request))
        if split is None:
            self._ask(self._load_if_needed(arrived.request.group_id, now), arrived, now)
            return
        parts: list[tuple[HostedShard | None, Any]]
        if type(arrived.request) is EVERY_SHARD:
            # All shards with a log are loaded at the start, so one that is not loaded has no
            # groups.
            parts = [(hosted, arrived.request) for hosted in self._hosted.values()]
        else:
            parts = [
                (self._load_if_needed(group_id, now), part)
                for group_id, part in split.parts(arrived.request)
            ]
        if not parts:
            self._answer(arrived, split.join([]))
        elif len(parts) == 1:
            self._ask(parts[0][0], arrived._replace(request=parts[0][1]), now)
        else:
            # Each part has its own ticket, by which its response is found.
            tickets = self._split_requests.add(arrived, len(parts))
            for (hosted, part), ticket in zip(parts, tickets, strict=True):
                self._ask(hosted, arrived._replace(ticket=ticket, request=part), now)

    def indexes_with(self, tickets: Iterable[Ticket]) -> list[int]:
        """Return the index of each coordinator shard in which one of these requests waits."""
        return [
            index
            for index, hosted in self._hosted.items()
            if any(ticket in hosted.shard.waiting for ticket in tickets)
        ]

    def out_of_date(self) -> list[int]:
        """Return the index of each coordinator shard that lacks the present topics or settings."""
        return [index for index, hosted in self._hosted.items() if self._changes(hosted.shard)]

    def update(self, index: int, now: Instant) -> None:
        """Give a coordinator shard the broker's present topics and the settings of its groups.

        The shard's responses wait until those are durable.
        """
        hosted = self._hosted.get(index)
        if hosted is None:
            return
        for change in self._changes(hosted.shard):
            hosted.flush_seq = max(hosted.flush_seq, self._broker.topic_service.flush_seq)
            self._step(hosted, change, now)

    def _changes(self, shard: Shard) -> list[TopicsChanged | SettingsChanged]:
        """Return the events that tell a coordinator shard what it does not know yet."""
        topics, live = self._broker.topic_service.topics, self._broker.topic_service.live
        changes: list[TopicsChanged | SettingsChanged] = []
        # By identity: both are values that are made anew with each change.
        if shard.settings is not live.broker.group or shard.own_settings is not live.groups:
            changes.append(SettingsChanged(live.broker.group, live.groups))
        if shard.topics is not topics:
            changes.append(TopicsChanged(topics))
        return changes

    def tick(self, index: int, now: Instant) -> None:
        """Step the coordinator shard whose earliest deadline, such as a session timeout, is due."""
        if index in self._hosted:
            self._step(self._hosted[index], Tick(), now)

    def end_computation(self, event: ComputationEnd, now: Instant) -> None:
        """Hand the end of a computation to the coordinator shard of its group, if there is one."""
        topic = self._broker.topic_service.offsets_topic_or_none()
        index = None if topic is None else shard_of(event.computation.group_id, topic.partitions)
        if index in self._hosted:
            self._step(self._hosted[index], event, now)

    def drop_tickets(self, shard_and_event: tuple[int, Gone], now: Instant) -> None:
        """Tell a coordinator shard which of its parked requests have lost their connection.

        shard_and_event: the index of the shard, and the tickets that name the requests.
        """
        index, event = shard_and_event
        hosted = self._hosted.get(index)
        if hosted is not None:
            self._step(hosted, event, now)

    def load_all(self, now: Instant) -> None:
        """Load every coordinator shard that has a log, at the start of the broker."""
        topic = self._broker.topic_service.offsets_topic_or_none()
        if topic is not None:
            for index in self._broker.partitions.written_indexes(topic):
                self._load(index, self._broker.partitions.open_partition(topic, index), now)

    def reload(self, partition: Partition, now: Instant) -> list[Arrived]:
        """Load a coordinator shard anew from its partition's log; return its parked requests.

        For a rollback, which has cut the log back.
        """
        hosted = self._hosted.pop(partition.index)
        self._abandon_computations(hosted.shard)
        self._load(partition.index, partition, now, hosted.shard)
        return list(hosted.shard.waiting)

    def close(self) -> list[Arrived]:
        """Forget all coordinator shards, and return the requests that they had parked.

        For a rollback that takes the creation of `__consumer_offsets` back.
        """
        parked = [request for hosted in self._hosted.values() for request in hosted.shard.waiting]
        for hosted in self._hosted.values():
            self._broker.deadlines.disarm(hosted.deadline)
            self._abandon_computations(hosted.shard)
        self._hosted.clear()
        return parked

    def unconfirmed(self) -> list[Partition]:
        """Return the partitions of the shards that were stepped since `confirm`."""
        return [hosted.partition for hosted in self._hosted.values() if not hosted.is_confirmed]

    def rearm(self, from_ms: int) -> None:
        """Arm the next deadline of every coordinator shard, at `from_ms` at the earliest.

        A failed step of the node may have lost one.
        """
        for hosted in self._hosted.values():
            self._arm(hosted, from_ms)

    def confirm(self) -> None:
        """Keep the changes of the coordinator shards, because the node's unit of work succeeded."""
        for hosted in self._stepped:
            hosted.is_confirmed = True
        self._stepped.clear()

    def shards(self) -> Iterator[tuple[Partition, Shard]]:
        """Return the shards with the partitions of their logs, in the order of loading."""
        return ((hosted.partition, hosted.shard) for hosted in self._hosted.values())

    def _abandon_computations(self, shard: Shard) -> None:
        """Wait no longer for the computations of a shard that is not used any more.

        The shard that takes its place would drop their ends. But until somebody abandons it, one
        that never returns keeps a thread that is still counted on.
        """
        for computation in shard.computations():
            begun = [
                action
                for action in self._broker.computations
                if type(action) is Compute and action.computation is computation
            ]
            if begun:  # in this step, so nobody has begun to run it
                self._broker.computations.remove(begun[0])
            else:
                self._broker.computations.append(Abandon(computation))

    def _load_if_needed(self, group_id: str, now: Instant) -> HostedShard | None:
        """Load the coordinator shard of the group, unless it is loaded; return it.

        None while there is no `__consumer_offsets`: as in Kafka, FindCoordinator creates it, and no
        other group request does.
        """
        topic = self._broker.topic_service.offsets_topic_or_none()
        if topic is None:
            return None
        index = shard_of(group_id, topic.partitions)
        return self._hosted.get(index) or self._load(
            index, self._broker.partitions.open_partition(topic, index), now
        )

    def _load(
        self, index: int, partition: Partition, now: Instant, before: Shard | None = None
    ) -> HostedShard:
        """Load a coordinator shard: replay its log, and arm its members' deadlines.

        before: the shard whose place it takes.
        """
        topic_service = self._broker.topic_service
        live = topic_service.live
        shard = Shard(live.broker.group, topic_service.topics, live.groups, self.heartbeats)
        for record in stored_records(partition):
            shard.replay(record)
        hosted = self._hosted[index] = HostedShard(shard, partition)
        # The load belongs to the unit of work that needs it: if that fails, the shard is loaded
        # again.
        self._stepped.append(hosted)
        # The shard's responses may tell of topics and settings, so they wait for those, too.
        hosted.flush_seq = max(hosted.flush_seq, topic_service.flush_seq)
        self._perform(hosted, shard.loaded(now, before), now)
        return hosted

    def _ask(self, hosted: HostedShard | None, arrived: Arrived, now: Instant) -> None:
        """Step a coordinator shard over a request; without one, answer NOT_COORDINATOR."""
        if hosted is None:
            refusal = Refused(Code.NOT_COORDINATOR, "FindCoordinator has to come first.")
            self._answer(arrived, GROUP_ERROR_RESPONSES[type(arrived.request)](arrived, refusal))
        else:
            self._step(hosted, arrived, now)

    def _answer(self, arrived: Arrived, body: Any) -> None:
        """Answer a request for which no shard is needed."""
        self._send_reply(
            self._broker.topic_service.flush_seq, PendingReply(arrived.ticket, body, arrived)
        )

    def _step(self, hosted: HostedShard, event: Any, now: Instant) -> None:
        self._stepped.append(hosted)
        self._perform(hosted, hosted.step(event, now), now)

    def _perform(self, hosted: HostedShard, actions: list[Any], now: Instant) -> None:
        """Perform the actions of one step of a coordinator shard, in order: replies and appends.

        An append to the shard's partition of `__consumer_offsets` makes every later response, and
        every log line of the step, wait for its flush.
        """
        waiting, notes = hosted.shard.waiting, list[Note]()
        for action in actions:
            if type(action) is Reply:
                request = waiting.request_or_none(action.ticket)
                assert request is not None, f"ticket {action.ticket} has no waiting request"
                self._send_reply(
                    hosted.flush_seq, PendingReply(action.ticket, action.body, request)
                )
                # Only now: a unit of work that fails has to find it in one of the two places.
                waiting.remove(action.ticket)
            elif type(action) is Append:
                # One batch for the whole step: after a crash the log has all of its records or
                # none.
                hosted.partition.append_records(action.encoded(), now.wall_ms)
                # From here on replies that only read wait as well: what they show may be these
                # records.
                hosted.flush_seq = max(hosted.flush_seq, hosted.partition.flush_seq)
            elif type(action) is Note:
                notes.append(action)
            else:
                self._broker.computations.append(action)
        # Behind all appends: a line tells of records that may follow it, such as a removal.
        self._broker.notes += ((hosted.flush_seq, note) for note in notes)
        self._arm(hosted)

    def _arm(self, hosted: HostedShard, from_ms: int = 0) -> None:
        """Arm the next deadline of a coordinator shard, at `from_ms` at the earliest."""
        wake_ms = hosted.shard.wake_at()
        if wake_ms is None:
            self._broker.deadlines.disarm(hosted.deadline)
        else:
            self._broker.deadlines.arm(hosted.deadline, max(wake_ms, from_ms))
