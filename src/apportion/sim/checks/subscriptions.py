"""The subscriptions and the assignments of members: what the law `subscribed-only` compares."""

from collections.abc import Iterator, Mapping

from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.errors import DecodeError
from apportion.sim.checks.member_snapshot import MemberSnapshot
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import IdPartition, Topics
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from apportion.wire.records.consumer_serde import decode
from apportion.wire.records.groups import MemberMetadata

NamePartition = tuple[str, int]
"""The name of a topic and a partition number: the classic protocol has no topic ids."""


def assigned_partitions(member: MemberMetadata) -> Iterator[NamePartition]:
    """Yield the partitions that the leader assigned to the member; none if it sent no bytes."""
    if member.assignment:
        _, assignment = decode(ConsumerProtocolAssignment, member.assignment)
        for topic in assignment.assigned_partitions:
            for partition in topic.partitions:
                yield topic.topic, partition


def decode_subscription(member: MemberMetadata) -> ConsumerProtocolSubscription:
    """Return the subscription with which a simulated classic member joined.

    Raises LawBroken for bytes that cannot be decoded: no member of the simulation sends such.
    """
    try:
        return decode(ConsumerProtocolSubscription, member.subscription)[1]
    except DecodeError as error:
        raise LawBroken(
            "no-defect", f"{member.member_id} sent a subscription that cannot be read: {error}"
        ) from error


def check_subscribed(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    topics: Topics,
    taken_over: Mapping[IdPartition, None],
) -> None:
    """Check that the member is assigned no partition of a topic to which it does not subscribe.

    taken_over: the partitions that it may have without that: those that it has had since before
    the group was upgraded, and those of `kept_by_expression`.
    """
    subscribed = group.saved.subscription(member.metadata)
    for partition in assigned_id_partitions(group, member):
        topic = topics.with_id(partition.topic_id)
        if topic is not None and topic.name not in subscribed and partition not in taken_over:
            raise LawBroken(
                "subscribed-only",
                f"{member.member_id} wants {', '.join(subscribed)} and has {topic.name}.",
            )


def kept_by_expression(
    group: ConsumerGroup, before: MemberSnapshot | None, member: ConsumerGroupMember
) -> dict[IdPartition, None]:
    """Return the partitions that a member may keep although its expression matches them no more.

    What an expression matches changes between two heartbeats of the member, which gives up then
    what it had before. A member that changes its own subscription keeps nothing.
    """
    metadata = member.metadata
    if (
        before is None
        or not metadata.subscribed_topic_regex
        or before.metadata.subscribed_topic_regex != metadata.subscribed_topic_regex
        or before.metadata.subscribed_topic_names != metadata.subscribed_topic_names
    ):
        return {}
    units = before.assigned.units.tolist()
    return dict.fromkeys(map(group.saved.units.id_partition, units))


def assigned_id_partitions(
    group: ConsumerGroup, member: ConsumerGroupMember
) -> dict[IdPartition, None]:
    """Return the member's assigned partitions; unit numbers change when a log is loaded again."""
    return dict.fromkeys(map(group.saved.units.id_partition, member.assigned.units.tolist()))
