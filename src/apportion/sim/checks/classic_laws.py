"""Checks classic groups from step to step: generations, assignments, removals, exclusive use.

The checks share no code with the checks of consumer groups. A generation that was joined but never
synced is in no record, so after a crash its number may come again: only synced generations must
have different numbers. All times are of the broker's monotonic clock.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from apportion.coord.classic.state import ClassicGroup
from apportion.errors import Code
from apportion.machine import Arrived, Ticket
from apportion.sim.checks.member_snapshot import restarts_classic_session
from apportion.sim.checks.stickiness import needless_moves
from apportion.sim.checks.subscriptions import (
    NamePartition,
    assigned_partitions,
    decode_subscription,
)
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.observer import PartitionOwner
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition, Topics
from apportion.wire.group_states import GroupState
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.sync_group import SyncGroupRequest
from apportion.wire.records.groups import GroupMetadataValue

MEMBER_REQUESTS = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest)
"""Requests that show that a member is alive."""
STABLE = GroupState.STABLE
ROUNDING_MS = 2  # deadlines begin at a whole millisecond


class ClassicGroupSnapshot(NamedTuple):
    """A classic group at its last check. since_ms: when its state or generation last changed."""

    saved: GroupMetadataValue | None
    state: GroupState
    generation: int
    members: Mapping[str, int]  # -> session timeout
    waiting: Mapping[str, Ticket]  # members whose JoinGroup or SyncGroup waits
    statics: Mapping[str, str]  # instance -> member
    rebalance_timeout_ms: int  # the longest rebalance timeout
    since_ms: int


class ClassicGroupChecker:
    """The history of the classic groups of one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._snapshots: dict[str, ClassicGroupSnapshot] = {}
        # member -> when the broker last answered it, on its clock
        self._last_answer_ms: dict[str, int] = {}
        # member -> when it last sent a request, answered or not: its session may have begun anew
        self._last_request_ms: dict[str, int] = {}
        # group -> the newest generation in which a SyncGroup was answered
        self._max_synced_generation: dict[str, int] = {}
        self._leaving: dict[str, None] = {}  # members that sent LeaveGroup

    def before_step(self, event: Any, now_ms: int) -> None:
        """Note which member of a classic group leaves, or shows that it is alive, by `event`."""
        if type(event) is not Arrived:
            return
        if type(event.request) is LeaveGroupRequest:
            self._leaving.update(dict.fromkeys(each.member_id for each in event.request.members))
        elif type(event.request) in MEMBER_REQUESTS:
            self._last_request_ms[event.request.member_id] = now_ms

    def reply_sent(self, request: Any, body: Any, received_ms: int) -> None:
        """Note a reply: the member's session began anew when its request came, or later.

        As in Kafka, these requests do not restart a session: a SyncGroup while the group prepares a
        rebalance, and a JoinGroup that is answered at once because it changes nothing. The sessions
        of members that waited for a generation restart with it. A request that names a generation
        which a crash of the broker has lost restarts the session of its member.
        """
        if type(request) is JoinGroupRequest:
            return
        if restarts_classic_session(request, body.error_code) or (
            body.error_code == Code.REBALANCE_IN_PROGRESS and self._names_lost_generation(request)
        ):
            self._last_answer_ms[request.member_id] = max(
                self._last_answer_ms.get(request.member_id, 0), received_ms
            )
        if type(request) is SyncGroupRequest and body.error_code == Code.NONE:
            self._max_synced_generation[request.group_id] = max(
                self._max_synced_generation.get(request.group_id, 0), request.generation_id
            )

    def _names_lost_generation(self, request: SyncGroupRequest | HeartbeatRequest) -> bool:
        """Return whether a request names a later generation than the group has."""
        snapshot = self._snapshots.get(request.group_id)
        return snapshot is not None and request.generation_id > snapshot.generation

    def has_changed(self, group: ClassicGroup) -> bool:
        """Return whether the classic group has changed since its last check in this simulation.

        The saved state is replaced and never changed, so its identity tells.
        """
        snapshot, live = self._snapshots.get(group.group_id), group.live
        return (
            snapshot is None
            or snapshot.saved is not group.saved
            or snapshot.state is not live.state
            or snapshot.generation != live.generation
            or list(snapshot.members) != list(live.members)
            or len(snapshot.waiting) != len(live.parked)
        )

    def check_recovered(
        self, groups: Iterable[ClassicGroup], now_ms: int, *, is_start: bool
    ) -> None:
        """Check the classic groups that a broker has loaded from the coordinator's log.

        No group may have a generation below one whose SyncGroup was answered. is_start: of the
        broker, with which every member's session begins anew; otherwise it may.
        """
        for group in groups:
            self._check_generation(group, self._max_synced_generation.get(group.group_id, 0))
            self._snapshots[group.group_id] = self._snapshot(group, None, now_ms)
            if is_start:
                # As in Kafka: who loads a group cannot know how long its members were silent.
                self._restart_sessions(group.live.members, now_ms)
            else:
                self._last_request_ms.update(dict.fromkeys(group.live.members, now_ms))

    def forget(self, group_id: str) -> None:
        """Forget a group that is no longer a classic one."""
        self._snapshots.pop(group_id, None)
        self._max_synced_generation.pop(group_id, None)

    def forget_lost(self, is_lost: Callable[[str], bool]) -> None:
        """Forget the snapshots of the groups that a restarted broker did not find in its log.

        As in Kafka, a group is first saved when its leader has assigned, so nobody dismissed its
        members. The generations that replies have shown stay known.
        """
        for group_id in [known for known in self._snapshots if is_lost(known)]:
            self.forget_sessions(group_id)

    def forget_sessions(self, group_id: str) -> None:
        """Forget the snapshot of a group that a crash or a lost flush took, or made another kind.

        How long its members were silent does not matter any more. Its generations stay known, as
        replies may have shown them.
        """
        self._snapshots.pop(group_id, None)

    def check_change(self, group: ClassicGroup, now_ms: int, unanswered: Container[Ticket]) -> int:
        """Check the classic group after a change; return how far its generation went up.

        unanswered: the tickets of requests without a reply.
        """
        before = self._snapshots.get(group.group_id)
        if before is None:
            self._restart_sessions(group.live.members, now_ms)  # it was a consumer group before
        now = self._snapshots[group.group_id] = self._snapshot(group, before, now_ms)
        if before is not None:
            self._restart_sessions((name for name in before.waiting if name in now.members), now_ms)
            self._last_request_ms.update(
                dict.fromkeys((name for name in now.members if name not in before.members), now_ms)
            )
        if before is None or now.saved is not before.saved:
            known = 0 if before is None or before.saved is None else before.saved.generation
            self._check_generation(
                group, max(known, self._max_synced_generation.get(group.group_id, 0))
            )
            self._check_assignment(
                group, before is not None and before.state is GroupState.COMPLETING_REBALANCE
            )
        if (
            before is not None
            and before.state is GroupState.COMPLETING_REBALANCE
            and now.state is STABLE
        ):
            self._check_moves(group)
        if before is not None and now.members != before.members:
            self._check_removal(group, before, now, now_ms=now_ms, unanswered=unanswered)
        return 0 if before is None else now.generation - before.generation

    def check_silence(self, group: ClassicGroup, now_ms: int, due_ms: int | None) -> None:
        """Check that no member of a stable group outlives its session timeout.

        due_ms: the coordinator's next deadline; while one is due, expired members may still be
        there.
        """
        # Timers are checked by the next Tick, which may come a moment after the deadline.
        if due_ms is not None and due_ms <= now_ms:
            return
        since_ms = self._snapshots[group.group_id].since_ms
        for name, member in group.live.members.items():
            silent_ms = now_ms - max(since_ms, self._last_request_ms.get(name, 0))
            if (
                group.live.state is STABLE
                and name not in group.live.parked
                and silent_ms >= member.session_timeout_ms
            ):
                raise LawBroken(
                    "gone-in-time",
                    f"group {group.group_id}: {name} is still a member after {silent_ms} "
                    "ms of silence.",
                )

    def _restart_sessions(self, members: Iterable[str], now_ms: int) -> None:
        """Note that the session timeouts of these classic members begin anew now."""
        for name in members:
            self._last_answer_ms[name] = self._last_request_ms[name] = now_ms

    def _snapshot(
        self, group: ClassicGroup, before: ClassicGroupSnapshot | None, now_ms: int
    ) -> ClassicGroupSnapshot:
        """Return a snapshot of the classic group, to compare with at its next check.

        before: the last snapshot; the time of the last change goes on if state and generation are
        the same, or if the group has just become stable.
        """
        live = group.live
        members = {name: member.session_timeout_ms for name, member in live.members.items()}
        is_same = (
            before is not None
            and before.generation == live.generation
            and (live.state is before.state or live.state is STABLE)
        )
        since_ms = before.since_ms if before is not None and is_same else now_ms
        rebalance_timeout_ms = max(
            (member.rebalance_timeout_ms for member in live.members.values()), default=0
        )
        return ClassicGroupSnapshot(
            group.saved,
            live.state,
            live.generation,
            members,
            dict(live.parked),
            dict(live.instances),
            rebalance_timeout_ms,
            since_ms,
        )

    def _check_generation(self, group: ClassicGroup, known: int) -> None:
        """Check that a classic group's generation is not below one whose SyncGroup was answered."""
        generation = 0 if group.saved is None else group.saved.generation
        if generation < known:
            raise LawBroken(
                "epochs-never-back",
                f"group {group.group_id} was at generation {known}, and is at {generation}.",
            )

    def _check_assignment(self, group: ClassicGroup, is_new: bool) -> None:
        """Check that no partition is assigned twice, and that members subscribe to their topics.

        is_new: the leader has just assigned. Otherwise a static member that came back with another
        subscription may still have the assignment of its predecessor, until the next rebalance.
        """
        assert group.saved is not None
        owner: dict[NamePartition, str] = {}
        for member in group.saved.members:
            subscribed = decode_subscription(member).topics
            for topic, partition in assigned_partitions(member):
                if is_new and topic not in subscribed:
                    raise LawBroken(
                        "subscribed-only",
                        f"{member.member_id} wants {', '.join(subscribed)} and has {topic}.",
                    )
                if (topic, partition) in owner:
                    why = (
                        f"{topic}-{partition} is given to {owner[topic, partition]} and to "
                        f"{member.member_id}."
                    )
                    raise LawBroken(
                        "one-holder",
                        f"group {group.group_id}, generation {group.saved.generation}: {why}",
                    )
                owner[topic, partition] = member.member_id

    def _check_moves(self, group: ClassicGroup) -> None:
        """Check that a sticky leader moved no partition without need."""
        assert group.saved is not None
        for why in needless_moves(group.saved):
            raise LawBroken(
                "moves-with-cause",
                f"group {group.group_id}, generation {group.saved.generation}: {why}",
            )

    def _check_removal(
        self,
        group: ClassicGroup,
        before: ClassicGroupSnapshot,
        now: ClassicGroupSnapshot,
        *,
        now_ms: int,
        unanswered: Container[Ticket],
    ) -> None:
        """Check that each removed member left, was replaced, or exceeded a timeout.

        The timeout is that of its session or of the rebalance. A member whose JoinGroup or
        SyncGroup is parked is neither silent nor late.
        """
        for name, session_ms in before.members.items():
            if name in now.members or name in self._leaving:
                continue
            if any(
                was == name and instance in now.statics for instance, was in before.statics.items()
            ):
                continue
            silent_ms = now_ms - self._last_answer_ms.get(name, 0)
            late_ms = now_ms - before.since_ms
            is_waiting = name in before.waiting and before.waiting[name] in unanswered
            if not is_waiting and (
                silent_ms >= session_ms - ROUNDING_MS
                or late_ms >= before.rebalance_timeout_ms - ROUNDING_MS
            ):
                continue
            why = (
                f"{name} was dismissed from {before.state.name} after {silent_ms} ms of "
                f"silence and {late_ms} ms of waiting."
            )
            raise LawBroken("gone-with-cause", f"group {group.group_id}: {why}")

    # use of partitions

    def check_exclusive_use(
        self, group: ClassicGroup, applications: Iterable[PartitionOwner]
    ) -> None:
        """Check that no two members of the newest synced generation use one partition.

        A member of an older generation (a static member that did not rejoin, or one that was
        removed) may not have learned of the newest one. The sink's fences and the coordinator
        refuse its owner's writes and commits.
        """
        newest = 0 if group.saved is None else group.saved.generation
        owner: dict[TopicIdPartition, str] = {}
        for each in applications:
            incarnation, topic_partitions = each.in_use
            if not topic_partitions or not each.is_up or each.group != group.group_id:
                continue
            view = each.member.view()
            if (
                incarnation != view.incarnation
                or view.epoch < newest
                or view.member_id not in group.live.members
            ):
                continue
            for topic_partition in topic_partitions:
                if topic_partition in owner:
                    raise LawBroken(
                        "no-two-hands",
                        f"{view.member_id} uses {topic_partition}, which "
                        f"{owner[topic_partition]} uses, too.",
                    )
                owner[topic_partition] = view.member_id


def parked_tickets(group: ClassicGroup) -> Iterator[Ticket]:
    """Return the tickets of the group's JoinGroup and SyncGroup requests that wait for members."""
    yield from group.live.parked.values()


def unconverged(group: ClassicGroup, topics: Topics) -> Iterator[str]:
    """Yield a sentence for each reason why a classic group has not converged.

    A group has converged if it is stable and every subscribed partition is assigned.
    """
    if (
        group.live.state is not GroupState.STABLE
        or group.saved is None
        or group.saved.generation != group.live.generation
    ):
        yield f"group {group.group_id} is {group.live.state.name}"
        return
    assigned = dict.fromkeys(
        partition for member in group.saved.members for partition in assigned_partitions(member)
    )
    subscribed = dict.fromkeys(
        topic for member in group.saved.members for topic in decode_subscription(member).topics
    )
    for topic in filter(None, map(topics.named, subscribed)):
        for partition in range(topic.partitions):
            if (topic.name, partition) not in assigned:
                yield f"{topic.name}-{partition} is given to nobody in {group.group_id}"
