"""A classic group in a DescribeGroups response: each member's partitions, and unassigned ones.

A cooperative leader assigns a partition to a new owner in two steps (KIP-429): to no member in the
generation that revokes it, and to the new owner in the next. So in a stable group without
unassigned partitions no rebalance is outstanding.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from apportion.errors import DecodeError
from apportion.member.assignors.serde import decode_assignment, decode_subscription
from apportion.member.membership import MemberAssignment, assignment
from apportion.topics import IdPartition, Topics
from apportion.wire.group_states import GroupState
from apportion.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember


class DescribedAssignment(NamedTuple):
    """A classic group's assignment of some topics, from DescribeGroups.

    by_member: by member id. unassigned: partitions of these topics that no member has.
    """

    is_stable: bool
    by_member: Mapping[str, MemberAssignment]
    unassigned: MemberAssignment


def from_described_group(group: DescribedGroup, topics: Topics) -> DescribedAssignment:
    """Decode the assignments in a DescribeGroups response, as far as these topics go.

    A member whose assignment cannot be decoded has none.
    """
    by_member = {
        member.member_id: _decode(member.member_assignment, topics) for member in group.members
    }
    partitions = assignment(
        IdPartition(topic.id, number) for topic in topics for number in range(topic.partitions)
    )
    assigned = dict.fromkeys(partition for own in by_member.values() for partition in own)
    return DescribedAssignment(
        group.group_state == GroupState.STABLE,
        by_member,
        tuple(partition for partition in partitions if partition not in assigned),
    )


def _decode(blob: bytes | memoryview, topics: Topics) -> MemberAssignment:
    """Return a described member's assignment in existing topics; () if it cannot be decoded."""
    try:
        parts = decode_assignment(blob).partitions
    except DecodeError:
        return ()
    return assignment(
        IdPartition(topic.id, number)
        for name, numbers in parts
        if (topic := topics.named(name)) is not None
        for number in numbers
    )


def may_be_assigned(subscription: bytes | memoryview, topics: Collection[str]) -> bool:
    """Return whether a member with this subscription may be assigned one of these topics.

    Asked of the other members before a Spark query joins. True for a subscription that cannot be
    decoded.
    """
    try:
        return any(topic in topics for topic in decode_subscription(subscription).topics)
    except DecodeError:
        return True


def has_assignment(member: DescribedGroupMember) -> bool:
    """Return whether a described member has partitions; True if that cannot be decoded.

    While a group rebalances, its description has no assignments.
    """
    blob = member.member_assignment
    try:
        # No bytes at all: the leader has left the member out.
        return bool(blob and decode_assignment(blob).partitions)
    except DecodeError:
        return True
