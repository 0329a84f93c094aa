"""Checks consumer groups (KIP-848) from step to step: epochs, removals, fencing, exclusive use.

`consumer_laws.py` has the laws of one group at one moment. Here are those that need its history:
what the group was, which responses its members got, and which heartbeats were processed. All times
are of the broker's monotonic clock.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.consumer.beat import AWAY, JOINING
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup
from apportion.errors import Code
from apportion.machine import Arrived
from apportion.member.membership import SILENT, MembershipState
from apportion.sim.checks.consumer_laws import GROUP_LAWS
from apportion.sim.checks.installed_targets import InstalledTargetChecker
from apportion.sim.checks.member_snapshot import (
    MemberSnapshot,
    removes_member,
    snapshot_of,
)
from apportion.sim.checks.sessions import Sessions
from apportion.sim.checks.subscriptions import check_subscribed, kept_by_expression
from apportion.sim.checks.upgraded_members import UpgradedMembers
from apportion.sim.kernel.observer import PartitionOwner
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.kernel.scenario import Scenario
from apportion.topics import IdPartition, Topics
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

FENCING_CODES = (Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND)
LEFT = (*SILENT, MembershipState.LEAVING)  # states of a member that has left, or is about to
# Of three answers the first may be to an older heartbeat and the second to one under way: only the
# third shows that the coordinator has processed a heartbeat sent since.
ANSWERS_TO_BE_SURE = 3


class ReceivedAnswer(NamedTuple):
    """When a member received an answer, and what it owned or its owner used then."""

    received_ms: int
    in_use: tuple[IdPartition, ...]


class ConsumerGroupChecker:
    """The history of the consumer groups of one simulation."""

    def __init__(self, scenario: Scenario, owners: Mapping[str, PartitionOwner]) -> None:
        self._scenario = scenario
        self._owners = owners
        # by group
        self._members: dict[str, dict[str, MemberSnapshot]] = {}
        self._epochs: dict[str, int] = {}
        self._assignment_epochs: dict[str, int] = {}
        self._max_shown_epoch: dict[str, int] = {}  # the highest epoch in any reply
        self._began_ms: dict[str, int] = {}  # when it became a consumer group
        # by group and assignment epoch: the topics from which that target assignment was computed
        self._target_topics: dict[tuple[str, int], Topics] = {}
        # by member
        self._sessions = Sessions()
        # processed since the member last received an answer
        self._heartbeats_since_answer: dict[str, int] = {}
        self._answers: dict[str, deque[ReceivedAnswer]] = {}  # the last ones it received
        # the last epoch in a reply to it, while it is a member
        self._acknowledged_epochs: dict[str, int] = {}
        # its incarnation, and the last epoch received in it
        self._epochs_received: dict[str, tuple[int, int]] = {}
        self._upgraded = UpgradedMembers()
        self.installs = InstalledTargetChecker()
        # members that were removed or replaced, and may not know it
        self._removed: dict[str, None] = {}

    def is_known(self, group_id: str) -> bool:
        """Return whether the group was a consumer group when it was last checked."""
        return group_id in self._members

    # replies and answers

    def heartbeat_processed(self, member_id: str, session_ms: int) -> None:
        """Count a heartbeat that was processed while the group had that session timeout."""
        self._sessions.heartbeat_processed(member_id, session_ms)
        self._heartbeats_since_answer[member_id] = (
            self._heartbeats_since_answer.get(member_id, 0) + 1
        )

    def session_restarted(self, member_id: str, since_ms: int) -> None:
        """Note that the member's session began anew, at the latest when its request came."""
        self._sessions.restarted(member_id, since_ms)

    def epoch_described(self, group_id: str, epoch: int, received_ms: int) -> None:
        """Note a group epoch in the description that a request of `received_ms` asked for."""
        # Not in the millisecond in which the group began: the description may be of the one before.
        self._note_shown_epoch(group_id, epoch, received_ms - 1)

    def _note_shown_epoch(self, group_id: str, epoch: int, received_ms: int) -> None:
        # A reply may have waited for a flush in which its empty group became a classic one, or a
        # new consumer group: no later group of that name goes on from there.
        if group_id in self._members and received_ms >= self._began_ms[group_id]:
            self._max_shown_epoch[group_id] = max(self._max_shown_epoch.get(group_id, 0), epoch)

    def reply_sent(self, request: ConsumerGroupHeartbeatRequest, body: Any, since_ms: int) -> None:
        """Note the reply to a heartbeat; check that a fenced member deserved it."""
        member_id, code = request.member_id, Code.of(body.error_code)
        if code is Code.NONE:
            self._note_shown_epoch(request.group_id, body.member_epoch, since_ms)
            if body.member_epoch > 0 and member_id not in self._removed:
                self._acknowledged_epochs[member_id] = body.member_epoch
            # A leave restarts no session.
            if request.member_epoch >= 0:
                self.session_restarted(member_id, since_ms)
        # A join cannot be fenced out of anything: it has no epoch yet.
        elif code in FENCING_CODES and request.member_epoch > 0:
            self._check_fenced(request, code)

    def answer_received(self, owner: PartitionOwner, epoch: int, code: Code, now_ms: int) -> None:
        """Check that the epochs a member receives within one incarnation never decrease."""
        view = owner.member.view()
        member_id = view.member_id
        # Also for an error: the member knows that all its earlier heartbeats were processed.
        self._heartbeats_since_answer[member_id] = 0
        if code is not Code.NONE or epoch < 0:
            return
        used = tuple(partition.id_partition for partition in owner.in_use.partitions)
        self._answers.setdefault(member_id, deque(maxlen=ANSWERS_TO_BE_SURE)).append(
            ReceivedAnswer(now_ms, (*view.owned, *used))
        )
        before = self._epochs_received.get(member_id)
        if before is not None and before[0] == view.incarnation and epoch < before[1]:
            raise LawBroken(
                "epochs-never-back", f"{member_id} was told epoch {before[1]}, and then {epoch}."
            )
        self._epochs_received[member_id] = (view.incarnation, epoch)

    def member_joined(self, owner: PartitionOwner) -> None:
        """Note that the member knows that it is in its group."""
        self._removed.pop(owner.member.view().member_id, None)

    # steps

    def check_change(
        self, group: ConsumerGroup, topics: Topics, event: Any, now_ms: int
    ) -> int | None:
        """Check a consumer group after a step; return how far its epoch went up.

        topics: of the coordinator now. A target assignment is checked against the topics from which
        it was computed: those of the step that changed it. Returns None without a change.
        """
        group_id, saved = group.group_id, group.saved
        if group_id not in self._members:
            self._began_ms[group_id] = now_ms
        before = self._members.get(group_id, {})
        after = {
            name: snapshot_of(member, before.get(name), now_ms)
            for name, member in saved.members.items()
        }
        is_same = len(after) == len(before) and all(
            before.get(name) is now for name, now in after.items()
        )
        is_retargeted = self._assignment_epochs.get(group_id) != saved.assignment_epoch
        if is_same and not is_retargeted and self._epochs.get(group_id) == saved.epoch:
            return None
        target = (group_id, saved.assignment_epoch)
        # Noted at the step that computed the target: topics may change before the next target, and
        # the old one stays right by the old topics.
        if event is not None and is_retargeted:
            self._target_topics[target] = self.installs.topics_of_target(event, topics)
            if group_id in self._members:
                self.installs.check_retargeted(group, event)
        self._assignment_epochs[group_id] = saved.assignment_epoch
        for law, violations in GROUP_LAWS.items():
            for why in violations(group, self._target_topics.get(target, topics)):
                raise LawBroken(law, f"group {group_id}: {why}")
        self._check_epochs(group, before, after)
        for name in before:
            if name not in after:
                self._check_removal(group, name, before[name], event=event, now_ms=now_ms)
                self._removed[name] = None
                self._acknowledged_epochs.pop(name, None)
                self._upgraded.remove(name)
        self._upgraded.add(group, [name for name in after if name not in before], topics)
        for name, now in after.items():
            if name not in before:
                if not saved.members[name].is_classic:
                    self._removed.pop(name, None)
                elif before:
                    # Not at the upgrade itself, where `before` is empty: its members have not
                    # joined anew. This one may have been removed while the group was a classic one,
                    # and hears only with the answer to its JoinGroup that others have its
                    # partitions.
                    self._removed[name] = None
            member = saved.members[name]
            if before.get(name) is not now:
                kept = kept_by_expression(group, before.get(name), member)
                check_subscribed(group, member, topics, {**self._upgraded.assigned(name), **kept})
        self._members[group_id] = after
        self.installs.note_assignor(group)
        epochs = saved.epoch - self._epochs.get(group_id, 0)
        self._epochs[group_id] = saved.epoch
        return epochs

    def check_downgrade(self, group: ClassicGroup, is_recovered: bool) -> bool:
        """Check a group that KIP-848's migration made classic; return whether it has members.

        The generations go on from the group epoch. is_recovered: the group was loaded from its log,
        so an epoch that stood in no reply may be lost with the conversion.
        """
        name = group.group_id
        before, epoch = self._members.pop(name), self._epochs.pop(name, None)
        self._assignment_epochs.pop(name, None)
        reached = max(0 if is_recovered else epoch or 0, self._max_shown_epoch.pop(name, 0))
        has_members = bool(before and group.live.members)
        if has_members and group.live.generation < reached:
            raise LawBroken(
                "epochs-never-back",
                f"group {name} was at epoch {reached}, and is at {group.live.generation}.",
            )
        for member_id in before:
            self._acknowledged_epochs.pop(member_id, None)
            if member_id not in group.live.members:
                self._removed[member_id] = None
        return has_members

    def sessions_begin(self, group: ConsumerGroup, now_ms: int, session_ms: int) -> None:
        """Note that a broker has started with this group, whose session timeout that is."""
        self._sessions.recovered(group.saved.members, now_ms, session_ms)

    def check_recovered(self, group: ConsumerGroup, now_ms: int) -> None:
        """Check a consumer group that a broker loaded from its log.

        No member may be behind an epoch of a response to it: the law `durable`.
        """
        saved, before = group.saved, self._members.get(group.group_id, {})
        for name in before:
            acknowledged, member = self._acknowledged_epochs.get(name), saved.members.get(name)
            if acknowledged is None or (
                member is not None
                and (member.epoch >= acknowledged or member.epoch in (AWAY, JOINING))
            ):
                continue
            status = "it is no longer a member" if member is None else f"it is at {member.epoch}"
            raise LawBroken("durable", f"{name} was told epoch {acknowledged}, and now {status}.")
        # A broker's monotonic clock begins anew with its process.
        self._began_ms[group.group_id] = min(now_ms, self._began_ms.get(group.group_id, now_ms))
        self._members[group.group_id] = {
            name: snapshot_of(member, None, now_ms) for name, member in saved.members.items()
        }
        self._removed.update(dict.fromkeys(name for name in before if name not in saved.members))
        for name in saved.members:
            self._removed.pop(name, None)  # its removal was not flushed before the crash
        self._epochs[group.group_id] = saved.epoch
        self._assignment_epochs[group.group_id] = saved.assignment_epoch
        self.installs.recovered(group.group_id)
        self._check_epochs(group, {}, {})

    def check_lost_groups(self, is_lost: Callable[[str], bool]) -> None:
        """Check that every group that was lost in a crash stood in no reply, and forget it."""
        for group_id in [known for known in self._members if is_lost(known)]:
            if group_id in self._max_shown_epoch:
                shown = self._max_shown_epoch[group_id]
                raise LawBroken(
                    "epochs-never-back",
                    f"group {group_id} is no more; somebody was told {shown} of it.",
                )
            self._removed.update(dict.fromkeys(self._members.pop(group_id)))
            self._epochs.pop(group_id, None)
            self._assignment_epochs.pop(group_id, None)

    def check_in_use(self, group: ConsumerGroup, owner: PartitionOwner, topics: Topics) -> None:
        """Check that an application uses only what its member has: no other can have it.

        A removed member may not have learned of its removal. The sink's fences and the coordinator
        refuse its owner's writes and commits.
        """
        if not owner.is_up:
            return
        incarnation, partitions = owner.in_use
        view, saved = owner.member.view(), group.saved
        self._upgraded.note_view(group, view)
        member_id = view.member_id
        if (
            incarnation != view.incarnation
            or member_id in self._removed
            or view.epoch <= 0
            or member_id not in saved.members
        ):
            return
        for partition in partitions:
            assigned_to = saved.owners.owner_or_none(
                saved.units.unit(partition.topic_id, partition.partition)
            )
            if assigned_to != member_id and not (
                owner.uses_classic_protocol
                and self._upgraded.may_use(group, view, partition, topics)
            ):
                why = (
                    f"{member_id} uses {partition}, which the group says "
                    f"{assigned_to or 'nobody'} has."
                )
                raise LawBroken("no-two-hands", why)

    # single laws

    def _check_epochs(
        self,
        group: ConsumerGroup,
        before: Mapping[str, MemberSnapshot],
        after: Mapping[str, MemberSnapshot],
    ) -> None:
        """Check that no epoch of the group or of a member went back."""
        name, epoch = group.group_id, group.saved.epoch
        shown = self._max_shown_epoch.get(name, 0)
        if epoch < shown:
            raise LawBroken(
                "epochs-never-back",
                f"group {name} is at epoch {epoch}, but told {shown} to somebody.",
            )
        for member_id, now in after.items():
            old = before.get(member_id)
            if old is not None and now.epoch < old.epoch and now.epoch not in (AWAY, JOINING):
                raise LawBroken(
                    "epochs-never-back",
                    f"{member_id} went from epoch {old.epoch} back to {now.epoch}.",
                )

    def _check_removal(
        self, group: ConsumerGroup, member_id: str, last: MemberSnapshot, *, event: Any, now_ms: int
    ) -> None:
        """Check that a member vanished from a consumer group for a reason, after a step.

        last: its snapshot before the step. Reasons: it left, another process took its place, its
        session timed out, or it did not give up partitions within the rebalance timeout, counted
        from `last.since_ms`. A classic member also has to rejoin, and to sync, within that time.
        """
        # It left, or its instance id was taken by another process.
        if type(event) is Arrived and removes_member(event.request, member_id, last):
            return
        silent_ms = self._sessions.silent_ms(member_id, now_ms)
        is_classic = last.metadata.classic_member_metadata is not None
        # At the deadline itself the coordinator may remove it; not a millisecond before.
        if silent_ms >= self._sessions.timeout_ms(
            member_id, self._scenario.session_ms, is_classic=is_classic
        ):
            return
        is_late = now_ms - last.since_ms >= self._scenario.rebalance_ms
        if is_classic and is_late:
            return
        # Only a revocation has a deadline in KIP-848; a member that waits for others may wait as
        # long as it takes.
        if last.state is MemberState.UNREVOKED and is_late:
            if not self._has_reported_release(group, member_id, last):
                return
            raise LawBroken(
                "gone-with-cause",
                f"{member_id} was dismissed for partitions that it has long let go.",
            )
        raise LawBroken(
            "gone-with-cause",
            f"{member_id} was dismissed after {silent_ms} ms, in state {last.state.name}.",
        )

    def _has_reported_release(
        self, group: ConsumerGroup, member_id: str, last: MemberSnapshot
    ) -> bool:
        """Return whether the member must have reported that it released the revoked partitions.

        It must have if it has received so many answers since the revocation, and owned and used
        none of them at any, that one of the heartbeats they answered reported it. It will never
        report if its process is dead, or its member has left the group (as it does after
        max.poll.interval.ms).
        """
        revoked = dict.fromkeys(
            map(group.saved.units.id_partition, last.pending_revocation.units.tolist())
        )
        answers = self._answers.get(member_id) or deque[ReceivedAnswer]()
        return (
            any(
                owner.is_up
                and owner.group == group.group_id
                and (view := owner.member.view()).member_id == member_id
                and view.state not in LEFT
                for owner in self._owners.values()
            )
            and len(answers) == ANSWERS_TO_BE_SURE
            and answers[0].received_ms > last.since_ms
            and not any(partition in revoked for each in answers for partition in each.in_use)
        )

    def _check_fenced(self, request: ConsumerGroupHeartbeatRequest, code: Code) -> None:
        """Check that a fenced member was removed, or lost more than one answer."""
        member_id = request.member_id
        lost = self._heartbeats_since_answer.get(member_id, 0) - 1
        if member_id not in self._removed and lost <= 1 and member_id in self._epochs_received:
            raise LawBroken(
                "fenced-with-cause",
                f"{member_id} at epoch {request.member_epoch} was answered {code.name}.",
            )
