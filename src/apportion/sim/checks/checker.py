"""The invariant checker: raises LawBroken at the first step after which a law does not hold.

The checker implements `kernel.observer.Observer` and changes nothing. A law is a function of state
that changes in few places, so it is checked where that state has changed: the laws of a group after
a step that wrote to its log, exclusive use when an owner or a group changed, offsets after a
commit. A law of a state that did not change still holds. `consumer_groups.py` and `classic_laws.py`
check the groups of each protocol, `offset_laws.py` their offsets, `replay.py` the log.
"""

from collections.abc import Mapping
from typing import Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Arrived, Reply, Ticket
from apportion.sim.actors.broker import BrokerProcess
from apportion.sim.actors.sink import Sink
from apportion.sim.checks.classic_laws import ClassicGroupChecker, parked_tickets
from apportion.sim.checks.client_assignors import ClientAssignorChecker
from apportion.sim.checks.consumer_groups import ConsumerGroupChecker
from apportion.sim.checks.counters import RunCounters
from apportion.sim.checks.delivery_laws import DeliveryChecker
from apportion.sim.checks.installed_targets import tickets_under_check
from apportion.sim.checks.member_snapshot import restarts_classic_session
from apportion.sim.checks.offset_laws import OffsetChecker
from apportion.sim.checks.replay import ReplayChecker
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.observer import PartitionOwner
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import Topics
from apportion.wire.group_states import GroupState
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.heartbeat import HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.sync_group import SyncGroupResponse

CLASSIC_RESPONSES = (JoinGroupResponse, SyncGroupResponse, HeartbeatResponse)
STEPS_BETWEEN_REPLAYS = 500
SETTLED = (GroupState.STABLE, GroupState.EMPTY)


class InvariantChecker:
    """The observer of one simulation.

    owners: every application by name; the cluster adds them. shard_rebuilds: how often coordinator
    shards were rebuilt from their logs.
    """

    def __init__(self, simulation: Simulation, sinks: Mapping[str, Sink]) -> None:
        self.simulation = simulation
        self.owners: dict[str, PartitionOwner] = {}
        self.shard_rebuilds = 0
        self.counters = RunCounters(simulation)
        self._topics_at_crash = Topics()
        self.offsets = OffsetChecker(sinks)
        self.deliveries = DeliveryChecker(self._existing_topics)
        self.classic_groups = ClassicGroupChecker(simulation)
        self.consumer_groups = ConsumerGroupChecker(simulation.scenario, self.owners)
        self.client_assignors = ClientAssignorChecker(simulation.scenario.assignment_interval_ms)
        self._replays = ReplayChecker(simulation)
        # offsets partition -> its shard and log end offset
        self._seen_logs: dict[int, tuple[Shard, int]] = {}

    def attach_broker(self, broker: BrokerProcess) -> None:
        """Set the broker to observe.

        The broker needs its observer first, so this comes after both exist.
        """
        self._broker: BrokerProcess = broker

    # what the broker reports

    def before_step(self, event: Any) -> None:
        """Note the offsets and the classic members that `event` may change."""
        # Before the step, since the step answers: silence is measured from the arrival of a
        # request.
        self.classic_groups.before_step(event, self._mono_ms())
        self.consumer_groups.installs.before_step(event, self._shards)
        self.client_assignors.before_step(event, self._shards)
        if type(event) is Arrived and type(event.request) is OffsetCommitRequest:
            self.offsets.before_commit(self._shards(), event.request)

    def after_step(self, event: Any) -> None:
        """Check the laws after a step of the broker over `event`, or after its start (None)."""
        # After a start there is no event, and everything that was checked before belongs to the
        # lost process.
        if event is None:
            self._check_recovered()
        if type(event) is Arrived:
            if type(event.request) is ConsumerGroupHeartbeatRequest:
                session_ms = self._session_ms(event.request.group_id)
                self.consumer_groups.heartbeat_processed(event.request.member_id, session_ms)
            elif type(event.request) is OffsetCommitRequest:
                self.offsets.after_commit(self._shards(), event.request)
        self.consumer_groups.installs.after_step(event, self._shards)
        self.client_assignors.after_step(event, self._mono_ms())
        self._check_groups(event)
        if (
            self.simulation.steps // STEPS_BETWEEN_REPLAYS
            != self._replays.checked_at // STEPS_BETWEEN_REPLAYS
        ):
            self._replays.check(self._broker.shards())

    def after_actions(self) -> None:
        """Raise LawBroken for a request that nothing will ever answer.

        A request waits for a flush, or it is parked until other members of its group join or sync,
        or until what it installs is checked.
        No client of the simulation sends a request that waits for anything else.
        """
        broker = self._broker
        # While a flush is under way every reply may wait for it (decisions/0003), so nothing can be
        # concluded.
        if broker.pending and not broker.is_waiting_for_disk:
            parked = self._parked_tickets()
            for ticket, waiting in broker.pending.items():
                if ticket not in parked:
                    why = (
                        f"{type(waiting.request).__name__} has no answer, is not parked, and "
                        "no flush is under way."
                    )
                    raise LawBroken("ticket-once", why)

    def reply_without_request(self, reply: Reply) -> None:
        """Raise LawBroken for a second reply to a request of the simulation."""
        raise LawBroken(
            "ticket-once",
            f"ticket {reply.ticket} is spent a second time, on {type(reply.body).__name__}.",
        )

    def reply_sent(self, request: Any, body: Any, since_ms: int) -> None:
        """Note a reply of the broker: later crashes must not undo what it says."""
        if body.__class__ in CLASSIC_RESPONSES:
            self.classic_groups.reply_sent(request, body, since_ms)
            if restarts_classic_session(request, body.error_code):
                self.consumer_groups.session_restarted(request.member_id, since_ms)
        self.offsets.reply_sent(self._topics(), request, body)
        if type(request) is ConsumerGroupDescribeRequest:
            for described in body.groups:
                if described.error_code == Code.NONE:
                    self.consumer_groups.epoch_described(
                        described.group_id, described.group_epoch, since_ms
                    )
        elif type(request) is ConsumerGroupHeartbeatRequest:
            self.consumer_groups.reply_sent(request, body, since_ms)
            self.client_assignors.reply_sent(request, body)

    def before_crash(self) -> None:
        """Check the logs, as they are all that the broker will know after the crash."""
        self._topics_at_crash = self._topics()
        self._replays.check(self._broker.shards())
        # Only here and not every 500 steps: it replays whole logs.
        self._replays.check_compacted(self._broker.shards())

    # what the owners report

    def answer_received(self, owner: PartitionOwner, epoch: int, code: Code) -> None:
        """Check that the epochs a member receives within one incarnation never decrease."""
        self.consumer_groups.answer_received(owner, epoch, code, self._mono_ms())

    def member_joined(self, owner: PartitionOwner) -> None:
        """Note that a classic member knows that it is in its group.

        A member that was removed cannot know of its new membership earlier.
        """
        self.consumer_groups.member_joined(owner)
        group = self._broker.group_or_none(owner.group)
        if isinstance(group, ConsumerGroup):
            self.consumer_groups.check_in_use(group, owner, self._topics())

    def ownership_changed(self, owner: PartitionOwner) -> None:
        """Check that no other owner may use the partitions that this one uses now."""
        self.deliveries.ownership_changed(owner)
        self.counters.ownership_changed(owner.group, self.owners.values())
        group = self._broker.group_or_none(owner.group)
        if isinstance(group, ClassicGroup):
            self.classic_groups.check_exclusive_use(group, self.owners.values())
        elif group is not None:
            self.consumer_groups.check_in_use(group, owner, self._topics())

    # groups

    def _check_groups(self, event: Any) -> None:
        """Check the consumer groups of every shard whose log has grown, and all classic groups.

        A classic group changes without a record: only a finished SyncGroup is written to its log.
        """
        for partition, shard in self._broker.shards():
            end = partition.log.next_offset
            seen = self._seen_logs.get(partition.index)
            if seen is None or seen[0] is not shard or seen[1] != end:
                self._seen_logs[partition.index] = (shard, end)
                if seen is not None and seen[0] is not shard:
                    # a flush failed: the shard was loaded again from its log
                    self._check_rebuilt([shard], is_start=False)
                for group in shard.ledger.consumer_groups():
                    self._check_consumer_group(group, shard, event)
            for classic in shard.ledger.classic_groups():
                self._check_classic_group(classic)
                self.classic_groups.check_silence(classic, self._mono_ms(), shard.wake_at())

    def _check_consumer_group(self, group: ConsumerGroup, shard: Shard, event: Any) -> None:
        """Check a consumer group after a step of the broker, and count its rebalances."""
        if not self.consumer_groups.is_known(group.group_id):
            self.classic_groups.forget(group.group_id)
        epochs = self.consumer_groups.check_change(group, shard.topics, event, self._mono_ms())
        if epochs is None:
            return
        self.counters.group_changed(group.group_id, epochs, group.has_converged())
        for owner in self.owners.values():
            if owner.group == group.group_id:
                # Both sides may change: here the group has, and in `ownership_changed` the owner.
                self.consumer_groups.check_in_use(group, owner, self._topics())

    def _check_classic_group(self, group: ClassicGroup) -> None:
        """Check a classic group after a step of the broker, if it has changed."""
        if self.consumer_groups.is_known(group.group_id):
            self._check_downgrade(group, is_recovered=False)
        if not self.classic_groups.has_changed(group):
            return
        generations = self.classic_groups.check_change(group, self._mono_ms(), self._broker.pending)
        self.counters.group_changed(group.group_id, generations, group.live.state in SETTLED)
        self.classic_groups.check_exclusive_use(group, self.owners.values())

    def _check_downgrade(self, group: ClassicGroup, is_recovered: bool) -> None:
        if not self.consumer_groups.check_downgrade(group, is_recovered):
            self.classic_groups.forget(group.group_id)

    # after a crash or a failed flush

    def _check_recovered(self) -> None:
        """Check a broker that has just loaded its shards from their logs."""
        self._seen_logs.clear()
        self._replays.forget()
        self._check_rebuilt(self._shards(), is_start=True)

    def _check_rebuilt(self, shards: list[Shard], *, is_start: bool) -> None:
        """Check that shards that were read from their logs have all that replies have shown.

        is_start: of the broker, which has counted no session yet.
        """
        now_ms = self._mono_ms()
        self.shard_rebuilds += 1
        for shard in shards:
            classic = list(shard.ledger.classic_groups())
            for group in classic:
                if self.consumer_groups.is_known(group.group_id):
                    self._check_downgrade(group, is_recovered=True)
            self.classic_groups.check_recovered(classic, now_ms, is_start=is_start)
            for consumer_group in shard.ledger.consumer_groups():
                self.classic_groups.forget_sessions(consumer_group.group_id)
                self.consumer_groups.check_recovered(consumer_group, now_ms)
                if is_start:
                    session_ms = self._session_ms(consumer_group.group_id)
                    self.consumer_groups.sessions_begin(consumer_group, now_ms, session_ms)

        def is_lost(group_id: str) -> bool:
            return self._broker.group_or_none(group_id) is None

        self.classic_groups.forget_lost(is_lost)
        self.consumer_groups.check_lost_groups(is_lost)
        assert self._broker.node is not None
        self.offsets.check_recovered(self._shards(), self._broker.node)

    # the broker's state

    def _mono_ms(self) -> int:
        return self._broker.mono_ms()

    def _session_ms(self, group_id: str) -> int:
        """Return the session timeout that holds in a consumer group now."""
        shard = self._shards()[0] if self._shards() else None
        if shard is None:
            return self.simulation.scenario.session_ms
        settings = shard.own_settings.get(group_id, shard.settings)
        return settings.group_consumer_session_timeout_ms

    def _topics(self) -> Topics:
        assert self._broker.node is not None
        return self._broker.node.topics

    def _existing_topics(self) -> Topics:
        return self._topics_at_crash if self._broker.node is None else self._broker.node.topics

    def _shards(self) -> list[Shard]:
        return [shard for _, shard in self._broker.shards()]

    def _parked_tickets(self) -> set[Ticket]:
        """Return the tickets of the requests that wait for something else than a flush.

        They are those of JoinGroup and SyncGroup that wait in groups, and of installed targets that
        are checked beside a shard.
        """
        parked = {
            ticket
            for shard in self._shards()
            for group in shard.ledger.classic_groups()
            for ticket in parked_tickets(group)
        }
        return parked | tickets_under_check(self._shards())
