"""Looks on, and raises LawBroken at the first step after which a law does not hold. It changes nothing.

A law is a function of state that changes in few places, so it is asked where that state has changed: a group's laws after a step
that wrote to its log, hands when a hand or a group changed, offsets when one was committed. What was true before is still true.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic.state import ClassicGroupState as Standing
from apportion.coord.consumer.beat import AWAY, JOINING
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.units import PARTITION, SHIFT
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Arrived, Ticket
from apportion.sim.actors.broker import Asked, Broker
from apportion.sim.actors.member import Application
from apportion.sim.actors.sink import Sink
from apportion.sim.checks.classic_laws import Generations, parked
from apportion.sim.checks.consumer_laws import GROUP_LAWS
from apportion.sim.checks.departures import Looked, has_namesake, was_asked
from apportion.sim.checks.figures import History
from apportion.sim.checks.offset_laws import Offsets
from apportion.sim.checks.replay import Replays
from apportion.sim.kernel.clock import World
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import Topics
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.heartbeat import HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.sync_group import SyncGroupResponse

OF_CLASSIC = (JoinGroupResponse, SyncGroupResponse, HeartbeatResponse)
FENCED = (Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND)
REPLAYED_EVERY = 500  # steps
SURELY_SAID = 3  # answers: the first may be to a heartbeat of before, the second to one that was under way


class Watch:
    """Everything that was seen of one world. `applications` is filled by whoever makes them."""

    def __init__(self, world: World, sinks: Mapping[str, Sink]) -> None:
        self.world = world
        self.applications: dict[str, Application] = {}
        self.rebuilt = 0  # how often shards were made anew
        self.history = History(world)
        self.offsets = Offsets(sinks)
        self.generations = Generations(world)
        self._broker: Broker | None = None
        self._replays = Replays(world)
        self._seen_logs: dict[int, tuple[Shard, int]] = {}
        self._members: dict[str, dict[str, Looked]] = {}
        self._epochs: dict[str, int] = {}
        self._assignment_epochs: dict[str, int] = {}
        self._computed_from: dict[tuple[str, int], Topics] = {}  # group and assignment epoch -> the topics of that moment
        self._shown: dict[str, int] = {}  # group -> the highest epoch that anybody was told
        self._heard_at: dict[str, int] = {}  # member -> when the broker last accepted a heartbeat of it, on its clock
        self._processed: dict[str, int] = {}  # member -> its heartbeats that the broker has worked off since it last heard anything
        self._gone: dict[str, None] = {}  # members that the coordinator dismissed, or let be replaced
        self._seated: dict[str, int] = {}  # member -> the last epoch that the broker told it, since it is a member
        self._answered_at: dict[str, deque[int]] = {}  # member -> when it heard its last answers, on the broker's clock
        self._changed_at: dict[str, int] = {}  # member -> when its owner last changed what it uses, on the broker's clock
        self._told: dict[str, tuple[int, int]] = {}  # member -> life, and the last epoch that it heard in it

    def looks_at(self, broker: Broker) -> None:
        """This is the broker of the world."""
        self._broker = broker

    # what the broker does

    def before(self, event: Any) -> None:
        """The broker is about to step over `event`."""
        self.generations.before(event, self._mono_ms())
        if type(event) is Arrived and type(event.request) is OffsetCommitRequest:
            self.offsets.before(self._shards(), event.request)

    def stepped(self, event: Any) -> None:
        """The broker has stepped over `event`; None is its start."""
        if event is None:
            self._recovered()
        if type(event) is Arrived:
            request = event.request
            if type(request) is ConsumerGroupHeartbeatRequest:
                self._processed[request.member_id] = self._processed.get(request.member_id, 0) + 1
            elif type(request) is OffsetCommitRequest:
                self.offsets.after(self._shards(), request)
        self._look(event)
        if self.world.steps // REPLAYED_EVERY != self._replays.checked_at // REPLAYED_EVERY:
            self._replays.check(self._node_shards())

    def answers(self, asked: Asked, body: Any) -> None:
        """The broker lets an answer go: from now on it has been seen."""
        request = asked.request
        if body.__class__ in OF_CLASSIC:
            self.generations.answers(request, body, asked.since_ms)
            if body.error_code in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
                self._heard_at[request.member_id] = max(self._heard_at.get(request.member_id, 0), asked.since_ms)
        self.offsets.answered(self._topics(), request, body)
        if type(request) is ConsumerGroupDescribeRequest:
            for described in body.groups:
                if described.error_code == Code.NONE:
                    self._show(described.group_id, described.group_epoch)
        if type(request) is not ConsumerGroupHeartbeatRequest:
            return
        member_id, code = request.member_id, Code.of(body.error_code)
        if code is Code.NONE:
            self._show(request.group_id, body.member_epoch)
            if body.member_epoch > 0 and member_id not in self._gone:
                self._seated[member_id] = body.member_epoch
            if request.member_epoch >= 0:
                self._heard_at[member_id] = max(self._heard_at.get(member_id, 0), asked.since_ms)
        elif code in FENCED and request.member_epoch > 0:
            self._check_fenced(request, code)

    def _show(self, group_id: str, epoch: int) -> None:
        self._shown[group_id] = max(self._shown.get(group_id, 0), epoch)

    def crashing(self) -> None:
        """The broker is about to lose its memory: what it knows is what its log says."""
        self._replays.check(self._node_shards())
        self._replays.check_compacted(self._node_shards())

    def hears(self, application: Application, epoch: int, code: Code) -> None:
        """An application's member has an answer in its hands."""
        member_id = application.member.view().member_id
        self._processed[member_id] = 0
        if code is not Code.NONE or epoch < 0:
            return
        self._answered_at.setdefault(member_id, deque(maxlen=SURELY_SAID)).append(self._mono_ms())
        life = application.member.view().incarnation
        before = self._told.get(member_id)
        if before is not None and before[0] == life and epoch < before[1]:
            raise LawBroken("epochs-never-back", f"{member_id} was told epoch {before[1]}, and then {epoch}.")
        self._told[member_id] = (life, epoch)

    def taken_in(self, application: Application) -> None:
        """A classic member has heard that it is in its group. If it had been put out, it cannot know before."""
        self._gone.pop(application.member.view().member_id, None)
        group = self._group_or_none(application.group)
        if isinstance(group, ConsumerGroup):
            self._check_hand(group, application)

    def hand_changed(self, application: Application) -> None:
        """An owner uses other places than before."""
        self._changed_at[application.member.view().member_id] = self._mono_ms()
        self.history.hand_changed(application.group, self.applications.values())
        group = self._group_or_none(application.group)
        if isinstance(group, ClassicGroup):
            self.generations.check_hands(group, self.applications.values())
        elif group is not None:
            self._check_hand(group, application)

    # groups

    def _look(self, event: Any) -> None:
        """Groups whose log has grown are as the laws want them."""
        for partition, shard in self._node_shards():
            end = partition.log.next_offset
            seen = self._seen_logs.get(partition.index)
            if seen is None or seen[0] is not shard or seen[1] != end:
                self._seen_logs[partition.index] = (shard, end)
                if seen is not None and seen[0] is not shard:
                    self._rebuilt([shard])  # the disk refused what it had written
                for group in shard.ledger.groups.values():
                    if isinstance(group, ConsumerGroup):
                        self._look_at(group, shard, event)
            for group in shard.ledger.groups.values():
                if isinstance(group, ClassicGroup):
                    self._look_at_classic(group)
                    self.generations.check_silence(group, self._mono_ms(), shard.wake_at())

    def _look_at(self, group: ConsumerGroup, shard: Shard, event: Any) -> None:
        before = self._members.get(group.group_id, {})
        after = {name: self._looked(member, before.get(name)) for name, member in group.saved.members.items()}
        is_same = len(after) == len(before) and all(before.get(name) is now for name, now in after.items())
        is_retargeted = self._assignment_epochs.get(group.group_id) != group.saved.assignment_epoch
        if is_same and not is_retargeted and self._epochs.get(group.group_id) == group.saved.epoch:
            return
        if group.group_id not in self._members:
            self.generations.forget(group.group_id)
        computed = (group.group_id, group.saved.assignment_epoch)
        if event is not None and is_retargeted:
            self._computed_from[computed] = shard.topics
        self._assignment_epochs[group.group_id] = group.saved.assignment_epoch
        topics = self._computed_from.get(computed, shard.topics)
        for law, check in GROUP_LAWS.items():
            for why in check(group, topics):
                raise LawBroken(law, f"group {group.group_id}: {why}")
        self._check_epochs(group, before, after)
        for name in before:
            if name not in after:
                self._check_gone(group, name, before[name], event)
                self._gone[name] = None
                self._seated.pop(name, None)
        for name, now in after.items():
            if name not in before and not group.saved.members[name].is_classic:
                self._gone.pop(name, None)
            if before.get(name) is not now:
                self._check_subscribed(group, group.saved.members[name], shard.topics)
        self._members[group.group_id] = after
        epochs = group.saved.epoch - self._epochs.get(group.group_id, 0)
        self.history.group_changed(group.group_id, epochs, group.has_converged())
        self._epochs[group.group_id] = group.saved.epoch
        for application in self.applications.values():
            if application.group == group.group_id:
                self._check_hand(group, application)

    def _look_at_classic(self, group: ClassicGroup) -> None:
        """A classic group moves without a word in its log."""
        name = group.group_id
        if name in self._members:
            self._converted(group, self._epochs[name])
        if not self.generations.has_changed(group):
            return
        assert self._broker is not None
        further = self.generations.look_at(group, self._mono_ms(), self._broker.asked)
        self.history.group_changed(name, further, group.live.state in (Standing.STABLE, Standing.EMPTY))
        self.generations.check_hands(group, self.applications.values())

    def _converted(self, group: ClassicGroup, epoch: int) -> None:
        """A consumer group has become a classic one, whose generations go on from its epochs if anybody is in it."""
        name = group.group_id
        before = self._members.pop(name)
        self._epochs.pop(name, None)
        self._assignment_epochs.pop(name, None)
        reached = max(epoch, self._shown.pop(name, 0))
        if not before or not group.live.members:
            self.generations.forget(name)
        elif group.live.generation < reached:
            raise LawBroken("epochs-never-back", f"group {name} was at epoch {reached}, and is at {group.live.generation}.")
        for member_id in before:
            self._seated.pop(member_id, None)
            if member_id not in group.live.members:
                self._gone[member_id] = None

    def _looked(self, member: ConsumerGroupMember, before: Looked | None) -> Looked:
        is_held = before is not None and before.has_hold_of(member)
        if before is not None and is_held and before.target is member.target and before.said is member.metadata:
            return before
        since_ms = before.since_ms if before is not None and is_held else self._mono_ms()
        held = (member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation)
        return Looked(*held, member.target, member.metadata, since_ms)

    def _check_epochs(self, group: ConsumerGroup, before: Mapping[str, Looked], after: Mapping[str, Looked]) -> None:
        name, epoch = group.group_id, group.saved.epoch
        if epoch < self._shown.get(name, 0):
            raise LawBroken("epochs-never-back", f"group {name} is at epoch {epoch}, but told {self._shown[name]} to somebody.")
        for member_id, now in after.items():
            old = before.get(member_id)
            if old is not None and now.epoch < old.epoch and now.epoch not in (AWAY, JOINING):
                raise LawBroken("epochs-never-back", f"{member_id} went from epoch {old.epoch} back to {now.epoch}.")

    def _check_seats(self, group: ConsumerGroup, before: Mapping[str, Looked]) -> None:
        """Of those who were members before, whoever was told an epoch is one still, at that epoch or a later one."""
        for name in before:
            told, member = self._seated.get(name), group.saved.members.get(name)
            if told is None or (member is not None and (member.epoch >= told or member.epoch in (AWAY, JOINING))):
                continue
            left = "it is no member any more" if member is None else f"it is at {member.epoch}"
            raise LawBroken("durable", f"{name} was told epoch {told}, and now {left}.")

    def _check_gone(self, group: ConsumerGroup, member_id: str, last: Looked, event: Any) -> None:
        """A member goes because it said so, because another took its place, or because it was silent or slow for long enough."""
        if type(event) is Arrived and was_asked(event.request, member_id, last):
            return
        scenario, now_ms = self.world.scenario, self._mono_ms()
        silent_ms = now_ms - self._heard_at.get(member_id, 0)
        if silent_ms >= scenario.session_ms:
            return
        if last.said.classic_member_metadata is not None and now_ms - last.since_ms >= scenario.rebalance_ms:
            return  # it was told to join again, or had joined and had to sync
        if last.state is MemberState.UNREVOKED and now_ms - last.since_ms >= scenario.rebalance_ms:
            if self._uses(group, member_id, last) or not self._could_say_so(member_id, last):
                return
            raise LawBroken("gone-with-cause", f"{member_id} was dismissed for partitions that it has long let go.")
        raise LawBroken("gone-with-cause", f"{member_id} was dismissed after {silent_ms} ms, in state {last.state.name}.")

    def _uses(self, group: ConsumerGroup, member_id: str, last: Looked) -> bool:
        """The member's owner has not let go of all that the member is to give up, or is no more."""
        ids = group.saved.units.ids
        owed = dict.fromkeys((ids[unit >> SHIFT], unit & PARTITION) for unit in last.revoking.units.tolist())
        for each in self.applications.values():
            if each.is_up and each.group == group.group_id and each.member.view().member_id == member_id:
                held = [*each.member.view().owned, *((place.topic_id, place.partition) for place in each.hand[1])]
                return any(tuple(place) in owed for place in held)
        return True  # its process is dead

    def _could_say_so(self, member_id: str, last: Looked) -> bool:
        """Heartbeats of the member were answered after it had to let go, and after it had: so one of them carried the news."""
        heard = self._answered_at.get(member_id)
        return heard is not None and len(heard) == SURELY_SAID and heard[0] > max(last.since_ms, self._changed_at.get(member_id, 0))

    def _check_fenced(self, request: ConsumerGroupHeartbeatRequest, code: Code) -> None:
        """A member that lost one answer at the most, and was not dismissed, is not fenced."""
        member_id = request.member_id
        if member_id not in self._gone and self._processed.get(member_id, 0) <= 2 and member_id in self._told:
            raise LawBroken("fenced-with-cause", f"{member_id} at epoch {request.member_epoch} was answered {code.name}.")

    def _check_subscribed(self, group: ConsumerGroup, member: ConsumerGroupMember, topics: Topics) -> None:
        """Nobody may use a topic that it does not want, as far as it has said."""
        ids, wanted = group.saved.units.ids, member.metadata.subscribed_topic_names
        for number in dict.fromkeys((member.assigned.units >> SHIFT).tolist()):
            topic = topics.with_id(ids[number])
            if topic is not None and topic.name not in wanted:
                raise LawBroken("subscribed-only", f"{member.member_id} wants {', '.join(wanted)} and has {topic.name}.")

    # hands

    def _check_hand(self, group: ConsumerGroup, application: Application) -> None:
        """What the owner of a live member uses is the member's: nobody else can have it.

        A member that was dismissed may not know it yet: what such an owner does, the sink and the coordinator refuse.
        """
        life, places = application.hand
        if not places or not application.is_up:
            return
        view = application.member.view()
        member_id = view.member_id
        if life != view.incarnation or member_id in self._gone or view.epoch <= 0:
            return
        saved, topics = group.saved, self._topics()
        if member_id not in saved.members:
            return
        for place in places:
            holder = saved.owners.owner_or_none(saved.units.unit(place.topic_id, place.partition))
            if holder != member_id and not (application.speaks_classic and has_namesake(group, member_id, place, topics)):
                raise LawBroken("no-two-hands", f"{member_id} uses {place}, which the group says {holder or 'nobody'} has.")

    # what is looked at

    def _recovered(self) -> None:
        """A new life of the broker: its shards know what their logs say."""
        self._seen_logs.clear()
        self._replays.forget()
        self._rebuilt(self._shards())

    def _rebuilt(self, shards: list[Shard]) -> None:
        """These shards were made anew: every timer begins again, and what somebody was shown is still so."""
        now_ms = self._mono_ms()
        self.rebuilt += 1
        for shard in shards:
            classic = [group for group in shard.ledger.groups.values() if isinstance(group, ClassicGroup)]
            for restored in classic:
                if restored.group_id in self._members:
                    self._converted(restored, 0)  # what was written last is lost with the conversion, or was never shown
            self.generations.recovered(classic, now_ms)
            for group in (group for group in shard.ledger.groups.values() if isinstance(group, ConsumerGroup)):
                before = self._members.get(group.group_id, {})
                self._check_seats(group, before)
                self._members[group.group_id] = {name: self._looked(member, None) for name, member in group.saved.members.items()}
                self._gone.update(dict.fromkeys(name for name in before if name not in group.saved.members))
                for name in group.saved.members:
                    self._gone.pop(name, None)  # its dismissal was lost
                self._epochs[group.group_id] = group.saved.epoch
                self._assignment_epochs[group.group_id] = group.saved.assignment_epoch
                self._heard_at.update(dict.fromkeys(group.saved.members, now_ms))
                self._check_epochs(group, {}, {})
        for group_id in [known for known in self._members if self._group_or_none(known) is None]:
            if group_id in self._shown:
                raise LawBroken(
                    "epochs-never-back", f"group {group_id} is no more; somebody was told {self._shown[group_id]} of it."
                )
            self._gone.update(dict.fromkeys(self._members.pop(group_id)))  # nobody ever heard of it
            self._epochs.pop(group_id, None)
            self._assignment_epochs.pop(group_id, None)
        assert self._broker is not None
        assert self._broker.node is not None
        self.offsets.recovered(self._shards(), self._broker.node)

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
        return {ticket for group in groups if isinstance(group, ClassicGroup) for ticket in parked(group)}

    def _group_or_none(self, group_id: str) -> ConsumerGroup | ClassicGroup | None:
        for _, shard in self._node_shards():
            group = shard.ledger.groups.get(group_id)
            if group is not None:
                return group
        return None
