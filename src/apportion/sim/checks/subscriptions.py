"""Decodes the subscription and the assignment of a classic member from the log."""

from collections.abc import Iterator

from apportion.errors import DecodeError
from apportion.sim.kernel.outcome import LawBroken
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
