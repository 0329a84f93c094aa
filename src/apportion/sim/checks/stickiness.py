"""The law of sticky assignments: a leader takes no partition from a member without need.

The law is checked by the log alone: from the previous assignment in each member's user data
(KIP-341) and from the new assignment.
"""

from collections.abc import Iterator

from apportion.sim.checks.subscriptions import (
    NamePartition,
    assigned_partitions,
    decode_subscription,
)
from apportion.wire.records.consumer_serde import decode_sticky
from apportion.wire.records.groups import GroupMetadataValue, MemberMetadata

STICKY = "sticky"


def needless_moves(saved: GroupMetadataValue) -> Iterator[str]:
    """Yield a sentence if members keep fewer of their partitions than equal counts allow.

    Only eager groups whose members subscribe to the same topics are checked. There every partition
    is assigned at once, and the number that can stay is known: each member keeps up to an even
    share, and as many members as there are partitions left over keep one more.
    """
    subscriptions = [sorted(decode_subscription(member).topics) for member in saved.members]
    if (
        saved.protocol != STICKY
        or not subscriptions
        or any(subscription != subscriptions[0] for subscription in subscriptions)
    ):
        return
    assigned = {
        named: member.member_id for member in saved.members for named in assigned_partitions(member)
    }
    previous = {
        named: owner for named, owner in previous_owners(saved.members).items() if named in assigned
    }
    even_share, remainder = divmod(len(assigned), len(saved.members))
    counts = [list(previous.values()).count(member.member_id) for member in saved.members]
    possible = sum(min(count, even_share) for count in counts) + min(
        remainder, sum(count > even_share for count in counts)
    )
    kept = sum(assigned[named] == owner for named, owner in previous.items())
    if kept < possible:
        yield f"of {len(previous)} partitions that members had, {kept} stay where {possible} could."


def previous_owners(members: tuple[MemberMetadata, ...]) -> dict[NamePartition, str]:
    """Return the previous owner of each partition of a classic group.

    The owner is the one member that claims the partition with the newest generation (KIP-341); two
    such members are both ignored.
    """
    claims_of: dict[NamePartition, dict[str, int]] = {}
    for member in members:
        previous = decode_sticky(decode_subscription(member).user_data)
        for part in previous.topic_partitions:
            for partition in part.partitions:
                claims_of.setdefault((part.topic, partition), {})[member.member_id] = (
                    previous.generation
                )
    owners = {}
    for named, claims in claims_of.items():
        newest = [
            owner for owner, generation in claims.items() if generation == max(claims.values())
        ]
        if len(newest) == 1:
            owners[named] = newest[0]
    return owners
