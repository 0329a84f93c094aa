"""The computation of a target assignment by a custom assignor: its question, call and answer.

It runs beside the shard (`custom_targets.py`), so it has copies of what it needs, and the answer is
checked here, where that delays no step.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from apportion.assign import checks
from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.coord.consumer.units import no_units, units_by_topic
from apportion.errors import Refused
from apportion.topics import TopicId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.assign.custom import CustomAssignor
    from apportion.coord.consumer.units import UnitArray
    from apportion.topics import Topic

PartitionsByTopic = dict[TopicId, tuple[int, ...]]


class AskedMember(NamedTuple):
    """A member as an assignor is told of it; see `AskedMembers`."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topics: tuple[str, ...]
    target: UnitArray | None
    must_save: bool


class ChangedTargets(NamedTuple):
    """The targets of an answer, of those members whose target it changes.

    assigned: how many partitions the whole answer gives to members.
    """

    by_member: Mapping[str, PartitionsByTopic]
    assigned: int


class WrongAnswer(NamedTuple):
    """An answer that is no assignment. why: the rest of "the assignor ..."."""

    why: str


class FailedTarget(NamedTuple):
    """A failure of an assignor. times: how often in a row, with the same assignor and epoch."""

    assignor: str
    epoch: int
    at_ms: int
    times: int


@dataclass(slots=True, frozen=True, eq=False)
class ComputeTarget:
    """The computation of a group's target assignment by a custom assignor.

    epoch: the group's, for which the target is. targets_epoch: that of the older targets.
    topics: those that exist and have subscribers. ids: the ids of the topics in the older targets.
    """

    is_foreign: ClassVar[bool] = True

    group_id: str
    epoch: int
    targets_epoch: int
    assignor: CustomAssignor
    topics: tuple[Topic, ...]
    ids: tuple[TopicId, ...]
    members: tuple[AskedMember, ...]

    def run(self) -> ChangedTargets | WrongAnswer:
        """Call the assignor, and return what its answer changes if it is an assignment."""
        before = {member.member_id: self._older_target(member) for member in self.members}
        cluster = {topic.name: TopicShape(topic.partitions, topic.racks) for topic in self.topics}
        subscriptions = {
            member.member_id: self._subscription(member, before[member.member_id])
            for member in self.members
        }
        # Read-only: the answer is checked by the same values.
        answer = self.assignor.assign(MappingProxyType(cluster), MappingProxyType(subscriptions))
        try:
            # Through the module: the simulator replaces the guard by a faulty one (docs/guards.md).
            checks.check_given(cluster, subscriptions, answer)
        except Refused as refusal:
            return WrongAnswer(refusal.why.removeprefix("the assignor "))
        ids = {topic.name: topic.id for topic in self.topics}
        changed, assigned = {}, 0
        for member in self.members:
            given = answer.get(member.member_id, Given())
            after = {
                ids[topic]: tuple(map(int, numbers))
                for topic, numbers in by_topic(
                    (topic, number) for topic, numbers in given.partitions for number in numbers
                )
            }
            assigned += sum(map(len, after.values()))
            if member.must_save or after != before[member.member_id]:
                changed[member.member_id] = after
        return ChangedTargets(changed, assigned)

    def _older_target(self, member: AskedMember) -> PartitionsByTopic:
        """Return the partitions of a member's older target, with those that are gone."""
        target = no_units() if member.target is None else member.target
        return dict(units_by_topic(target.tolist(), self.ids))

    def _subscription(self, member: AskedMember, target: PartitionsByTopic) -> Subscription:
        """Return a member as the assignor gets it; it owns what its older target names."""
        owned = by_topic(
            (topic.name, number)
            for topic in self.topics
            for number in target.get(topic.id, ())
            if number < topic.partitions
        )
        return Subscription(
            topics=member.topics,
            owned=owned,
            generation=-1 if member.target is None else self.targets_epoch,
            rack_id=member.rack_id,
            instance_id=member.instance_id,
        )
