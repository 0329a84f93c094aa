"""The upgrade of a classic group to a consumer group (KIP-848).

A group is upgraded when the first member of the consumer protocol joins. A group without members is
upgraded at once, whatever the migration policy says. With members, each keeps what it may be using
(decision 33). The upgrade is one append: tombstones of the classic group, then the records of the
consumer group, then those of the joining member. `downgrade.py` is the way back; only these two
modules know both kinds.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from apportion.coord import records
from apportion.coord.classic import timers as classic_timers
from apportion.coord.classic.live_state import ClassicGroupMember as ClassicMember
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic.sync import MAX_GROUP_BYTES
from apportion.coord.consumer import classic_api, heartbeat_api, timers
from apportion.coord.consumer.beat import JOINING
from apportion.coord.consumer.expressions import check_expression
from apportion.coord.consumer.fencing import group_full_error
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.targets import metadata_hash
from apportion.coord.group import CONSUMER_PROTOCOL_TYPE
from apportion.coord.turn import Turn
from apportion.errors import Code, DecodeError, Refused
from apportion.machine import Arrived
from apportion.topics import IdPartition, TopicId, Topics, grouped
from apportion.wire.codec import Buffer
from apportion.wire.group_states import GroupState
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    RecordTopicPartitions,
)

if TYPE_CHECKING:
    from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

UPGRADING = ("bidirectional", "upgrade")
"""The policies under which a group with members may become a consumer group."""

KNOWN_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Assignors that have no use for user data in an assignment, though librdkafka's leaders write
some. What a custom assignor's user data means is unknown.
"""

NO_ASSIGNMENT = consumer_serde.encode(ConsumerProtocolAssignment())
NO_HASH = -1
"""The metadata hash that equals no computed one, so the next heartbeat bumps the epoch. (0 is the
hash of no topics.)
"""


def heartbeat_to_classic_group(turn: Turn, arrived: Arrived) -> None:
    """Handle ConsumerGroupHeartbeat to a classic group: upgrade it, and let the member join.

    Errors: those of `heartbeat_api.check_request`; GROUP_ID_NOT_FOUND if the member does not join;
    INVALID_REGULAR_EXPRESSION; GROUP_ID_NOT_FOUND if the group cannot be upgraded;
    GROUP_MAX_SIZE_REACHED.
    """
    request: ConsumerGroupHeartbeatRequest = arrived.request
    # First of all: once the group is converted, the request cannot be refused any more.
    heartbeat_api.check_request(request, arrived.version, turn.settings)
    group = turn.ledger.classic_group_or_none(request.group_id)
    assert group is not None, "the table of the shard knows the kind"
    if request.member_epoch != JOINING:
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {group.group_id}.")
    check_expression(request.subscribed_topic_regex)
    if not group.live.members:
        # Member ids may be pending although there are no members, and their deadlines have to go.
        classic_timers.release_members(turn, group, Code.REBALANCE_IN_PROGRESS)
        turn.emit_all(group.tombstones())
    else:
        check_upgrade(turn, group, request.member_id)
        upgrade(turn, group, upgraded_members(turn, group))
    heartbeat_api.consumer_group_heartbeat(turn, arrived)


class UpgradedMember(NamedTuple):
    """A member of the classic group as the consumer group gets it.

    assigned: in order, each once. unrevoked: what it may use beyond its assignment, likewise.
    """

    member: ClassicMember
    protocols: tuple[ClassicProtocol, ...]
    subscription: ConsumerProtocolSubscription
    assigned: tuple[IdPartition, ...]
    unrevoked: tuple[IdPartition, ...] = ()


def check_upgrade(turn: Turn, group: ClassicGroup, joiner_id: str) -> None:
    """Refuse to upgrade a classic group that must stay classic (ConsumerGroupHeartbeat, KIP-848).

    Errors: GROUP_ID_NOT_FOUND; GROUP_MAX_SIZE_REACHED if the joiner has no room.
    """
    settings, size = turn.settings, len(group.live.members)
    limit = settings.group_consumer_max_size
    if settings.group_consumer_migration_policy not in UPGRADING:
        refuse_upgrade(
            turn,
            group,
            f"group.consumer.migration.policy is {settings.group_consumer_migration_policy}.",
        )
    if group.live.protocol_type != CONSUMER_PROTOCOL_TYPE:
        refuse_upgrade(
            turn,
            group,
            f"the protocol type of its members is {group.live.protocol_type}, not consumer.",
        )
    if size > limit:
        refuse_upgrade(turn, group, f"it has more than {limit} members.")
    if (
        sum(
            len(metadata)
            for member in group.live.members.values()
            for _, metadata in member.protocols
        )
        > MAX_GROUP_BYTES
    ):
        refuse_upgrade(
            turn, group, f"the metadata of its members is more than {MAX_GROUP_BYTES} bytes."
        )
    # `fencing.admit` would refuse the joiner as well, but only after the records of the upgrade.
    if size == limit and joiner_id not in group.live.members:
        raise group_full_error(group.group_id, limit)


def refuse_upgrade(
    turn: Turn, group: ClassicGroup, why: str, code: Code = Code.GROUP_ID_NOT_FOUND
) -> NoReturn:
    """Refuse the joiner of a classic group, and log the reason, once for each reason.

    Few clients show the error text.
    """
    # A client that is refused tries again every second or so.
    if group.live.logged_upgrade_blocker != why:
        group.live.logged_upgrade_blocker = why
        turn.note(
            "warning",
            f"group {group.group_id} stays a classic group, and a consumer cannot join it: {why}",
        )
    raise Refused(code, f"Classic group {group.group_id} cannot become a consumer group: {why}")


def upgraded_members(turn: Turn, group: ClassicGroup) -> list[UpgradedMember]:
    """Return every member of the classic group with all that it may be using.

    A member may be using its last assignment, and all that it has not revoked yet. The protocol
    that all would choose comes first, because it counts for a classic member. Errors:
    GROUP_ID_NOT_FOUND for bytes that cannot be decoded, and for a custom assignor's user data,
    which would be lost; those of `with_unrevoked`.
    """
    name = group.live.select_protocol()
    assignments = last_assignments(group)
    members: list[UpgradedMember] = []
    for member in group.live.members.values():
        # Kafka keeps the member's order, and refuses its SyncGroup if the generation has another
        # protocol than its first: INCONSISTENT_GROUP_PROTOCOL, after which clients give up.
        protocols = sorted(member.protocols, key=lambda protocol: protocol[0] != name)
        try:
            _, subscription = consumer_serde.decode(ConsumerProtocolSubscription, protocols[0][1])
            # b"" is the assignment of a member that the leader left out.
            assigned = consumer_serde.decode(
                ConsumerProtocolAssignment, assignments.get(member.member_id) or NO_ASSIGNMENT
            )[1]
        except DecodeError as error:
            refuse_upgrade(
                turn,
                group,
                f"subscription or assignment of member {member.member_id} is malformed: {error}",
            )
        # The coordinator cannot run a custom assignor, nor hand out its data. Kafka refuses user
        # data of any assignor, so librdkafka's cooperative-sticky groups cannot migrate there.
        if assigned.user_data and name not in KNOWN_ASSIGNORS:
            refuse_upgrade(
                turn, group, f"its custom assignor {name} gives user data to {member.member_id}."
            )
        classic_protocols = tuple(
            ClassicProtocol(name=protocol, metadata=metadata) for protocol, metadata in protocols
        )
        owned = existing_partitions(assigned.assigned_partitions, turn.topics)
        members.append(UpgradedMember(member, classic_protocols, subscription, owned))
    return with_unrevoked(turn, group, members)


def last_assignments(group: ClassicGroup) -> Mapping[str, Buffer]:
    """Return each classic member's saved assignment, by member id, for the upgrade of the group.

    A static member also gets that of its predecessor.
    """
    # The saved ones, not the live ones: a rebalance that is interrupted drops those, while the
    # members go on using what they were last given.
    saved = () if group.saved is None else group.saved.members
    instances = group.live.instances
    static = (
        (instances.get(member.group_instance_id or ""), member.assignment)
        for member in saved
        if member.group_instance_id is not None
    )
    return {member_id: assignment for member_id, assignment in static if member_id is not None} | {
        member.member_id: member.assignment for member in saved
    }


def with_unrevoked(
    turn: Turn, group: ClassicGroup, members: list[UpgradedMember]
) -> list[UpgradedMember]:
    """Return the members, each also with the partitions that it claims and nobody is assigned.

    An assignment took such a partition away, but the member may not know that yet. Of two members
    that claim a partition, the one of the later generation has it.
    Errors: UNKNOWN_SERVER_ERROR for a partition that is assigned twice, as in Kafka.
    """
    owners: dict[IdPartition, str] = {}
    for upgraded in members:
        for partition in upgraded.assigned:
            if partition in owners:
                why = f"{owners[partition]} and {upgraded.member.member_id} have one partition."
                refuse_upgrade(turn, group, why, Code.UNKNOWN_SERVER_ERROR)
            owners[partition] = upgraded.member.member_id
    unrevoked: dict[str, list[IdPartition]] = {}
    for upgraded in sorted(
        members,
        # KIP-792: the later generation is right. The id only makes the order definite.
        key=lambda upgraded: (-upgraded.subscription.generation_id, upgraded.member.member_id),
    ):
        for partition in existing_partitions(upgraded.subscription.owned_partitions, turn.topics):
            if partition not in owners:
                owners[partition] = upgraded.member.member_id
                unrevoked.setdefault(upgraded.member.member_id, []).append(partition)
    return [
        upgraded._replace(unrevoked=tuple(sorted(unrevoked.get(upgraded.member.member_id, ()))))
        for upgraded in members
    ]


def is_fully_assigned(members: list[UpgradedMember], topics: Topics) -> bool:
    """Return whether all partitions of a classic group's topics are assigned, to subscribers.

    The answer is False as well if a member has yet to revoke anything.
    """
    unassigned: dict[TopicId, int] = {}  # -> how many partitions of it are nobody's
    for upgraded in members:
        partition_counts = {
            topic.id: topic.partitions
            for name in upgraded.subscription.topics
            if (topic := topics.named(name)) is not None
        }
        # A topic to which the member no longer subscribes has to be taken from it, so the group
        # needs a new epoch.
        if upgraded.unrevoked or any(
            partition.topic_id not in partition_counts for partition in upgraded.assigned
        ):
            return False
        for topic_id, partitions in partition_counts.items():
            unassigned.setdefault(topic_id, partitions)
        for partition in upgraded.assigned:
            unassigned[partition.topic_id] -= 1
    return not any(unassigned.values())


def upgrade(turn: Turn, group: ClassicGroup, members: list[UpgradedMember]) -> None:
    """Replace the classic group by a consumer group of the same members.

    The generation becomes the epoch. Parked requests get REBALANCE_IN_PROGRESS. The order of the
    records is Kafka's: the classic group's tombstone; members and epoch; targets and their epoch;
    current assignments. If the group is not stable and fully assigned, it is saved without a
    metadata hash, so the joiner causes a new epoch in any case.
    """
    # The generation goes on as the epoch: the members name it in their next requests.
    group_id, epoch = group.group_id, group.live.generation
    is_whole = group.live.state is GroupState.STABLE and is_fully_assigned(members, turn.topics)
    # The members join again, now as classic members of the consumer group.
    classic_timers.release_members(turn, group, Code.REBALANCE_IN_PROGRESS)
    turn.emit_all(group.tombstones())
    turn.emit_all(
        records.member_metadata(group_id, upgraded.member.member_id, member_metadata(upgraded))
        for upgraded in members
    )
    new = turn.ledger.consumer_group(group_id)
    # After the members' records: the hash covers the topics to which they subscribe.
    turn.emit(
        records.group_epoch(
            group_id, epoch, metadata_hash(new, turn.topics) if is_whole else NO_HASH
        )
    )
    for upgraded in members:
        target = grouped(upgraded.assigned).items()
        turn.emit(records.target_assignment(group_id, upgraded.member.member_id, target))
    turn.emit(records.assignment_epoch(group_id, epoch, turn.now.wall_ms))
    for upgraded in members:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch,
            # UNREVOKED holds those units back from every other member until this one has joined
            # without them (decision 33).
            state=int(MemberState.UNREVOKED if upgraded.unrevoked else MemberState.STABLE),
            assigned_partitions=by_topic(upgraded.assigned),
            partitions_pending_revocation=by_topic(upgraded.unrevoked),
        )
        turn.emit(records.current_assignment(group_id, upgraded.member.member_id, value))
    # As after a load: each classic member has its own whole session timeout from now on.
    timers.restore_group(turn, new)
    turn.note(
        "info",
        f"group {group_id} has become a consumer group of {len(members)} classic members "
        f"at epoch {epoch}",
    )


def member_metadata(upgraded: UpgradedMember) -> ConsumerGroupMemberMetadataValue:
    """Return a classic member's metadata as a consumer group saves it."""
    member, subscription = upgraded.member, upgraded.subscription
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(dict.fromkeys(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms, supported_protocols=upgraded.protocols
        ),
    )


def existing_partitions(
    parts: tuple[ConsumerProtocolTopicPartition, ...], topics: Topics
) -> tuple[IdPartition, ...]:
    """Return those of the partitions that exist, in order, each once."""
    known = classic_api.to_topic_partitions(parts, topics)
    partitions = (IdPartition(part.topic_id, index) for part in known for index in part.partitions)
    return tuple(sorted(dict.fromkeys(partitions)))


def by_topic(partitions: tuple[IdPartition, ...]) -> tuple[RecordTopicPartitions, ...]:
    """Return the partitions as a record of a consumer group has them."""
    return tuple(
        RecordTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in grouped(partitions).items()
    )
