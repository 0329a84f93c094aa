"""The law of sticky shares: where all want the same, a leader takes no partition from anybody
without need.

It is reckoned from what the log says alone: what each member told of its last share, and what it
was given now.
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
    """A sentence if members keep fewer of their partitions than equal shares allow.

    Only of eager groups whose members want the same topics: there everything is given, and how much
    can stay is plain.
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
    """Who had each partition: whoever alone tells so of the newest generation (KIP-341)."""
    on_step: dict[NamePartition, dict[str, int]] = {}
    for member in members:
        last = decode_sticky(decode_subscription(member).user_data)
        for part in last.topic_partitions:
            for partition in part.partitions:
                on_step.setdefault((part.topic, partition), {})[member.member_id] = last.generation
    owners = {}
    for named, claims in on_step.items():
        newest = [
            owner for owner, generation in claims.items() if generation == max(claims.values())
        ]
        if len(newest) == 1:
            owners[named] = newest[0]
    return owners
