"""The members of a consumer group as an assignor is told of them that runs beside the shard.

They are values: what the group does meanwhile changes nothing in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apportion.coord import records

if TYPE_CHECKING:
    from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
    from apportion.coord.consumer.units import UnitArray


class AskedMembers(NamedTuple):
    """The members of a group in columns, as an assignor is told of them.

    targets: the older ones; None before the first one. must_save: whether a target has to be saved
    even if it does not change.
    """

    # Columns, because a value for each of 10,000 members is a lot of work for the garbage
    # collector, which would run in the midst of a step.
    member_ids: list[str]
    instance_ids: list[str | None]
    rack_ids: list[str | None]
    topics: list[tuple[str, ...]]
    targets: list[UnitArray | None]
    must_save: list[bool]


def asked_members(group: ConsumerGroup) -> AskedMembers:
    """Return the members of a group as its assignor is told of them, in the order for assignors."""
    members = in_assignor_order(group.saved.members)
    return AskedMembers(
        member_ids=[member.member_id for member in members],
        instance_ids=[member.metadata.instance_id for member in members],
        rack_ids=[member.metadata.rack_id for member in members],
        topics=_subscriptions(group, members),
        targets=[member.target for member in members],
        must_save=[must_save_target(member) for member in members],
    )


def _subscriptions(
    group: ConsumerGroup, members: list[ConsumerGroupMember]
) -> list[tuple[str, ...]]:
    """Return the topics to which each member subscribes."""
    # What an expression matches may be many names, which are sorted for each subscription: those
    # who send the same share one.
    by_expression: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
    subscriptions = []
    for member in members:
        metadata = member.metadata
        topics, expression = metadata.subscribed_topic_names, metadata.subscribed_topic_regex
        if expression:
            key = topics, expression
            if key not in by_expression:
                by_expression[key] = group.saved.subscription(metadata)
            topics = by_expression[key]
        subscriptions.append(topics)
    return subscriptions


def in_assignor_order(members: dict[str, ConsumerGroupMember]) -> list[ConsumerGroupMember]:
    """Return static members by instance id, then dynamic members by member id.

    Assignors prefer members in this order, so a restarted static member gets the same partitions.
    """
    static = [member for member in members.values() if member.metadata.instance_id is not None]
    dynamic = sorted(
        member_id for member_id, member in members.items() if member.metadata.instance_id is None
    )
    static.sort(key=lambda member: (member.metadata.instance_id, member.member_id))
    return [*static, *(members[member_id] for member_id in dynamic)]


def must_save_target(member: ConsumerGroupMember) -> bool:
    """Return whether a target of the broker has to be saved for a member even if it is its older.

    A member without a target gets a record even for an empty one: after a restart it has to be told
    from a member that has not been assigned yet. What a client-side assignor said ends with its
    target.
    """
    return member.target is None or member.target_answer != records.NO_ANSWER
