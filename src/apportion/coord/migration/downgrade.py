"""The downgrade of a consumer group to a classic group (KIP-848).

A group is downgraded when the last member of the consumer protocol leaves or is replaced. A group
without members is downgraded at once, whatever the migration policy says. With members, each keeps
what it may be using (decision 33). The downgrade is one append: tombstones of the consumer group,
then the record of the classic group. `upgrade.py` is the way there; only these two modules know
both kinds.
"""

from typing import TYPE_CHECKING, NamedTuple

from apportion.coord import records
from apportion.coord.classic import join
from apportion.coord.classic import timers as classic_timers
from apportion.coord.classic.live_state import select_protocol
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic.sync import MAX_GROUP_BYTES
from apportion.coord.classic_protocol import Joiner, checked_joiner
from apportion.coord.config import GroupSettings
from apportion.coord.consumer import classic_api, expressions, targets, timers
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.error_responses import RefusedWithoutMemberId
from apportion.coord.group import CONSUMER_PROTOCOL_TYPE
from apportion.coord.records import CoordinatorRecord
from apportion.coord.turn import Turn
from apportion.errors import Refused
from apportion.machine import Arrived
from apportion.topics import Topics
from apportion.wire.records.groups import ClassicMemberMetadata, GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from apportion.wire.messages.join_group import JoinGroupRequest

DOWNGRADING = ("bidirectional", "downgrade")
"""The policies under which a group with members may become a classic one."""


def join_consumer_group(turn: Turn, arrived: Arrived) -> None:
    """Handle JoinGroup to a consumer group.

    An empty group becomes classic; so does one whose last member of the consumer protocol is the
    static member that the joiner replaces. Otherwise the joiner becomes a classic member of the
    consumer group.
    Errors: those of `join.join` and of `classic_api.join`; if there are members, the response names
    none.
    """
    request: JoinGroupRequest = arrived.request
    joiner = checked_joiner(arrived, turn.settings)
    group = turn.ledger.consumer_group(request.group_id)
    if group.is_empty():
        # Before the tombstones: Kafka deletes the group also if it refuses the joiner, and the
        # epochs of the group then start again at 1.
        join.check_first_join(group.group_id, joiner)
        turn.emit_all(group.tombstones())
        join.join(turn, arrived)
        return
    try:
        replaced = replaced_consumer_or_none(turn, group, joiner)
        classic_api.join(turn, group, joiner) if replaced is None else replace_last_consumer(
            turn, group, replaced, joiner
        )
    except Refused as refusal:
        # Kafka's consumer groups answer so, unlike its classic groups.
        raise RefusedWithoutMemberId(refusal.code, refusal.why) from refusal


class RemainingMember(NamedTuple):
    """A member of the consumer group as the classic group gets it."""

    member: ConsumerGroupMember
    classic: ClassicMemberMetadata
    rebalance_timeout_ms: int


def remove_consumer_group_members(
    turn: Turn, group: ConsumerGroup, leaving: tuple[ConsumerGroupMember, ...]
) -> None:
    """Remove members from a consumer group; if only classic ones remain, downgrade it instead.

    `Turn.remove_members` calls it, whatever the reason: leaving, silence, lateness. A consumer
    group has one new epoch, and the next heartbeat of the others computes a new target; with nobody
    left there is nothing to compute. The members of a classic group rebalance.
    """
    classic_members = remaining_members(group, leaving)
    if (
        # Without members there is nothing to keep: the group stays an empty consumer group, and the
        # next JoinGroup makes it classic.
        classic_members
        and len(classic_members) + len(leaving) == len(group.saved.members)
        and may_downgrade(turn.settings, classic_members)
    ):
        # Before any tombstone: it reads what every member may be using.
        downgrade(turn, group, classic_members, leader=None)
    else:
        for member in leaving:
            timers.disarm(turn, group, member)
            turn.emit_all(records.member_tombstones(group.group_id, member.member_id))
            expressions.forget_if_unused(turn, group, member.metadata.subscribed_topic_regex)
        # After the tombstones: topics to which nobody subscribes any more leave the hash, or the
        # next heartbeat would bump the epoch once more.
        hashed = targets.metadata_hash(group, turn.topics)
        turn.emit(records.group_epoch(group.group_id, group.saved.epoch + 1, hashed))
        if group.is_empty():
            targets.save_target_of_nobody(turn, group)


def remaining_members(
    group: ConsumerGroup, leaving: tuple[ConsumerGroupMember, ...] = ()
) -> list[RemainingMember]:
    """Return the classic members of a consumer group, without those that are leaving."""
    leaving_ids = {member.member_id: None for member in leaving}
    members = (
        (member, member.metadata.classic_member_metadata) for member in group.saved.members.values()
    )
    return [
        RemainingMember(member, classic, member.metadata.rebalance_timeout_ms)
        for member, classic in members
        if classic is not None and member.member_id not in leaving_ids
    ]


def may_downgrade(settings: GroupSettings, classic_members: list[RemainingMember]) -> bool:
    """Return whether these members of a consumer group may be a classic group (KIP-848).

    The migration policy, `group.max.size`, a protocol that all support, and the size of the
    members' metadata decide. The metadata must leave half of the record to assignments.
    """
    names = [
        {protocol.name: None for protocol in remaining.classic.supported_protocols}
        for remaining in classic_members
    ]
    size_bytes = sum(
        len(protocol.metadata)
        for remaining in classic_members
        for protocol in remaining.classic.supported_protocols
    )
    return (
        settings.group_consumer_migration_policy in DOWNGRADING
        and len(classic_members) <= settings.group_max_size
        and size_bytes <= MAX_GROUP_BYTES // 2
        # Otherwise there would be no protocol for the generation. It can happen when a replaced
        # member's joiner offers others.
        and any(all(name in each for each in names) for name in names[0])
    )


def downgrade(
    turn: Turn, group: ConsumerGroup, classic_members: list[RemainingMember], leader: str | None
) -> ClassicGroup:
    """Replace a consumer group by a classic group of these members, its epoch as the generation.

    With a leader the generation goes on. Without one nobody assigned it, so all members have to
    rejoin; that is saved, so a crash changes nothing.
    """
    group_id = group.group_id
    protocol = select_protocol(
        [protocols.name for protocols in remaining.classic.supported_protocols]
        for remaining in classic_members
    )
    value = GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        # The epoch goes on as the generation: what fenced a member before the downgrade fences it
        # afterwards.
        generation=group.saved.epoch,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=turn.now.wall_ms,
        members=tuple(
            to_saved_member(group, remaining, protocol, turn.topics)
            for remaining in classic_members
        ),
    )
    # A deadline left behind would remove a member of the group after it has become a consumer group
    # again.
    for member in group.saved.members.values():
        timers.disarm(turn, group, member)
    # The tombstones first: a reader of the log never finds two kinds of group under one id.
    turn.emit_all(consumer_group_tombstones(group))
    turn.emit(records.classic_group(group_id, value))
    new = turn.ledger.classic_group_or_none(group_id)
    assert new is not None, f"group {group_id} was just made"
    # As after a load; without a leader this starts the rebalance.
    classic_timers.restore_group(turn, new)
    for remaining in classic_members:
        protocols = tuple(
            (protocol.name, bytes(protocol.metadata))
            for protocol in remaining.classic.supported_protocols
        )
        # The record has only the metadata of the chosen protocol. The members have just sent the
        # others, and the next vote needs them.
        new.live.update_protocols(new.live.members[remaining.member.member_id], protocols)
    turn.note(
        "info",
        f"group {group_id} has become a classic group of {len(classic_members)} members "
        f"at generation {value.generation}",
    )
    return new


def to_saved_member(
    group: ConsumerGroup, remaining: RemainingMember, protocol: str, topics: Topics
) -> MemberMetadata:
    """Return a classic member as the classic group saves it, with all that it may be using.

    Partitions that the member has yet to revoke are among them.
    """
    member, classic, rebalance_timeout_ms = remaining
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.metadata.instance_id,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        rebalance_timeout=rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=next(
            protocols.metadata
            for protocols in classic.supported_protocols
            if protocols.name == protocol
        ),
        assignment=classic_api.encode_assignment(group, classic, member.units(), topics),
    )


def consumer_group_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the records that delete a consumer group with its members, in Kafka's order."""
    by_member = [
        records.member_tombstones(group.group_id, member_id) for member_id in group.saved.members
    ]
    assignments, targets, members = (
        [tombstones[kind] for tombstones in by_member] for kind in range(3)
    )
    resolutions = [
        records.regular_expression(group.group_id, expression, None)
        for expression in group.saved.resolutions
    ]
    assignment_epoch, epoch = records.group_tombstones(group.group_id)
    return [*assignments, *targets, assignment_epoch, *members, *resolutions, epoch]


def replaced_consumer_or_none(
    turn: Turn, group: ConsumerGroup, joiner: Joiner
) -> ConsumerGroupMember | None:
    """Return the static member that JoinGroup replaces, if it is the last non-classic one.

    Errors: those of `classic_api.check_join`, if so.
    """
    if joiner.instance_id is None:
        return None
    static_member = group.static_member_or_none(joiner.instance_id)
    classic_members = remaining_members(group)
    if (
        # Any other member id is for `classic_api.join` to judge: a new member, or
        # FENCED_INSTANCE_ID.
        static_member is None
        or static_member.is_classic
        or (joiner.has_id and joiner.member_id != static_member.member_id)
    ):
        return None
    if len(classic_members) + 1 < len(group.saved.members):
        return None
    classic_api.check_join(turn, group, joiner)
    classic_members.append(remaining_joiner(static_member, joiner))
    return static_member if may_downgrade(turn.settings, classic_members) else None


def remaining_joiner(replaced: ConsumerGroupMember, joiner: Joiner) -> RemainingMember:
    """Return the static member that JoinGroup replaces, with the joiner's classic metadata."""
    return RemainingMember(
        replaced, classic_api.classic_metadata(joiner), joiner.rebalance_timeout_ms
    )


def replace_last_consumer(
    turn: Turn, group: ConsumerGroup, replaced: ConsumerGroupMember, joiner: Joiner
) -> None:
    """Downgrade a consumer group; give the joiner the membership of the replaced static member.

    The generation goes on if a rebalance would change nothing: everybody has its target, and the
    joiner subscribes to the same topics (KAFKA-20273). Then the response names the joiner as the
    leader (KIP-814), because somebody has to watch the topics.
    """
    # Ordered as a consumer group saves them (`merge_metadata`), so the two can be compared.
    topics = tuple(sorted(dict.fromkeys(classic_api.subscription_of(joiner).topics)))
    classic_members = [*remaining_members(group), remaining_joiner(replaced, joiner)]
    goes_on = topics == group.saved.subscription(replaced.metadata) and is_fully_reconciled(
        group, replaced, turn.topics
    )
    # Kafka names a leader in any case, and no member joins again; then two members may use one
    # partition (decision 33).
    new = downgrade(turn, group, classic_members, leader=replaced.member_id if goes_on else None)
    join.join_as_static_member(turn, new, replaced.member_id, joiner)


def is_fully_reconciled(
    group: ConsumerGroup, replaced: ConsumerGroupMember, topics: Topics
) -> bool:
    """Return whether a rebalance would change nothing for a consumer group's members.

    Nothing changes if every member has its target at the group's epoch, computed for the topics as
    they are. The replaced member may have left temporarily.
    """
    saved = group.saved
    return (
        saved.epoch == saved.assignment_epoch
        # The topics may have changed since the last heartbeat of any member.
        and saved.metadata_hash == targets.metadata_hash(group, topics)
        and all(
            member.target is not None
            and (member is replaced or member.epoch == saved.epoch)
            and sorted(member.units()) == sorted(member.target.tolist())
            for member in saved.members.values()
        )
    )
