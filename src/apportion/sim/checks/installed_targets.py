"""Checks the target assignments that members of consumer groups compute and install (KIP-848).

Before a step over ConsumerGroupInstallAssignment it is decided here, without the coordinator's own
rules, whether the request is right; after the step, whether what is saved agrees with that. For one
that is checked beside the shard, that is the step over the end of the check.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from apportion.coord.consumer.installed_check import CheckInstalled
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.consumer.targets import TARGET_COMPUTATIONS
from apportion.coord.records import TargetAnswer
from apportion.coord.shard import Shard
from apportion.machine import Arrived, ComputationEnd, Computed, Ticket
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import IdPartition, Topics
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)

Target = tuple[tuple[IdPartition, ...], TargetAnswer]
"""The partitions of a member's target, in order, and the assignor's answer."""
Targets = Mapping[str, Target]


LoadedShards = Callable[[], Iterable[Shard]]


class ToldGroup(NamedTuple):
    """A group as the response to ConsumerGroupPrepareAssignment shows it.

    subscriptions: by member, the ids of its topics. instances: by static member, its instance id.
    """

    member_id: str
    epoch: int
    topics: Topics
    subscriptions: Mapping[str, tuple[bytes, ...]]
    instances: Mapping[str, str]

    def current_name(self, name: str, group: ConsumerGroup) -> str:
        """Return the id of the member that has that membership now: a static one is replaced."""
        if name in group.saved.members or name not in self.instances:
            return name
        return group.saved.instances.get(self.instances[name], name)


class BeforeInstall(NamedTuple):
    """The saved state before a step over ConsumerGroupInstallAssignment.

    told: the group as its chosen member was told of it. fault: why the request is wrong; "" if it
    is right.
    """

    fault: str
    told: ToldGroup | None
    targets: Targets
    assignment_epoch: int


class SavedAnswers(NamedTuple):
    """The answers that came with a target.

    of_members: by instance id or member id, of those that have their target still. installed: all.
    """

    group: ConsumerGroup
    of_members: dict[str, TargetAnswer]
    installed: tuple[TargetAnswer, ...]

    def of_group(self, group: ConsumerGroup | None) -> Iterable[TargetAnswer]:
        """Return the answers that members of the group as it was loaded last may be told.

        None: it is not known which that is.
        """
        # Loaded again, the group may have lost that a member has left or begun anew.
        return self.of_members.values() if group is self.group else self.installed


class InstalledTargetChecker:
    """The groups as their chosen members were told of them, and the request that is being checked.

    A broker that has loaded a group has told nobody of it.
    """

    def __init__(self) -> None:
        self._told: dict[str, ToldGroup] = {}
        self._before: BeforeInstall | None = None
        self._had_assignor: dict[str, bool] = {}
        # The reasons of a heartbeat by assignor, and the group's epoch before it.
        self._asked: tuple[list[tuple[str, int]], int] | None = None

    def recovered(self, group_id: str) -> None:
        """Forget what members were told by the broker before it loaded the group."""
        self._told.pop(group_id, None)
        self._had_assignor.pop(group_id, None)

    def before_step(self, event: Any, shards: LoadedShards) -> None:
        """Decide whether the request of `event` is right, if it installs a target."""
        self._before = None
        arrived = arrived_or_none(event)
        if arrived is None:
            return
        request = arrived.request
        if type(request) is ConsumerGroupHeartbeatRequest:
            self._note_reasons(request, shards)
        elif type(request) is ConsumerGroupInstallAssignmentRequest:
            group = group_or_none(shards(), request.group_id)
            if group is not None:
                told = self._told.get(group.group_id)
                self._before = BeforeInstall(
                    _fault_of(request, group, told),
                    told,
                    _targets(group),
                    group.saved.assignment_epoch,
                )

    def _note_reasons(self, request: ConsumerGroupHeartbeatRequest, shards: LoadedShards) -> None:
        """Note the group's epoch before a heartbeat that asks for a new assignment."""
        offered = [(each.name, each.reason) for each in request.client_assignors or ()]
        group = group_or_none(shards(), request.group_id) if offered else None
        if group is not None and any(reason for _, reason in offered):
            saved = _saved_reasons(group, request.member_id)
            if saved != offered:
                self._asked = offered, group.saved.epoch

    def _check_reasons(self, request: ConsumerGroupHeartbeatRequest, shards: LoadedShards) -> None:
        """Check that the group's epoch is newer if a heartbeat was taken that asked for it.

        Not where the broker assigns: a reason would not change its target. One that comes too early
        waits, and is not saved yet.
        """
        if self._asked is None:
            return
        (offered, epoch), self._asked = self._asked, None
        group = group_or_none(shards(), request.group_id)
        if (
            group is not None
            and group.saved.client_assignor is not None
            and _saved_reasons(group, request.member_id) == offered
            and group.saved.epoch == epoch
        ):
            raise LawBroken(
                "reason-bumps-epoch",
                f"{request.member_id} asked for a new assignment, and group {group.group_id} is "
                f"still at epoch {epoch}.",
            )

    def after_step(self, event: Any, shards: LoadedShards) -> None:
        """Note what a member is told; check what a step over an installed target has saved."""
        arrived = arrived_or_none(event)
        if arrived is None:
            return
        request = arrived.request
        if type(request) is ConsumerGroupHeartbeatRequest:
            self._check_reasons(request, shards)
        elif type(request) is ConsumerGroupPrepareAssignmentRequest:
            self._note_told(request, group_or_none(shards(), request.group_id))
        elif self._before is not None:
            group = group_or_none(shards(), request.group_id)
            before = self._before
            if event is arrived and arrived.ticket in tickets_under_check(shards()):
                before = before._replace(fault="it is being checked")
            if group is not None:
                self._check_installed(request, group, before)

    def check_retargeted(self, group: ConsumerGroup, event: Any) -> None:
        """Check that a new target of a group whose members have an assignor comes from one of them.

        The group is one that was checked before. A custom assignor of the broker may have begun
        before its members had one.
        """
        has_assignor = group.saved.client_assignor is not None
        if (
            has_assignor
            and self._had_assignor.get(group.group_id)
            and not isinstance(event, Computed)
            and self._before is None
        ):
            raise LawBroken(
                "computed-by-members",
                f"the broker computed a target for group {group.group_id}, whose members have "
                "a client-side assignor in common.",
            )

    def note_assignor(self, group: ConsumerGroup) -> None:
        """Note whether the group's members have a client-side assignor in common."""
        self._had_assignor[group.group_id] = group.saved.client_assignor is not None

    def topics_of_target(self, event: Any, topics: Topics) -> Topics:
        """Return the topics from which the target was computed that a step has saved.

        They are those of the coordinator, unless it was computed beside the shard, or by a member.
        """
        if isinstance(event, Computed) and isinstance(event.computation, TARGET_COMPUTATIONS):
            return Topics(event.computation.topics)
        if self._before is not None and self._before.told is not None:
            return self._before.told.topics
        return topics

    def _note_told(
        self, request: ConsumerGroupPrepareAssignmentRequest, group: ConsumerGroup | None
    ) -> None:
        """Note the group as its member is told of it, unless the request is refused."""
        chosen = None if group is None else group.live.chosen
        if group is None or chosen is None or chosen.prepared is None:
            return
        member = group.saved.members.get(request.member_id)
        if (
            member is None
            or chosen.member_id != request.member_id
            or member.epoch != request.member_epoch
        ):
            return
        topics = Topics(chosen.prepared.topics.values())
        self._told[group.group_id] = ToldGroup(
            request.member_id,
            group.saved.epoch,
            topics,
            {
                name: tuple(
                    topic.id
                    for wanted in group.saved.subscription(each.metadata)
                    if (topic := topics.named(wanted)) is not None
                )
                for name, each in group.saved.members.items()
            },
            {
                name: each.metadata.instance_id
                for name, each in group.saved.members.items()
                if each.metadata.instance_id is not None
            },
        )

    def _check_installed(
        self,
        request: ConsumerGroupInstallAssignmentRequest,
        group: ConsumerGroup,
        before: BeforeInstall,
    ) -> None:
        """Check that a wrong request has changed nothing, and that a right one is the target."""
        after, epoch = _targets(group), group.saved.assignment_epoch
        if before.fault:
            if (after, epoch) != (before.targets, before.assignment_epoch):
                raise LawBroken(
                    "computed-by-chosen",
                    f"group {group.group_id} has taken a target from {request.member_id}, though "
                    f"{before.fault}.",
                )
            return
        if epoch != request.group_epoch:
            raise LawBroken(
                "computed-is-target",
                f"group {group.group_id} has a target of epoch {epoch} after "
                f"{request.member_id} installed one for {request.group_epoch}.",
            )
        assert before.told is not None
        installed = {
            before.told.current_name(name, group): target
            for name, target in _installed(request, before.told).items()
        }
        for name in after:
            older = before.targets.get(name)
            expected = _with_older_metadata(installed[name], older) if name in installed else older
            if after[name] != expected:
                raise LawBroken(
                    "computed-is-target",
                    f"{request.member_id} installed {_text(expected)} for {name}, which has "
                    f"{_text(after[name])}.",
                )


def arrived_or_none(event: Any) -> Arrived | None:
    """Return the request that a step answers: one that arrives, or whose target was checked."""
    if isinstance(event, ComputationEnd) and isinstance(event.computation, CheckInstalled):
        return event.computation.arrived
    return event if isinstance(event, Arrived) else None


def tickets_under_check(shards: Iterable[Shard]) -> set[Ticket]:
    """Return the tickets of the requests whose targets are checked beside their shards."""
    return {
        each.arrived.ticket
        for shard in shards
        for each in shard.computations()
        if isinstance(each, CheckInstalled)
    }


def group_or_none(shards: Iterable[Shard], group_id: str) -> ConsumerGroup | None:
    """Return the consumer group of that id in one of the shards; None if there is none."""
    groups = (shard.ledger.groups.get(group_id) for shard in shards)
    return next((group for group in groups if isinstance(group, ConsumerGroup)), None)


def _saved_reasons(group: ConsumerGroup, member_id: str) -> list[tuple[str, int]] | None:
    """Return the reasons that a member gave last, by assignor."""
    member = group.saved.members.get(member_id)
    if member is None:
        return None
    return [(each.name, each.reason) for each in member.metadata.client_assignors]


def _targets(group: ConsumerGroup) -> Targets:
    """Return the target of each member of a group that has one."""
    units = group.saved.units
    return {
        name: (
            tuple(sorted(map(units.id_partition, member.target.tolist()))),
            member.target_answer,
        )
        for name, member in group.saved.members.items()
        if member.target is not None
    }


def _installed(request: ConsumerGroupInstallAssignmentRequest, told: ToldGroup) -> Targets:
    """Return the targets that a right request installs; a member that it leaves out gets none."""
    nothing: Target = ((), TargetAnswer(request.error))
    return dict.fromkeys(told.subscriptions, nothing) | {
        member.member_id: (
            tuple(sorted(_partitions(member))),
            TargetAnswer(request.error, member.metadata_version, bytes(member.metadata)),
        )
        for member in request.members
    }


def _with_older_metadata(installed: Target, older: Target | None) -> Target:
    """Return the target that an installed one makes of a member's older one.

    An error without metadata leaves those of a target that stays.
    """
    partitions, answer = installed
    if older is None or not answer.error or answer.metadata or partitions != older[0]:
        return installed
    return partitions, older[1]._replace(error=answer.error)


def _text(target: Target | None) -> str:
    """Return a target for people: its partitions by the ids of their topics."""
    if target is None:
        return "nothing"
    partitions, answer = target
    names = ", ".join(f"{each.topic_id.hex()}-{each.partition}" for each in partitions)
    return f"[{names}] with error {answer.error} and metadata {answer.metadata.hex() or 'none'}"


def _partitions(member: Any) -> list[IdPartition]:
    """Return the partitions of one member in a request."""
    return [
        IdPartition(bytes(part.topic_id), number)
        for part in member.topic_partitions
        for number in part.partitions
    ]


def _fault_of(
    request: ConsumerGroupInstallAssignmentRequest, group: ConsumerGroup, told: ToldGroup | None
) -> str:
    """Return why a request is wrong; "" if it is right."""
    chosen, member = group.live.chosen, group.saved.members.get(request.member_id)
    if member is None or member.epoch != request.member_epoch:
        return "that is no member at that epoch"
    if chosen is None or told is None or chosen.assignor != group.saved.client_assignor:
        return "no member was to compute one"
    if not chosen.member_id == told.member_id == request.member_id:
        return f"{chosen.member_id} was chosen"
    if request.group_epoch != told.epoch:
        return f"it is for epoch {request.group_epoch} and not for {told.epoch}"
    if chosen.prepared is None:
        return "its member has to prepare again"
    return _fault_of_targets(request, told)


def _fault_of_targets(request: ConsumerGroupInstallAssignmentRequest, told: ToldGroup) -> str:
    """Return why what is installed is no assignment; "" if it is one."""
    owners: dict[IdPartition, str] = {}
    named: dict[str, None] = {}
    for member in request.members:
        name = member.member_id
        if name not in told.subscriptions or name in named:
            return f"{name} is no member, or named twice"
        named[name] = None
        for partition in _partitions(member):
            topic = told.topics.with_id(partition.topic_id)
            if topic is None or not 0 <= partition.partition < topic.partitions:
                return f"there is no {partition}"
            if partition.topic_id not in told.subscriptions[name]:
                return f"{name} does not subscribe to {topic.name}"
            if partition in owners:
                return f"it gives {partition} to {owners[partition]} and to {name}"
            owners[partition] = name
    return ""
