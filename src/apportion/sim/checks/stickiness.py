"""The law of sticky shares: where all want the same, a leader takes no partition from anybody without need.

It is reckoned from what the log says alone: what each member told of its last share, and what it was given now.
"""

from collections.abc import Iterator

from apportion.sim.checks.subscriptions import Named, given_to, subscription_of
from apportion.wire.records.consumer_serde import decode_sticky
from apportion.wire.records.groups import GroupMetadataValue, MemberMetadata

STICKY = "sticky"


def moved_without_need(saved: GroupMetadataValue) -> Iterator[str]:
    """A sentence if members keep fewer of their partitions than equal shares allow.

    Only of eager groups whose members want the same topics: there everything is given, and how much can stay is plain.
    """
    wishes = [sorted(subscription_of(member).topics) for member in saved.members]
    if saved.protocol != STICKY or not wishes or any(wish != wishes[0] for wish in wishes):
        return
    given = {named: member.member_id for member in saved.members for named in given_to(member)}
    had = {named: who for named, who in owners(saved.members).items() if named in given}
    share, more = divmod(len(given), len(saved.members))
    counts = [list(had.values()).count(member.member_id) for member in saved.members]
    most = sum(min(count, share) for count in counts) + min(more, sum(count > share for count in counts))
    kept = sum(given[named] == who for named, who in had.items())
    if kept < most:
        yield f"of {len(had)} partitions that members had, {kept} stay where {most} could."


def owners(members: tuple[MemberMetadata, ...]) -> dict[Named, str]:
    """Who had each partition: whoever alone tells so of the newest generation (KIP-341)."""
    told: dict[Named, dict[str, int]] = {}
    for member in members:
        last = decode_sticky(subscription_of(member).user_data)
        for part in last.topic_partitions:
            for partition in part.partitions:
                told.setdefault((part.topic, partition), {})[member.member_id] = last.generation
    found = {}
    for named, claims in told.items():
        newest = [who for who, generation in claims.items() if generation == max(claims.values())]
        if len(newest) == 1:
            found[named] = newest[0]
    return found
