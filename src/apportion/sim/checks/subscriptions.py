"""What the log says of a member of a classic group: what it wants, and what it was given."""

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
"""A topic's name and a partition of it: all that the classic protocol knows."""


def assigned_partitions(member: MemberMetadata) -> Iterator[NamePartition]:
    """What the leader gave that member; nothing where it gave no bytes."""
    if member.assignment:
        _, assignment = decode(ConsumerProtocolAssignment, member.assignment)
        for part in assignment.assigned_partitions:
            for partition in part.partitions:
                yield part.topic, partition


def decode_subscription(member: MemberMetadata) -> ConsumerProtocolSubscription:
    """What the member said when it joined. LawBroken for bytes that say nothing: no member of ours
    sends such.
    """
    try:
        return decode(ConsumerProtocolSubscription, member.subscription)[1]
    except DecodeError as error:
        raise LawBroken(
            "no-defect", f"{member.member_id} sent a subscription that cannot be read: {error}"
        ) from error
