"""An application as a simulated process: a real group member, and a script that reads partitions.

An application is the simulator's driver of a member of either protocol; the real one is
`GroupMembership` of `client/group_membership.py`. `Reader` and `Worker` have the script. The
observer sees which partitions the script uses.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.members import GroupMember, make_member
from apportion.member.membership import (
    Answered,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Leave,
    Left,
    MembershipRequest,
    MembershipState,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    Subscribe,
    Unanswered,
)
from apportion.member.queries import MembershipSnapshot
from apportion.member.reactions import Reaction, reaction
from apportion.sim.actors.broker import BrokerProcess
from apportion.sim.actors.local_assignors import ApplicationAssignor
from apportion.sim.actors.member_client import MemberClient
from apportion.sim.actors.members import classic_settings, member_settings
from apportion.sim.actors.protocols import ProtocolPair
from apportion.sim.actors.requests import AwaitMember
from apportion.sim.kernel.clock import ScriptRunner, Simulation, Timer
from apportion.sim.kernel.observer import NOTHING_IN_USE, InUse, Observer
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.settings import CONSUMER
from apportion.topics import TopicIdPartition
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest
from apportion.wire.messages.sync_group import SyncGroupRequest

REQUEST_VERSIONS: dict[type[MembershipRequest], int] = {  # of a member's own requests
    ConsumerGroupHeartbeatRequest: 1,
    ConsumerGroupPrepareAssignmentRequest: 0,
    ConsumerGroupInstallAssignmentRequest: 0,
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
}
LEAVE_TIMEOUT_MS = 3_000
RESTART_DELAY_US = 1_000_000
WAKE_UP_US = 10_000  # a thread that waited runs a moment after it was woken


class Application(MemberClient):
    """One application: a member, and an owner that uses its partitions.

    in_use: the partitions that the owner uses now. next_protocol_choice: of its next process.
    """

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        broker: BrokerProcess,
        topics: tuple[str, ...],
        is_static: bool,
        observer: Observer,
        protocols: ProtocolPair,
    ) -> None:
        """Create the application; `start` gives it a process and a member.

        protocols: its two protocol choices, between which the fault `switch` changes.
        """
        super().__init__(simulation, name, broker)
        self.topics, self.expression = topics, ""
        self.instance_id = name if is_static else None
        self.protocols = protocols
        self.protocol_choice = self.next_protocol_choice = protocols.first
        self.in_use: InUse = NOTHING_IN_USE
        self.slow_until_us = 0
        # `observer.shard_rebuilds` when the last JoinGroup was sent, and the last successful one
        self._rebuilds_at_request = self._rebuilds_at_join = 0
        # work that began while the application was slow may last until then
        self.slow_work_until_us = 0
        self.observer = observer
        self.local_assignor = ApplicationAssignor(
            simulation, name, simulation.scenario.local_assignor
        )
        self._awaited: tuple[Callable[[Any], bool], ScriptRunner, int] | None = None

    def start(self) -> None:
        """Start a new process: a new member joins the group, and the script begins."""
        self.start_incarnation()
        self.in_use, self.protocol_choice = NOTHING_IN_USE, self.next_protocol_choice
        self.open_member_channels()
        self.member = self._new_member(self.simulation.scenario)
        self._status = self.member.view()
        self._alarm = Timer(self, self._on_timer)
        self._tick = Tick()
        self.simulation.write_trace(
            self.name, f"begins as {self.name}.{self.incarnation}{self._protocol_suffix}"
        )
        self.join()
        self.start_script()

    def join(self) -> None:
        """Subscribe to the topics, which lets the member join its group."""
        self.step_member(Subscribe(self.topics, self.expression))

    @property
    def uses_classic_protocol(self) -> bool:
        """Return whether the member of this incarnation uses the classic protocol."""
        return self.protocol_choice.protocol != CONSUMER

    @property
    def _protocol_suffix(self) -> str:
        return f", {self.protocol_choice}" if self.uses_classic_protocol else ""

    def _new_member(self, scenario: Scenario) -> GroupMember:
        """Create the member of a new incarnation, of the protocol that is its turn."""
        protocol, assignors = self.protocol_choice
        assignor = self.local_assignor.start(is_offered=not self.uses_classic_protocol)
        if self.uses_classic_protocol:
            settings = classic_settings(scenario, self.instance_id)
            settings["assignors"] = tuple(CLIENT_ASSIGNORS[name]() for name in assignors)
        else:
            settings = member_settings(scenario, self.instance_id)
            settings["assignors"] = assignor
        return make_member(protocol, self.group, f"{self.name}.{self.incarnation}", **settings)

    def die(self, closes_connections: bool) -> None:
        """Kill the application's process.

        closes_connections: its host lives and closes them; otherwise the broker sees nothing.
        """
        if not self.is_up:
            return
        self.simulation.write_trace(
            self.name, "is killed" if closes_connections else "is lost with its host"
        )
        self._stop_work()
        for channel in self.channels:
            if closes_connections:
                channel.close()
            else:
                channel.forget()
        self.end_incarnation()

    def stop(self) -> None:
        """Stop the application cleanly: end its work, and leave the group.

        The process ends with the answer to the leave, or after LEAVE_TIMEOUT_MS.
        """
        if self.is_up:
            self.simulation.write_trace(self.name, "stops")
            self._stop_work()
            self.call_later(LEAVE_TIMEOUT_MS * 1000, self._end_process)
            self.step_member(Leave())

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Change the topics to which the application subscribes.

        A running member learns the new topics now; one that has yet to join starts with them.
        """
        self.topics = topics
        is_member = self.is_up and self._status.state is not MembershipState.UNSUBSCRIBED
        if is_member and self.is_working:
            matching = f" matching {self.expression}" if self.expression else ""
            self.simulation.write_trace(self.name, f"wants {', '.join(topics)}{matching}")
            self.step_member(Subscribe(topics, self.expression))

    def step_member(self, event: Any) -> None:
        """Step the application's member over `event` and perform its actions."""
        actions = self.member.step(event, self.now())
        self._status = self.member.view()
        for action in actions:
            match action:
                case SendToCoordinator():
                    self._send(action)
                case FindCoordinator():
                    self.find_coordinator(action)
                case FetchMetadata():
                    self.fetch_metadata(action)
                case QueryCluster():
                    self.query_cluster(action)
                case RunAssignor():
                    if self.local_assignor.crashes():
                        self._crash()
                        return
                    self.call_later(
                        self.local_assignor.run_us(self._status.member_id, action.run.members),
                        self._run_assignor,
                        action,
                    )
                # Nothing after it counts: the process is over.
                case Left():
                    self._end_process()
                    return
                case Note():
                    self.simulation.write_trace(self.name, action.text)
                case Failed(code, why):
                    self._give_up(code, why)
                    return
                case _:
                    self.perform_other(action)
        self._alarm.set(self.member.wake_at())
        if self._awaited is not None and self._awaited[0](self.member):
            _, runner, turn = self._awaited
            self._awaited = None
            # After the actions were performed, so that the script sees the state that they left.
            runner.resume(turn, True)

    def _run_assignor(self, action: RunAssignor) -> None:
        self.step_member(action.perform())

    def _crash(self) -> None:
        """Kill the process, whose member was to compute its group's target; start another later."""
        self.die(closes_connections=self.rng.random() < 0.5)
        self.simulation.call_later(RESTART_DELAY_US, self._restart, self.incarnation)

    def snapshot(self) -> MembershipSnapshot:
        """Return the member's state as its last step left it, and the time of its process."""
        return MembershipSnapshot(self._status, self.mono_ms(), self.interruptions)

    def perform_other(self, action: Any) -> None:
        """Perform an action that only some members have; none by default.

        The script sees new targets and lost partitions in the member's view.
        """

    def set_in_use(self, incarnation: int, partitions: Mapping[TopicIdPartition, None]) -> None:
        """Use exactly these partitions from now on, and report the change."""
        if self.in_use.incarnation != incarnation or self.in_use.partitions != partitions:
            self.in_use = InUse(incarnation, dict.fromkeys(partitions))
            self.observer.ownership_changed(self)

    def work_ms(self, mean_ms: int) -> int:
        """Draw how long a piece of work takes; ten times as long while the application is slow.

        Otherwise it takes at most four times the mean and a third of the rebalance timeout: a
        healthy application gives up partitions in time.
        """
        duration_ms = 1 + min(
            int(self.rng.expovariate(1.0) * mean_ms),
            4 * mean_ms,
            self.simulation.scenario.rebalance_ms // 3,
        )
        if self.simulation.now_us < self.slow_until_us:
            duration_ms *= 10
            self.slow_work_until_us = self.simulation.now_us + duration_ms * 1_000
        return duration_ms

    def _give_up(self, code: Code, why: str) -> None:
        """End the process because its member failed; start it again where that can help.

        Any other failure of a member breaks the law no-defect. One is expected: a static classic
        member that replaced its predecessor while the group was joining. The replacement is in no
        record yet, so a coordinator that loads its log again fences the new member, as in Kafka.
        """
        api = "JoinGroup" if self.uses_classic_protocol else "ConsumerGroupHeartbeat"
        is_taken_back = (
            code is Code.FENCED_INSTANCE_ID
            and self.uses_classic_protocol
            and self.observer.shard_rebuilds > self._rebuilds_at_join
        )
        if not is_taken_back and reaction(api, code) is not Reaction.RETRY_FOR_A_TIME:
            raise LawBroken("no-defect", f"{self.name} cannot be a member: {code.name}: {why}")
        self.simulation.write_trace(self.name, f"gives up: {code.name}")
        self._end_process()
        self.simulation.call_later(RESTART_DELAY_US, self._restart, self.incarnation)

    def _restart(self, incarnation: int) -> None:
        if incarnation == self.incarnation and not self.is_up:
            self.start()

    def _stop_work(self) -> None:
        self._awaited = None
        self.cancel_script()
        self.set_in_use(0, {})

    def _end_process(self) -> None:
        """End the process: its work stops, and its connections close."""
        if self.is_up:
            self.simulation.write_trace(self.name, "ends")
            self._stop_work()
            for channel in self.channels:
                channel.close()
            self.end_incarnation()

    def _on_timer(self) -> None:
        """Step the member if it is due, on the clock of its process."""
        wake_ms = self.member.wake_at()
        if wake_ms is not None and wake_ms <= self.mono_ms():
            self.step_member(self._tick)
        else:
            self._alarm.set(wake_ms)

    def _send(self, send: SendToCoordinator) -> None:
        """Send the member's request to the coordinator, in place of an unanswered one.

        A member of a consumer group sends heartbeats while it waits for a computation's request.
        """
        request: MembershipRequest = send.request
        is_computation = isinstance(
            request, ConsumerGroupPrepareAssignmentRequest | ConsumerGroupInstallAssignmentRequest
        )
        channel = self.computation_channel if is_computation else self.heartbeat_channel
        channel.abandon_request()
        version = REQUEST_VERSIONS[type(request)]
        if isinstance(request, JoinGroupRequest):
            self._rebuilds_at_request = self.observer.shard_rebuilds
        elif isinstance(request, ConsumerGroupInstallAssignmentRequest):
            request = self.local_assignor.as_sent(request)
        channel.send(request, version, send.timeout_ms, lambda answer: self._receive(send, answer))

    def _receive(self, send: SendToCoordinator, answer: Any) -> None:
        """Trace and observe the broker's answer to a member's request; give it to the member.

        answer: None if none came.
        """
        if answer is None:
            self.step_member(Unanswered(send.request_id, "nobody answered"))
            return
        code = Code.of(answer.error_code)
        match send.request:
            case ConsumerGroupHeartbeatRequest():
                self.simulation.write_trace(
                    self.name, f"hears epoch {answer.member_epoch}, {code.name}"
                )
                self.observer.answer_received(self, answer.member_epoch, code)
            case JoinGroupRequest():
                leads = " and leads" if answer.leader == answer.member_id != "" else ""
                if code is Code.NONE:
                    self._rebuilds_at_join = self._rebuilds_at_request
                self.simulation.write_trace(
                    self.name,
                    f"joins generation {answer.generation_id}{leads} as "
                    f"{answer.member_id}, {code.name}",
                )
            case SyncGroupRequest(generation_id=generation):
                self.simulation.write_trace(
                    self.name, f"is in generation {generation}, {code.name}"
                )
                self.observer.answer_received(self, generation, code)
            case ConsumerGroupPrepareAssignmentRequest():
                self.local_assignor.note_prepared(answer)
                self.simulation.write_trace(
                    self.name, f"prepares for epoch {answer.group_epoch}, {code.name}"
                )
            case _:
                self.simulation.write_trace(self.name, f"hears {code.name}")
        self.step_member(Answered(send.request_id, answer))
        if type(send.request) is JoinGroupRequest and code is Code.NONE:
            self.observer.member_joined(self)

    def perform_effect(self, runner: ScriptRunner, effect: Any, turn: int) -> None:
        """Start what the application's script yielded: a request, a wait, or AwaitMember."""
        if type(effect) is not AwaitMember:
            super().perform_effect(runner, effect, turn)
        elif effect.condition(self.member):
            self.call_later(WAKE_UP_US, runner.resume, turn, True)
        else:
            self._awaited = (effect.condition, runner, turn)
            self.call_later(effect.timeout_ms * 1000, self._await_timed_out, runner, turn)

    def _await_timed_out(self, runner: ScriptRunner, turn: int) -> None:
        if self._awaited is not None and self._awaited[1:] == (runner, turn):
            self._awaited = None
            runner.resume(turn, False)
