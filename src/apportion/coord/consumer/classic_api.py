"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group (KIP-848).

A classic member's epoch is its generation. JoinGroup becomes a `Beat`: it sends the subscription
and the owned partitions of the first protocol, so a classic member revokes by rejoining. SyncGroup
returns the assignment, and Heartbeat announces a new one with REBALANCE_IN_PROGRESS. No classic
member leads, for the coordinator assigns. How a classic group becomes a consumer group is in
`migration/upgrade.py`.
Versions: those of the four APIs.
"""

from typing import TYPE_CHECKING, NamedTuple

from apportion.coord.classic_protocol import (
    Joiner,
    check_sync_request,
    leave_response,
    leaving_member_or_none,
    leaving_members,
    member_id_required,
    names_protocol,
)
from apportion.coord.consumer import fencing, timers
from apportion.coord.consumer.beat import JOINING, Beat
from apportion.coord.consumer.heartbeat import bump_epoch_if_changed, heartbeat, subscribed_units
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.targets import begin_target_if_due, has_newer_target
from apportion.coord.group import CONSUMER_PROTOCOL_TYPE, checked_member
from apportion.coord.group_counts import Removal
from apportion.coord.records import fits_in_key
from apportion.coord.turn import Turn
from apportion.errors import Code, DecodeError, Refused
from apportion.machine import Arrived
from apportion.topics import Topics
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    RecordTopicPartitions,
)
from apportion.wire.uuids import new_member_id

if TYPE_CHECKING:
    from apportion.wire.messages.leave_group import LeaveGroupRequest


class ClassicCaller(NamedTuple):
    """The classic member that sent a request, its group, and its classic metadata."""

    group: ConsumerGroup
    member: ConsumerGroupMember
    classic: ClassicMemberMetadata


def join(turn: Turn, group: ConsumerGroup, joiner: Joiner) -> None:
    """Handle JoinGroup of a classic member to a consumer group.

    The member joins or rejoins, and is reconciled; then it has a rebalance timeout for its
    SyncGroup. Nothing is parked, because the coordinator assigns.
    Errors, in this order: those of `check_join`; MEMBER_ID_REQUIRED (with an id),
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, INCONSISTENT_GROUP_PROTOCOL for a subscription that
    cannot be decoded.
    """
    check_join(turn, group, joiner)
    # A consumer group gives ids of its own form. Unlike a classic group it does not remember one
    # that it requires, as in Kafka.
    if not joiner.has_id:
        joiner = joiner._replace(member_id=new_member_id(joiner.fresh))
    if joiner.needs_id:
        turn.reply(joiner.ticket, member_id_required(joiner))
        return
    # `fencing.admit` lets a classic member replace another one, but not under a name that is wrong.
    if joiner.has_id and joiner.instance_id is not None:
        saved = group.saved
        checked_member(saved.members, saved.instances, joiner.member_id, joiner.instance_id)
    result = heartbeat(turn, to_beat(turn, group.group_id, joiner, subscription_of(joiner)))
    timers.arm_sync(turn, result.group, result.member)
    turn.reply(joiner.ticket, join_response(result.member, joiner.protocols[0][0]))


def check_join(turn: Turn, group: ConsumerGroup, joiner: Joiner) -> None:
    """Refuse a classic member's JoinGroup to a consumer group that it cannot be in.

    Errors, in this order: INCONSISTENT_GROUP_PROTOCOL where `group.consumer.migration.policy` is
    disabled, INVALID_REQUEST, GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL where the joiner
    shares no protocol with all classic members.
    """
    if turn.settings.group_consumer_migration_policy == "disabled":
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            f"Group {group.group_id} takes members of the consumer protocol only.",
        )
    if not fits_in_key(joiner.member_id):
        raise Refused(Code.INVALID_REQUEST, "MemberId is too long.")
    limit = turn.settings.group_consumer_max_size
    if not fencing.has_room(group, joiner.member_id, limit):
        raise fencing.group_full_error(group.group_id, limit)
    saved = group.saved
    # Nobody runs the protocol here, but a downgrade needs one that all classic members support.
    is_shared = any(
        saved.protocol_counts.get(name, 0) == saved.classic_member_count
        for name, _ in joiner.protocols
    )
    if joiner.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_shared:
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            f"No protocol is spoken by all classic members of group {group.group_id}.",
        )


def subscription_of(joiner: Joiner) -> ConsumerProtocolSubscription:
    """Decode the subscription of the first protocol in a JoinGroup.

    Errors: INCONSISTENT_GROUP_PROTOCOL if it is malformed, as in Kafka since 4.4.
    """
    name, metadata = joiner.protocols[0]
    try:
        return consumer_serde.decode(ConsumerProtocolSubscription, metadata)[1]
    except DecodeError as error:
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            f"The subscription of {name} is malformed: {error}",
        ) from error


def to_beat(
    turn: Turn, group_id: str, joiner: Joiner, subscription: ConsumerProtocolSubscription
) -> Beat:
    """Return a classic member's JoinGroup as a heartbeat with every field and its partitions."""
    return Beat(
        group_id=group_id,
        member_id=joiner.member_id,
        epoch=JOINING,
        caller=joiner.caller,
        instance_id=joiner.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=joiner.rebalance_timeout_ms,
        topics=subscription.topics,
        regex="",  # the classic protocol has none: it drops that of a member that it replaces
        owned=to_topic_partitions(subscription.owned_partitions, turn.topics),
        client_assignors=(),  # likewise
        classic=classic_metadata(joiner),
        access=joiner.access,
    )


def classic_metadata(joiner: Joiner) -> ClassicMemberMetadata:
    """Return the metadata that JoinGroup alone has."""
    return ClassicMemberMetadata(
        session_timeout_ms=joiner.session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in joiner.protocols
        ),
    )


def to_topic_partitions(
    partitions_by_name: tuple[ConsumerProtocolTopicPartition, ...], topics: Topics
) -> tuple[RecordTopicPartitions, ...]:
    """Return a JoinGroup's owned partitions by topic id, without those that do not exist."""
    return tuple(
        RecordTopicPartitions(
            topic_id=topic.id,
            partitions=tuple(index for index in named.partitions if 0 <= index < topic.partitions),
        )
        for named in partitions_by_name
        if (topic := topics.named(named.topic)) is not None
    )


def join_response(member: ConsumerGroupMember, protocol: str) -> JoinGroupResponse:
    """Return the JoinGroup response: the member's epoch is the generation, and nobody leads."""
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol,
        leader="",
        member_id=member.member_id,
    )


def sync(turn: Turn, arrived: Arrived) -> None:
    """Answer a classic member's SyncGroup with its assignment, and restart its session.

    Errors, in this order: INCONSISTENT_GROUP_PROTOCOL for version 5 without a protocol,
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS for an epoch that has passed, unless the member still has revocations to
    do in it.
    """
    request: SyncGroupRequest = arrived.request
    check_sync_request(arrived)
    group, member, classic = _checked_classic_member(turn, request)
    protocol = classic.supported_protocols[0].name
    if not names_protocol(request, CONSUMER_PROTOCOL_TYPE, protocol):
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL, f"Member {request.member_id} joined with {protocol}."
        )
    # UNREVOKED is meant to be at its old epoch: this response tells the member what to give up.
    if has_newer_target(turn, group, member) and member.state is not MemberState.UNREVOKED:
        timers.arm_rejoin(turn, group, member)
        raise Refused(Code.REBALANCE_IN_PROGRESS)
    timers.complete_sync(turn, group, member)
    assignment = encode_assignment(group, classic, member.assigned.units.tolist(), turn.topics)
    turn.reply(
        arrived.ticket,
        SyncGroupResponse(
            protocol_type=CONSUMER_PROTOCOL_TYPE, protocol_name=protocol, assignment=assignment
        ),
    )


def encode_assignment(
    group: ConsumerGroup, classic: ClassicMemberMetadata, units: list[int], topics: Topics
) -> bytes:
    """Encode a classic member's assignment for SyncGroup, as a ConsumerProtocolAssignment.

    The version is that of the member's subscription. Deleted topics are left out.
    """
    assigned = [
        ConsumerProtocolTopicPartition(topic=topic.name, partitions=partitions)
        for topic_id, partitions in group.saved.units.as_topics(units)
        if (topic := topics.with_id(topic_id)) is not None
    ]
    # A member may not be able to read a newer version than it writes.
    version, _ = consumer_serde.decode(
        ConsumerProtocolSubscription, classic.supported_protocols[0].metadata
    )
    value = ConsumerProtocolAssignment(assigned_partitions=tuple(assigned))
    return consumer_serde.encode(value, min(version, consumer_serde.NEWEST))


def classic_heartbeat(turn: Turn, arrived: Arrived) -> None:
    """Answer a classic member's Heartbeat, and restart its session.

    Errors, in this order: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS.
    """
    request: HeartbeatRequest = arrived.request
    group, member, _ = _checked_classic_member(turn, request)
    # Kafka notices new partitions at the next join. Until then no member would read them.
    bump_epoch_if_changed(turn, group, needs_target=False)
    begin_target_if_due(turn, group)
    # Also with REBALANCE_IN_PROGRESS, as in Kafka: the deadline REJOIN limits a member that does
    # not join.
    timers.arm_session(turn, group, member)
    group.live.counts.heartbeats += 1
    code = Code.NONE
    if must_rejoin(turn, group, member):
        timers.arm_rejoin(turn, group, member)
        code = Code.REBALANCE_IN_PROGRESS
    turn.reply(arrived.ticket, HeartbeatResponse(error_code=int(code)))


def must_rejoin(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether a classic member must send JoinGroup again, for the answer to its Heartbeat.

    It must if there is a newer target, or one can be computed, if the member has to revoke, or if
    every unit (a topic partition) that the member waits for is free now.
    """
    if has_newer_target(turn, group, member) or member.state is MemberState.UNREVOKED:
        return True
    if member.state is not MemberState.UNRELEASED or member.target is None:
        return False
    assigned, is_subscribed = member.assigned.as_mapping(), subscribed_units(turn, group, member)
    missing = (
        unit for unit in member.target.tolist() if unit not in assigned and is_subscribed(unit)
    )
    return not any(fencing.is_blocked(group, member.member_id, unit) for unit in missing)


def leave(turn: Turn, arrived: Arrived) -> None:
    """Remove the members that LeaveGroup names from a consumer group, with one new epoch.

    The named members may be of either protocol.
    Errors for one member: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID; up to version 2 the error of the
    whole response.
    """
    request: LeaveGroupRequest = arrived.request
    group = turn.ledger.consumer_group(request.group_id)
    saved = group.saved
    identities = leaving_members(arrived)
    leaving: dict[str, ConsumerGroupMember] = {}
    codes = []
    for identity in identities:
        member, code = leaving_member_or_none(identity, saved.members, saved.instances)
        if member is not None:
            leaving[member.member_id] = member
        codes.append(code)
    # One new epoch for the whole request, as in Kafka.
    if leaving:
        turn.remove_members(group, Removal.LEFT, *leaving.values())
    turn.reply(arrived.ticket, leave_response(arrived.version, identities, codes))


def _checked_classic_member(
    turn: Turn, request: SyncGroupRequest | HeartbeatRequest
) -> ClassicCaller:
    """Return the classic member that sent SyncGroup or Heartbeat at its own epoch, or refuse it.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    group, member_id = turn.ledger.consumer_group(request.group_id), request.member_id
    member = checked_member(
        group.saved.members, group.saved.instances, member_id, request.group_instance_id
    )
    classic = member.metadata.classic_member_metadata
    if classic is None:
        raise Refused(
            Code.UNKNOWN_MEMBER_ID,
            f"Member {member_id} of group {group.group_id} does not speak the classic protocol.",
        )
    if member.epoch != request.generation_id:
        raise Refused(
            Code.ILLEGAL_GENERATION,
            f"Member {member_id} is at generation {member.epoch}, not {request.generation_id}.",
        )
    return ClassicCaller(group, member, classic)
