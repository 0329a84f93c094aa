"""A classic group as its coordinator describes it: who has what, and what nobody has.

What a cooperative leader takes from one member it gives to nobody in that generation, and to the other in the next. So a group
that is stable and has given away everything has nothing more in mind.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from apportion.errors import DecodeError
from apportion.member.assignors.serde import decode_assignment, decode_subscription
from apportion.member.membership import Assignment, View, assignment, from_wire
from apportion.topics import IdPartition, Topic
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.describe_groups import DescribedGroup

STABLE = "Stable"


class DescribedAssignment(NamedTuple):
    """given: by member id, of the topics that were asked about. withheld: partitions of those topics that nobody has."""

    is_stable: bool
    by_member: Mapping[str, Assignment]
    unassigned: Assignment


def from_described_group(group: DescribedGroup, topics: Mapping[str, Topic]) -> DescribedAssignment:
    """How these topics are parted among the group's members; a member whose assignment cannot be read has nothing."""
    given = {member.member_id: _held(member.member_assignment, topics) for member in group.members}
    all_of_them = assignment(IdPartition(topic.id, number) for topic in topics.values() for number in range(topic.partitions))
    taken = dict.fromkeys(partition for held in given.values() for partition in held)
    return DescribedAssignment(
        group.group_state == STABLE, given, tuple(partition for partition in all_of_them if partition not in taken)
    )


def _held(blob: bytes | memoryview, topics: Mapping[str, Topic]) -> Assignment:
    try:
        parts = decode_assignment(blob).partitions
    except DecodeError:
        return ()
    return assignment(IdPartition(topics[name].id, number) for name, numbers in parts if name in topics for number in numbers)


def may_be_assigned(subscription: bytes | memoryview, topics: Collection[str]) -> bool:
    """Return whether a member that sent this subscription may be given one of these topics; a subscription nobody can read may."""
    try:
        return any(topic in topics for topic in decode_subscription(subscription).topics)
    except DecodeError:
        return True


def has_full_assignment(view: View, group: ConsumerGroup | DescribedAssignment) -> bool:
    """Whether the member that is seen so holds what the newest target of the group gives it."""
    if isinstance(group, DescribedAssignment):
        return group.is_stable and not group.unassigned and group.by_member.get(view.member_id) == view.target
    for member in group.members:
        if member.member_id == view.member_id:
            current = group.group_epoch == group.assignment_epoch == member.member_epoch == view.epoch
            target, given = from_wire(member.target_assignment.topic_partitions), from_wire(member.assignment.topic_partitions)
            return current and target == given == view.target
    return False
