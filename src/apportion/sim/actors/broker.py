"""The broker as a simulated process: a real Node on a disk that loses what was not flushed.

The process is the simulator's driver of a Node: it performs actions and posts events, and contains
no rule. A flush takes time. The flushed data reach the disk at its beginning or at its end, by
chance, because a crash during a real flush may leave either.
"""

from typing import TYPE_CHECKING, Any

from apportion.coord.config import GroupSettings
from apportion.machine import (
    PLAINTEXT_LISTENER,
    Arrived,
    Computation,
    ComputationEnd,
    Compute,
    Computed,
    ComputeFailed,
    Flush,
    Flushed,
    FlushFailed,
    Gone,
    Note,
    Reply,
    Tick,
    Ticket,
)
from apportion.node.listeners import Address
from apportion.node.node import Node
from apportion.node.settings import BrokerSettings
from apportion.sim.actors.unreliable_assignor import UnreliableAssignor
from apportion.sim.kernel.clock import SimulatedProcess, Simulation, Timer
from apportion.sim.kernel.network import (
    DOWN,
    SentRequest,
    SimulatedConnection,
    answer_through_bytes,
)
from apportion.sim.kernel.observer import Observer
from apportion.store.memory_disk import MemoryDisk
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apportion.coord.classic.state import ClassicGroup
    from apportion.coord.consumer.state import ConsumerGroup
    from apportion.coord.shard import Shard
    from apportion.node.partitions import Partition

ADVERTISED = {PLAINTEXT_LISTENER: Address("broker", 9092)}
MEAN_COMPUTATION_US = 300_000
MAX_FATAL_FLUSH_US = 1_500_000  # a flush that the broker's crash ends may last this long


class BrokerProcess(SimulatedProcess):
    """One broker. The observer sees each of its steps and replies.

    pending: the requests without a reply. is_listening: the node has recovered, and what its
    recovery wrote has been flushed. flushes_to_refuse: how many flushes fail. crash_in_flush:
    called during the next flush.
    """

    def __init__(self, simulation: Simulation, observer: Observer) -> None:
        """Create the broker with an empty disk; `start` starts its process."""
        super().__init__(simulation, "broker")
        self.observer = observer
        self.disk = MemoryDisk()
        self.assignor = UnreliableAssignor(simulation.random_stream("assignor"))
        self.settings = broker_settings(simulation, self.assignor)
        self.node: Node | None = None
        self.is_listening = False
        self.pending: dict[Ticket, SentRequest] = {}
        self.flushes_to_refuse = 0
        self.crashes = 0
        self.crash_in_flush: Callable[[], None] | None = None
        self._tickets = 0
        # tickets whose connection closed before the reply
        self._closed_unanswered: dict[Ticket, bool] = {}
        self._is_flushing = False
        self._was_refused = False  # whether the last flush failed: the node pauses before the next
        # while it is down its host is down too: nothing refuses connections
        self._drops_packets = False
        self._alarm = Timer(self, self._on_timer)
        self._tick = Tick()

    def start(self) -> None:
        """Start the broker: load what its disk has, and listen once that is flushed."""
        self.start_incarnation()
        self.simulation.write_trace(self.name, "starts")
        self.flushes_to_refuse = 0
        self.crash_in_flush = None
        self._is_flushing = self._was_refused = False
        self._alarm = Timer(self, self._on_timer)
        self.node = Node(self.disk, self.settings, ADVERTISED)
        actions = self.node.start(self.now(), self.rng.randbytes(16))
        self.is_listening = not any(type(action) is Flush for action in actions)
        # Before the actions are performed: what was recovered is checked before anybody can see it.
        self.observer.after_step(None)
        self._perform(actions)

    def shards(self) -> "Iterable[tuple[Partition, Shard]]":
        """Return each loaded coordinator shard with its log's partition; none while it is down."""
        return () if self.node is None else self.node.shards()

    def group_or_none(self, group_id: str) -> "ConsumerGroup | ClassicGroup | None":
        """Return the group from the shard that has it, if it exists."""
        groups = (shard.ledger.groups.get(group_id) for _, shard in self.shards())
        return next((group for group in groups if group is not None), None)

    @property
    def is_waiting_for_disk(self) -> bool:
        """Return whether a flush is under way, or was refused and will be tried again."""
        return self._is_flushing or self._was_refused

    def crash(self, tear_bytes: int | None, resets_connections: bool) -> None:
        """Kill the broker; its disk keeps what was flushed.

        tear_bytes: see `MemoryDisk.crash`. resets_connections: its host lives and resets every
        connection; otherwise clients learn of the crash by timeouts.
        """
        self.simulation.write_trace(
            self.name,
            f"crashes, tearing {tear_bytes} bytes" if tear_bytes is not None else "crashes",
        )
        self.crashes += 1
        self.end_incarnation()
        self.node, self.is_listening = None, False
        # All that was written and not flushed is gone, perhaps but for a part of the last write.
        self.disk = self.disk.crash(tear_bytes)
        pending, self.pending = self.pending, {}
        self._closed_unanswered.clear()
        self._drops_packets = not resets_connections
        if resets_connections:
            for each in pending.values():
                each.link.send(DOWN, each.connection, each.connection.on_reset, each.connection)

    def receive(self, sent: SentRequest) -> None:
        """Step the node over a request that has arrived at the broker's host.

        While the broker does not listen, reset the connection instead. The fault `lost-join`
        loses a request to join a group.
        """
        connection = sent.connection
        # A request sent before the close may still arrive at a real broker's host, but nobody
        # reads the requests of a closed socket.
        if not connection.is_open:
            return  # closed while the request was on its way
        if sent.link.joins_to_lose and joins_group(sent.request):
            sent.link.joins_to_lose -= 1
            self.simulation.write_trace(
                self.name, f"a request of {sent.channel.caller.client_id} to join is lost"
            )
            return
        if connection.broker_incarnation is None:
            connection.broker_incarnation = self.incarnation
        # The host is down as well, so nobody refuses or resets: the client has its timeout.
        if not self.is_up and self._drops_packets:
            return
        if not self.is_listening or connection.broker_incarnation != self.incarnation:
            sent.link.send(DOWN, connection, connection.on_reset, connection)
        else:
            self.deliver(self.incarnation, self._step_request, sent)

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Learn that the application has closed its end."""
        if connection.broker_incarnation == self.incarnation:
            self.deliver(self.incarnation, self._step_closed, connection)

    def _step_request(self, sent: SentRequest) -> None:
        """Give a request a ticket and step the node over its arrival."""
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self.pending[ticket] = sent._replace(since_ms=self.mono_ms())
        sent.connection.unanswered.append(ticket)
        self._step(
            Arrived(ticket, sent.request, sent.version, sent.channel.caller, self.rng.randbytes(16))
        )

    def _step_closed(self, connection: SimulatedConnection) -> None:
        """Forget a closed connection's requests and step the node."""
        tickets = tuple(ticket for ticket in connection.unanswered if ticket in self.pending)
        for ticket in tickets:
            del self.pending[ticket]
            self._closed_unanswered[ticket] = True
        connection.unanswered.clear()
        connection.ready_answers.clear()
        self._step(Gone(tickets))

    def _on_timer(self) -> None:
        """Step the node if a deadline of it is due, on the broker's clock."""
        assert self.node is not None
        # Read again: the deadline for which the alarm was set may have moved.
        wake_ms = self.node.wake_at()
        if wake_ms is not None and wake_ms <= self.mono_ms():
            self._step(self._tick)
        else:
            self._alarm.set(wake_ms)

    def _step(self, event: Any) -> None:
        """Step the broker's node; let the checker look, and perform the node's actions."""
        assert self.node is not None
        # Around the step and nothing else: a law that breaks is reported at the step that broke it.
        self.observer.before_step(event)
        actions = self.node.step(event, self.now())
        self.observer.after_step(event)
        self._perform(actions)

    def _perform(self, actions: list[Any]) -> None:
        """Carry out the node's actions: send replies, start flushes, trace notes."""
        assert self.node is not None
        for action in actions:
            if type(action) is Reply:
                self._reply(action)
            elif type(action) is Flush:
                self._flush(action)
            elif type(action) is Compute:
                spent_us = 20 + int(self.rng.expovariate(1.0) * MEAN_COMPUTATION_US)
                if action.computation.is_foreign:
                    spent_us += self.assignor.delay_us()
                # If it is abandoned, too: its end comes, and has to be dropped.
                self.call_later(spent_us, self._end_computation, action.computation)
            elif type(action) is Note:
                self.simulation.write_trace(self.name, action.text)
        self._alarm.set(self.node.wake_at())
        self.observer.after_actions()

    def _reply(self, reply: Reply) -> None:
        """Send a reply of the broker, after those to earlier requests of its connection.

        As with real brokers, the answers of one connection keep the order of the requests.
        """
        request = self.pending.pop(reply.ticket, None)
        if request is None:
            # A reply that waited for a flush may outlive its connection.
            if not self._closed_unanswered.pop(reply.ticket, False):
                self.observer.reply_without_request(reply)
            return
        self.observer.reply_sent(request.request, reply.body, request.since_ms)
        connection = request.connection
        connection.ready_answers[reply.ticket] = (request, reply.body)
        while connection.unanswered and connection.unanswered[0] in connection.ready_answers:
            self._send(*connection.ready_answers.pop(connection.unanswered.popleft()))

    def _send(self, request: SentRequest, body: Any) -> None:
        """Send an answer over the link, or lose it with its connection (fault `lost-reply`)."""
        link, connection = request.link, request.connection
        if link.answers_to_lose:
            link.answers_to_lose -= 1
            self.simulation.write_trace(
                self.name, f"an answer to {request.channel.caller.client_id} is lost"
            )
            link.send(DOWN, connection, connection.on_reset, connection)
            return
        if self.simulation.scenario.encodes:
            body = answer_through_bytes(type(request.request), request.version, body)
        link.send(DOWN, connection, request.channel.receive_answer, connection, body)

    def _flush(self, flush: Flush) -> None:
        """Start a flush on the simulated disk; it ends later: well, refused, or in a crash."""
        self._is_flushing = True
        refused = self.flushes_to_refuse > 0
        self.flushes_to_refuse -= refused
        crash_in_flush, self.crash_in_flush = self.crash_in_flush, None
        is_early = not refused and self.rng.random() < 0.5
        # The data may be durable long before the flush is reported: a crash in between must lose
        # nothing and acknowledge nothing.
        if is_early:
            self.disk.sync(flush.paths)
        spent_us = 20 + int(self.rng.expovariate(1.0) * self.simulation.scenario.flush_us)
        if crash_in_flush is None:
            self.call_later(spent_us, self._finish_flush, flush, refused, is_early)
        else:
            self.call_later(self.rng.randint(1, MAX_FATAL_FLUSH_US), crash_in_flush)

    def _end_computation(self, computation: Computation) -> None:
        """Step the node over the end of a computation, which a crash would have lost."""
        if not computation.is_foreign:
            self._step(Computed(computation, computation.run()))
            return
        scenario = self.simulation.scenario
        self.assignor.is_failing = self.simulation.now_us < scenario.duration_ms * 1_000
        try:
            end: ComputationEnd = Computed(computation, computation.run())
        except Exception as error:
            end = ComputeFailed(computation, repr(error))
        self._step(end)

    def _finish_flush(self, flush: Flush, refused: bool, is_early: bool) -> None:
        """Step the node over the end of a flush; after the first one, listen for requests."""
        self._is_flushing, self._was_refused = False, refused
        if refused:
            self._step(FlushFailed(flush.flush_seq, "the simulated disk is full"))
            return
        if not is_early:
            self.disk.sync(flush.paths)
        if not self.is_listening:
            self.is_listening = True
            self.simulation.write_trace(self.name, "listens")
        self._step(Flushed(flush.flush_seq))


def joins_group(request: Any) -> bool:
    """Return whether this is the request of a member to join its group."""
    match request:
        case JoinGroupRequest():
            return True
        case ConsumerGroupHeartbeatRequest(member_epoch=0):
            return True
    return False


def broker_settings(simulation: Simulation, assignor: UnreliableAssignor) -> BrokerSettings:
    """Return the simulated broker's settings for the scenario."""
    scenario = simulation.scenario
    return BrokerSettings(
        auto_create_topics_enable=False,
        offsets_topic_num_partitions=scenario.shards,
        group=GroupSettings(
            group_consumer_session_timeout_ms=scenario.session_ms,
            group_consumer_min_session_timeout_ms=min(scenario.session_ms, 1_000),
            group_consumer_max_session_timeout_ms=max(scenario.session_ms, 60_000),
            group_consumer_heartbeat_interval_ms=scenario.heartbeat_ms,
            group_consumer_assignment_interval_ms=scenario.assignment_interval_ms,
            group_min_session_timeout_ms=min(scenario.session_ms, 1_000),
            group_consumer_assignors=(scenario.assignor,),
            custom_assignors={assignor.name: assignor},
            # so short that it passes in every history
            group_consumer_regex_refresh_interval_ms=20_000,
            # longer than any history: no law expects offsets to expire
            offsets_retention_check_interval_ms=8 * 86_400_000,
            apportion_assignor_offload_size=scenario.offload_size,
            apportion_heartbeat_budget_per_second=scenario.heartbeat_budget,
        ),
    )
