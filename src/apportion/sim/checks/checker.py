"""Looks on, and raises LawBroken at the first step after which a law does not hold. It changes nothing.

A law is a function of state that changes in few places, so it is asked where that state has changed: a group's laws after a step
that wrote to its log, hands when a hand or a group changed, offsets when one was committed. What was true before is still true.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from apportion.coord.classic.state import ClassicGroup, ClassicGroupState
from apportion.coord.consumer.beat import AWAY, JOINING
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.units import PARTITION, SHIFT
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Arrived, Ticket
from apportion.sim.actors.broker import BrokerProcess, PendingRequest
from apportion.sim.actors.member import Application
from apportion.sim.actors.sink import Sink
from apportion.sim.checks.classic_laws import ClassicGroupChecker, parked_tickets
from apportion.sim.checks.consumer_laws import GROUP_LAWS
from apportion.sim.checks.counters import RunCounters
from apportion.sim.checks.member_snapshot import MemberSnapshot, may_mean_deleted_topic, removes_member
from apportion.sim.checks.offset_laws import OffsetChecker
from apportion.sim.checks.replay import ReplayChecker
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import Topics
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.heartbeat import HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.sync_group import SyncGroupResponse

CLASSIC_RESPONSES = (JoinGroupResponse, SyncGroupResponse, HeartbeatResponse)
FENCING_CODES = (Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND)
STEPS_BETWEEN_REPLAYS = 500  # steps
ANSWERS_TO_BE_SURE = 3  # answers: the first may be to a heartbeat of before, the second to one that was under way


class InvariantChecker:
    """Everything that was seen of one world. `applications` is filled by whoever makes them."""

    def __init__(self, simulation: Simulation, sinks: Mapping[str, Sink]) -> None:
        self.simulation = simulation
        self.applications: dict[str, Application] = {}
        self.shard_rebuilds = 0  # how often shards were made anew
        self.counters = RunCounters(simulation)
        self.offsets = OffsetChecker(sinks)
        self.classic_groups = ClassicGroupChecker(simulation)
        self._broker: BrokerProcess | None = None
        self._replays = ReplayChecker(simulation)
        self._seen_logs: dict[int, tuple[Shard, int]] = {}
        self._members: dict[str, dict[str, MemberSnapshot]] = {}
        self._epochs: dict[str, int] = {}
        self._assignment_epochs: dict[str, int] = {}
        self._target_topics: dict[tuple[str, int], Topics] = {}  # group and assignment epoch -> the topics of that moment
        self._max_shown_epoch: dict[str, int] = {}  # group -> the highest epoch that anybody was told
        self._last_heartbeat_ms: dict[str, int] = {}  # member -> when the broker last accepted a heartbeat of it, on its clock
        self._heartbeats_since_answer: dict[
            str, int
        ] = {}  # member -> its heartbeats that the broker has worked off since it last heard anything
        self._removed: dict[str, None] = {}  # members that the coordinator dismissed, or let be replaced
        self._acknowledged_epochs: dict[str, int] = {}  # member -> the last epoch that the broker told it, since it is a member
        self._answer_times_ms: dict[str, deque[int]] = {}  # member -> when it heard its last answers, on the broker's clock
        self._in_use_changed_ms: dict[str, int] = {}  # member -> when its owner last changed what it uses, on the broker's clock
        self._epochs_received: dict[str, tuple[int, int]] = {}  # member -> life, and the last epoch that it heard in it

    def attach_broker(self, broker: BrokerProcess) -> None:
        """This is the broker of the world."""
        self._broker = broker

    # what the broker does

    def before_step(self, event: Any) -> None:
        """The broker is about to step over `event`."""
        self.classic_groups.before_step(event, self._mono_ms())
        if type(event) is Arrived and type(event.request) is OffsetCommitRequest:
            self.offsets.before_commit(self._shards(), event.request)

    def after_step(self, event: Any) -> None:
        """The broker has stepped over `event`; None is its start."""
        if event is None:
            self._check_recovered()
        if type(event) is Arrived:
            request = event.request
            if type(request) is ConsumerGroupHeartbeatRequest:
                self._heartbeats_since_answer[request.member_id] = self._heartbeats_since_answer.get(request.member_id, 0) + 1
            elif type(request) is OffsetCommitRequest:
                self.offsets.after_commit(self._shards(), request)
        self._check_groups(event)
        if self.simulation.steps // STEPS_BETWEEN_REPLAYS != self._replays.checked_at // STEPS_BETWEEN_REPLAYS:
            self._replays.check(self._node_shards())

    def reply_sent(self, pending: PendingRequest, body: Any) -> None:
        """The broker lets an answer go: from now on it has been seen."""
        request = pending.request
        if body.__class__ in CLASSIC_RESPONSES:
            self.classic_groups.reply_sent(request, body, pending.since_ms)
            if body.error_code in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
                self._last_heartbeat_ms[request.member_id] = max(
                    self._last_heartbeat_ms.get(request.member_id, 0), pending.since_ms
                )
        self.offsets.reply_sent(self._topics(), request, body)
        if type(request) is ConsumerGroupDescribeRequest:
            for describe_classic_group in body.groups:
                if describe_classic_group.error_code == Code.NONE:
                    self._note_shown_epoch(describe_classic_group.group_id, describe_classic_group.group_epoch)
        if type(request) is not ConsumerGroupHeartbeatRequest:
            return
        member_id, code = request.member_id, Code.of(body.error_code)
        if code is Code.NONE:
            self._note_shown_epoch(request.group_id, body.member_epoch)
            if body.member_epoch > 0 and member_id not in self._removed:
                self._acknowledged_epochs[member_id] = body.member_epoch
            if request.member_epoch >= 0:
                self._last_heartbeat_ms[member_id] = max(self._last_heartbeat_ms.get(member_id, 0), pending.since_ms)
        elif code in FENCING_CODES and request.member_epoch > 0:
            self._check_fenced(request, code)

    def _note_shown_epoch(self, group_id: str, epoch: int) -> None:
        self._max_shown_epoch[group_id] = max(self._max_shown_epoch.get(group_id, 0), epoch)

    def before_crash(self) -> None:
        """The broker is about to lose its memory: what it knows is what its log says."""
        self._replays.check(self._node_shards())
        self._replays.check_compacted(self._node_shards())

    def answer_received(self, application: Application, epoch: int, code: Code) -> None:
        """An application's member has an answer in its hands."""
        member_id = application.member.view().member_id
        self._heartbeats_since_answer[member_id] = 0
        if code is not Code.NONE or epoch < 0:
            return
        self._answer_times_ms.setdefault(member_id, deque(maxlen=ANSWERS_TO_BE_SURE)).append(self._mono_ms())
        incarnation = application.member.view().incarnation
        before = self._epochs_received.get(member_id)
        if before is not None and before[0] == incarnation and epoch < before[1]:
            raise LawBroken("epochs-never-back", f"{member_id} was told epoch {before[1]}, and then {epoch}.")
        self._epochs_received[member_id] = (incarnation, epoch)

    def member_joined(self, application: Application) -> None:
        """A classic member has heard that it is in its group. If it had been put out, it cannot know before."""
        self._removed.pop(application.member.view().member_id, None)
        group = self._group_or_none(application.group)
        if isinstance(group, ConsumerGroup):
            self._check_in_use(group, application)

    def ownership_changed(self, application: Application) -> None:
        """An owner uses other places than before."""
        self._in_use_changed_ms[application.member.view().member_id] = self._mono_ms()
        self.counters.ownership_changed(application.group, self.applications.values())
        group = self._group_or_none(application.group)
        if isinstance(group, ClassicGroup):
            self.classic_groups.check_exclusive_use(group, self.applications.values())
        elif group is not None:
            self._check_in_use(group, application)

    # groups

    def _check_groups(self, event: Any) -> None:
        """Groups whose log has grown are as the laws want them."""
        for partition, shard in self._node_shards():
            end = partition.log.next_offset
            seen = self._seen_logs.get(partition.index)
            if seen is None or seen[0] is not shard or seen[1] != end:
                self._seen_logs[partition.index] = (shard, end)
                if seen is not None and seen[0] is not shard:
                    self._check_rebuilt([shard])  # the disk refused what it had written
                for group in shard.ledger.groups.values():
                    if isinstance(group, ConsumerGroup):
                        self._check_consumer_group(group, shard, event)
            for group in shard.ledger.groups.values():
                if isinstance(group, ClassicGroup):
                    self._check_classic_group(group)
                    self.classic_groups.check_silence(group, self._mono_ms(), shard.wake_at())

    def _check_consumer_group(self, group: ConsumerGroup, shard: Shard, event: Any) -> None:
        before = self._members.get(group.group_id, {})
        after = {name: self._snapshot(member, before.get(name)) for name, member in group.saved.members.items()}
        is_same = len(after) == len(before) and all(before.get(name) is now for name, now in after.items())
        is_retargeted = self._assignment_epochs.get(group.group_id) != group.saved.assignment_epoch
        if is_same and not is_retargeted and self._epochs.get(group.group_id) == group.saved.epoch:
            return
        if group.group_id not in self._members:
            self.classic_groups.forget(group.group_id)
        computed = (group.group_id, group.saved.assignment_epoch)
        if event is not None and is_retargeted:
            self._target_topics[computed] = shard.topics
        self._assignment_epochs[group.group_id] = group.saved.assignment_epoch
        topics = self._target_topics.get(computed, shard.topics)
        for law, check in GROUP_LAWS.items():
            for why in check(group, topics):
                raise LawBroken(law, f"group {group.group_id}: {why}")
        self._check_epochs(group, before, after)
        for name in before:
            if name not in after:
                self._check_removal(group, name, before[name], event)
                self._removed[name] = None
                self._acknowledged_epochs.pop(name, None)
        for name, now in after.items():
            if name not in before and not group.saved.members[name].is_classic:
                self._removed.pop(name, None)
            if before.get(name) is not now:
                self._check_subscribed(group, group.saved.members[name], shard.topics)
        self._members[group.group_id] = after
        epochs = group.saved.epoch - self._epochs.get(group.group_id, 0)
        self.counters.group_changed(group.group_id, epochs, group.has_converged())
        self._epochs[group.group_id] = group.saved.epoch
        for application in self.applications.values():
            if application.group == group.group_id:
                self._check_in_use(group, application)

    def _check_classic_group(self, group: ClassicGroup) -> None:
        """A classic group moves without a word in its log."""
        name = group.group_id
        if name in self._members:
            self._check_downgrade(group, self._epochs[name])
        if not self.classic_groups.has_changed(group):
            return
        assert self._broker is not None
        further = self.classic_groups.check_change(group, self._mono_ms(), self._broker.pending)
        self.counters.group_changed(name, further, group.live.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY))
        self.classic_groups.check_exclusive_use(group, self.applications.values())

    def _check_downgrade(self, group: ClassicGroup, epoch: int) -> None:
        """A consumer group has become a classic one, whose generations go on from its epochs if anybody is in it."""
        name = group.group_id
        before = self._members.pop(name)
        self._epochs.pop(name, None)
        self._assignment_epochs.pop(name, None)
        reached = max(epoch, self._max_shown_epoch.pop(name, 0))
        if not before or not group.live.members:
            self.classic_groups.forget(name)
        elif group.live.generation < reached:
            raise LawBroken("epochs-never-back", f"group {name} was at epoch {reached}, and is at {group.live.generation}.")
        for member_id in before:
            self._acknowledged_epochs.pop(member_id, None)
            if member_id not in group.live.members:
                self._removed[member_id] = None

    def _snapshot(self, member: ConsumerGroupMember, before: MemberSnapshot | None) -> MemberSnapshot:
        is_held = before is not None and before.has_hold_of(member)
        if before is not None and is_held and before.target is member.target and before.metadata is member.metadata:
            return before
        since_ms = before.since_ms if before is not None and is_held else self._mono_ms()
        held = (member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation)
        return MemberSnapshot(*held, member.target, member.metadata, since_ms)

    def _check_epochs(
        self, group: ConsumerGroup, before: Mapping[str, MemberSnapshot], after: Mapping[str, MemberSnapshot]
    ) -> None:
        name, epoch = group.group_id, group.saved.epoch
        if epoch < self._max_shown_epoch.get(name, 0):
            raise LawBroken(
                "epochs-never-back", f"group {name} is at epoch {epoch}, but told {self._max_shown_epoch[name]} to somebody."
            )
        for member_id, now in after.items():
            old = before.get(member_id)
            if old is not None and now.epoch < old.epoch and now.epoch not in (AWAY, JOINING):
                raise LawBroken("epochs-never-back", f"{member_id} went from epoch {old.epoch} back to {now.epoch}.")

    def _check_acknowledged_epochs(self, group: ConsumerGroup, before: Mapping[str, MemberSnapshot]) -> None:
        """Of those who were members before, whoever was told an epoch is one still, at that epoch or a later one."""
        for name in before:
            on_step, member = self._acknowledged_epochs.get(name), group.saved.members.get(name)
            if on_step is None or (member is not None and (member.epoch >= on_step or member.epoch in (AWAY, JOINING))):
                continue
            left = "it is no member any more" if member is None else f"it is at {member.epoch}"
            raise LawBroken("durable", f"{name} was told epoch {on_step}, and now {left}.")

    def _check_removal(self, group: ConsumerGroup, member_id: str, last: MemberSnapshot, event: Any) -> None:
        """A member goes because it said so, because another took its place, or because it was silent or slow for long enough."""
        if type(event) is Arrived and removes_member(event.request, member_id, last):
            return
        scenario, now_ms = self.simulation.scenario, self._mono_ms()
        silent_ms = now_ms - self._last_heartbeat_ms.get(member_id, 0)
        if silent_ms >= scenario.session_ms:
            return
        if last.metadata.classic_member_metadata is not None and now_ms - last.since_ms >= scenario.rebalance_ms:
            return  # it was told to join again, or had joined and had to sync
        if last.state is MemberState.UNREVOKED and now_ms - last.since_ms >= scenario.rebalance_ms:
            if self._still_uses_revoked(group, member_id, last) or not self._has_reported_release(member_id, last):
                return
            raise LawBroken("gone-with-cause", f"{member_id} was dismissed for partitions that it has long let go.")
        raise LawBroken("gone-with-cause", f"{member_id} was dismissed after {silent_ms} ms, in state {last.state.name}.")

    def _still_uses_revoked(self, group: ConsumerGroup, member_id: str, last: MemberSnapshot) -> bool:
        """The member's owner has not let go of all that the member is to give up, or is no more."""
        ids = group.saved.units.ids
        owed = dict.fromkeys((ids[unit >> SHIFT], unit & PARTITION) for unit in last.pending_revocation.units.tolist())
        for each in self.applications.values():
            if each.is_up and each.group == group.group_id and each.member.view().member_id == member_id:
                held = [
                    *each.member.view().owned,
                    *((topic_partition.topic_id, topic_partition.partition) for topic_partition in each.in_use.partitions),
                ]
                return any(tuple(topic_partition) in owed for topic_partition in held)
        return True  # its process is dead

    def _has_reported_release(self, member_id: str, last: MemberSnapshot) -> bool:
        """Heartbeats of the member were answered after it had to let go, and after it had: so one of them carried the news."""
        answer_times = self._answer_times_ms.get(member_id)
        return (
            answer_times is not None
            and len(answer_times) == ANSWERS_TO_BE_SURE
            and answer_times[0] > max(last.since_ms, self._in_use_changed_ms.get(member_id, 0))
        )

    def _check_fenced(self, request: ConsumerGroupHeartbeatRequest, code: Code) -> None:
        """A member that lost one answer at the most, and was not dismissed, is not fenced."""
        member_id = request.member_id
        if (
            member_id not in self._removed
            and self._heartbeats_since_answer.get(member_id, 0) <= 2
            and member_id in self._epochs_received
        ):
            raise LawBroken("fenced-with-cause", f"{member_id} at epoch {request.member_epoch} was answered {code.name}.")

    def _check_subscribed(self, group: ConsumerGroup, member: ConsumerGroupMember, topics: Topics) -> None:
        """Nobody may use a topic that it does not want, as far as it has said."""
        ids, wanted = group.saved.units.ids, member.metadata.subscribed_topic_names
        for number in dict.fromkeys((member.assigned.units >> SHIFT).tolist()):
            topic = topics.with_id(ids[number])
            if topic is not None and topic.name not in wanted:
                raise LawBroken("subscribed-only", f"{member.member_id} wants {', '.join(wanted)} and has {topic.name}.")

    # hands

    def _check_in_use(self, group: ConsumerGroup, application: Application) -> None:
        """What the owner of a live member uses is the member's: nobody else can have it.

        A member that was dismissed may not know it yet: what such an owner does, the sink and the coordinator refuse.
        """
        incarnation, topic_partitions = application.in_use
        if not topic_partitions or not application.is_up:
            return
        view = application.member.view()
        member_id = view.member_id
        if incarnation != view.incarnation or member_id in self._removed or view.epoch <= 0:
            return
        saved, topics = group.saved, self._topics()
        if member_id not in saved.members:
            return
        for topic_partition in topic_partitions:
            holder = saved.owners.owner_or_none(saved.units.unit(topic_partition.topic_id, topic_partition.partition))
            if holder != member_id and not (
                application.uses_classic_protocol and may_mean_deleted_topic(group, member_id, topic_partition, topics)
            ):
                raise LawBroken(
                    "no-two-hands", f"{member_id} uses {topic_partition}, which the group says {holder or 'nobody'} has."
                )

    # what is looked at

    def _check_recovered(self) -> None:
        """A new life of the broker: its shards know what their logs say."""
        self._seen_logs.clear()
        self._replays.forget()
        self._check_rebuilt(self._shards())

    def _check_rebuilt(self, shards: list[Shard]) -> None:
        """These shards were made anew: every timer begins again, and what somebody was shown is still so."""
        now_ms = self._mono_ms()
        self.shard_rebuilds += 1
        for shard in shards:
            classic = [group for group in shard.ledger.groups.values() if isinstance(group, ClassicGroup)]
            for restored in classic:
                if restored.group_id in self._members:
                    self._check_downgrade(restored, 0)  # what was written last is lost with the conversion, or was never shown
            self.classic_groups.check_recovered(classic, now_ms)
            for group in (group for group in shard.ledger.groups.values() if isinstance(group, ConsumerGroup)):
                before = self._members.get(group.group_id, {})
                self._check_acknowledged_epochs(group, before)
                self._members[group.group_id] = {name: self._snapshot(member, None) for name, member in group.saved.members.items()}
                self._removed.update(dict.fromkeys(name for name in before if name not in group.saved.members))
                for name in group.saved.members:
                    self._removed.pop(name, None)  # its dismissal was lost
                self._epochs[group.group_id] = group.saved.epoch
                self._assignment_epochs[group.group_id] = group.saved.assignment_epoch
                self._last_heartbeat_ms.update(dict.fromkeys(group.saved.members, now_ms))
                self._check_epochs(group, {}, {})
        for group_id in [known for known in self._members if self._group_or_none(known) is None]:
            if group_id in self._max_shown_epoch:
                raise LawBroken(
                    "epochs-never-back", f"group {group_id} is no more; somebody was told {self._max_shown_epoch[group_id]} of it."
                )
            self._removed.update(dict.fromkeys(self._members.pop(group_id)))  # nobody ever heard of it
            self._epochs.pop(group_id, None)
            self._assignment_epochs.pop(group_id, None)
        assert self._broker is not None
        assert self._broker.node is not None
        self.offsets.check_recovered(self._shards(), self._broker.node)

    def _mono_ms(self) -> int:
        assert self._broker is not None
        return self._broker.mono_ms()

    def _topics(self) -> Topics:
        assert self._broker is not None
        assert self._broker.node is not None
        return self._broker.node.topics

    def _node_shards(self) -> Iterable[tuple[Any, Shard]]:
        assert self._broker is not None
        return () if self._broker.node is None else self._broker.node.shards()

    def _shards(self) -> list[Shard]:
        return [shard for _, shard in self._node_shards()]

    def parked(self) -> set[Ticket]:
        """The requests that wait for other members of their group, and not for the broker."""
        groups = (group for shard in self._shards() for group in shard.ledger.groups.values())
        return {ticket for group in groups if isinstance(group, ClassicGroup) for ticket in parked_tickets(group)}

    def _group_or_none(self, group_id: str) -> ConsumerGroup | ClassicGroup | None:
        for _, shard in self._node_shards():
            group = shard.ledger.groups.get(group_id)
            if group is not None:
                return group
        return None
