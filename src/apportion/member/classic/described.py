"""A classic group as DescribeGroups shows it: each member's partitions, and those that nobody has.

A cooperative leader assigns a partition that changes hands in two steps (KIP-429): to nobody in the
generation that revokes it, and to its new owner in the next. So in a stable group without
unassigned partitions no rebalance is outstanding.
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
    """The group's assignment, as far as the queried topics go.

    by_member: by member id. unassigned: partitions of these topics that no member has.
    """

    is_stable: bool
    by_member: Mapping[str, Assignment]
    unassigned: Assignment


def from_described_group(group: DescribedGroup, topics: Mapping[str, Topic]) -> DescribedAssignment:
    """Decode the assignments of a described group.

    A member whose assignment cannot be decoded has nothing.
    """
    given = {member.member_id: _held(member.member_assignment, topics) for member in group.members}
    all_of_them = assignment(
        IdPartition(topic.id, number)
        for topic in topics.values()
        for number in range(topic.partitions)
    )
    taken = dict.fromkeys(partition for held in given.values() for partition in held)
    return DescribedAssignment(
        group.group_state == STABLE,
        given,
        tuple(partition for partition in all_of_them if partition not in taken),
    )


def _held(blob: bytes | memoryview, topics: Mapping[str, Topic]) -> Assignment:
    try:
        parts = decode_assignment(blob).partitions
    except DecodeError:
        return ()
    return assignment(
        IdPartition(topics[name].id, number)
        for name, numbers in parts
        if name in topics
        for number in numbers
    )


def may_be_assigned(subscription: bytes | memoryview, topics: Collection[str]) -> bool:
    """Return whether a member with this subscription may be assigned one of these topics.

    True for a subscription that cannot be decoded.
    """
    try:
        return any(topic in topics for topic in decode_subscription(subscription).topics)
    except DecodeError:
        return True


def has_full_assignment(view: View, group: ConsumerGroup | DescribedAssignment) -> bool:
    """Return whether the member already holds what the group's newest target assigns it."""
    if isinstance(group, DescribedAssignment):
        return (
            group.is_stable
            and not group.unassigned
            and group.by_member.get(view.member_id) == view.target
        )
    for member in group.members:
        if member.member_id == view.member_id:
            current = (
                group.group_epoch == group.assignment_epoch == member.member_epoch == view.epoch
            )
            target, given = (
                from_wire(member.target_assignment.topic_partitions),
                from_wire(member.assignment.topic_partitions),
            )
            return current and target == given == view.target
    return False
