"""Where a member of one protocol meets a group of the other kind: the only room that knows both kinds.

A group without members becomes the other kind at once, whatever the migration policy says. One with members goes on as the other
kind, each member with what it may be using (decision 33): upgraded when the first member of the consumer protocol joins, and
downgraded when the last one goes. Either is a list of records in one append with what caused it: tombstones of the old group, then
the new one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, NoReturn

from apportion.coord import consumer, consumer_classic, records
from apportion.coord.classic import expire as classic_expire
from apportion.coord.classic import join
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic.state import Member as ClassicMember
from apportion.coord.classic.state import State as ClassicState
from apportion.coord.classic.sync import LARGEST_BYTES
from apportion.coord.classic.vote import elect
from apportion.coord.config import GroupSettings
from apportion.coord.group import CONSUMER
from apportion.coord.incremental import expire
from apportion.coord.incremental.beat import JOINING
from apportion.coord.incremental.fencing import full_group
from apportion.coord.incremental.reconcile import State
from apportion.coord.incremental.state import IncrementalGroup, Member
from apportion.coord.incremental.targets import metadata_hash
from apportion.coord.records import Record
from apportion.coord.turn import Ask, Turn
from apportion.errors import Code, DecodeError, Refused
from apportion.topics import TopicId, Topics
from apportion.wire import consumer_protocol
from apportion.wire.codec import Buffer
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from apportion.wire.messages.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataValue,
    MemberMetadata,
    TopicPartitions,
)
from apportion.wire.messages.join_group import JoinGroupRequest

UPGRADING = ("bidirectional", "upgrade")
DOWNGRADING = ("bidirectional", "downgrade")
"""The policies under which a group with members may become a consumer group, and a classic one."""

KNOWN_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""They have no use for user data in an assignment, though librdkafka's leaders write some; what a stranger's means nobody knows."""

NOTHING = consumer_protocol.encode(ConsumerProtocolAssignment())
NO_HASH = -1
"""What is saved in place of a hash where none shall agree with it; 0 is that of no topics."""

Place = tuple[TopicId, int]


def beat_classic(turn: Turn, ask: Ask[ConsumerGroupHeartbeatRequest]) -> None:
    """A member of the consumer protocol joins a classic group, which is a consumer group from now on.

    Errors: those of `consumer.check`; GROUP_ID_NOT_FOUND if the member does not join or the group cannot be upgraded;
    GROUP_MAX_SIZE_REACHED.
    """
    consumer.check(ask.body, ask.version, turn.settings)
    group = turn.ledger.classic_or_none(ask.body.group_id)
    assert group is not None, "the table of the shard knows the kind"
    if ask.body.member_epoch != JOINING:
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {group.group_id}.")
    if not group.live.members:
        classic_expire.disband(turn, group, Code.REBALANCE_IN_PROGRESS)
        turn.emit_all(group.tombstones())
    else:
        check_upgrade(turn, group, ask.body.member_id)
        upgrade(turn, group, heirs_of(turn, group))
    consumer.beat(turn, ask)


def join_incremental(turn: Turn, ask: Ask[JoinGroupRequest]) -> None:
    """A classic member joins a consumer group; one without members, or whose last member of the other protocol gives its place to
    the joiner, is a classic group from now on.

    Errors: those of `join.join` and of `consumer_classic.join`.
    """
    join.check(ask, turn.settings)
    group = turn.ledger.incremental(ask.body.group_id)
    if group.is_empty():
        join.check_first(ask)
        turn.emit_all(group.tombstones())
        join.join(turn, ask)
    elif (replaced := replaced_last_or_none(turn, group, ask.body)) is not None:
        succeed(turn, group, replaced, ask.body)
        join.join(turn, ask)
    else:
        consumer_classic.join(turn, ask)


class Heir(NamedTuple):
    """A member of a classic group as its consumer group will know it. owes: what it may be using beside its assignment."""

    member: ClassicMember
    protocols: tuple[ClassicProtocol, ...]
    subscription: ConsumerProtocolSubscription
    assigned: tuple[TopicPartitions, ...]
    owes: tuple[TopicPartitions, ...] = ()


def check_upgrade(turn: Turn, group: ClassicGroup, joiner_id: str) -> None:
    """Refuses what must stay a classic group. Errors: GROUP_ID_NOT_FOUND; GROUP_MAX_SIZE_REACHED if the joiner has no place."""
    settings, size = turn.settings, len(group.live.members)
    limit = settings.group_consumer_max_size
    if settings.group_consumer_migration_policy not in UPGRADING:
        refuse_upgrade(turn, group, f"group.consumer.migration.policy is {settings.group_consumer_migration_policy}.")
    if group.live.protocol_type != CONSUMER:
        refuse_upgrade(turn, group, f"its members are no consumers but speak the {group.live.protocol_type} protocol.")
    if size > limit:
        refuse_upgrade(turn, group, f"it has more than {limit} members.")
    if sum(len(said) for member in group.live.members.values() for _, said in member.protocols) > LARGEST_BYTES:
        refuse_upgrade(turn, group, f"what its members say is more than {LARGEST_BYTES} bytes.")
    if size == limit and joiner_id not in group.live.members:
        raise full_group(group.group_id, limit)


def refuse_upgrade(turn: Turn, group: ClassicGroup, why: str) -> NoReturn:
    """Refuses a member whose protocol the group cannot learn; few clients show why, so the process's log does, once."""
    if group.live.stays_because != why:
        group.live.stays_because = why
        turn.note("warning", f"group {group.group_id} stays a classic group, and a consumer cannot join it: {why}")
    raise Refused(Code.GROUP_ID_NOT_FOUND, f"Classic group {group.group_id} cannot become a consumer group: {why}")


def heirs_of(turn: Turn, group: ClassicGroup) -> list[Heir]:
    """Every member, with all that it may be using: its last assignment, and what it owes.

    The protocol that all would elect stands first, for it is what they believe in. Errors: GROUP_ID_NOT_FOUND for bytes that
    cannot be read, for a partition that two members have, and for a custom assignor's user data, which no member would see again.
    """
    name = group.live.elected()
    given = last_assignments(group)
    heirs: list[Heir] = []
    for member in group.live.members.values():
        protocols = sorted(member.protocols, key=lambda protocol: protocol[0] != name)
        try:
            _, subscription = consumer_protocol.decode(ConsumerProtocolSubscription, protocols[0][1])
            assigned = consumer_protocol.decode(ConsumerProtocolAssignment, given.get(member.member_id) or NOTHING)[1]
        except DecodeError as error:
            refuse_upgrade(turn, group, f"what member {member.member_id} has is malformed: {error}")
        if assigned.user_data and name not in KNOWN_ASSIGNORS:
            refuse_upgrade(turn, group, f"its custom assignor {name} gives user data to {member.member_id}.")
        known = tuple(ClassicProtocol(name=protocol, metadata=metadata) for protocol, metadata in protocols)
        parts = grouped(dict.fromkeys(places(consumer_classic.parts(assigned.assigned_partitions, turn.topics))))
        heirs.append(Heir(member, known, subscription, parts))
    return with_debts(turn, group, heirs)


def last_assignments(group: ClassicGroup) -> Mapping[str, Buffer]:
    """What the log says that each member, or whoever had its instance's place before it, was given."""
    saved = () if group.saved is None else group.saved.members
    instances = group.live.instances
    static = (
        (instances.get(each.group_instance_id or ""), each.assignment) for each in saved if each.group_instance_id is not None
    )
    return {who: given for who, given in static if who is not None} | {each.member_id: each.assignment for each in saved}


def with_debts(turn: Turn, group: ClassicGroup, heirs: list[Heir]) -> list[Heir]:
    """The heirs with what they owe: what they said that they own and what no assignment gives to anybody.

    An assignment has taken it away, but the member may not have heard of that. Of two that say so, the one that said it of the
    younger generation is right. Errors: GROUP_ID_NOT_FOUND.
    """
    holders: dict[Place, str] = {}
    for heir in heirs:
        for place in places(heir.assigned):
            if place in holders:
                refuse_upgrade(turn, group, f"{holders[place]} and {heir.member.member_id} have one partition.")
            holders[place] = heir.member.member_id
    debts: dict[str, list[Place]] = {}
    for heir in sorted(heirs, key=lambda heir: (-heir.subscription.generation_id, heir.member.member_id)):
        for place in places(consumer_classic.parts(heir.subscription.owned_partitions, turn.topics)):
            if place not in holders:
                holders[place] = heir.member.member_id
                debts.setdefault(heir.member.member_id, []).append(place)
    return [heir._replace(owes=grouped(debts.get(heir.member.member_id, ()))) for heir in heirs]


def gives_everything(heirs: list[Heir], topics: Topics) -> bool:
    """Every partition of the topics that the heirs subscribe to is some subscriber's own, nobody has more, and nobody owes any."""
    wanted: dict[TopicId, int] = {}  # -> how many partitions of it are nobody's
    for heir in heirs:
        wishes = {topic.id: topic.partitions for name in heir.subscription.topics if (topic := topics.named(name)) is not None}
        if heir.owes or any(part.topic_id not in wishes for part in heir.assigned):
            return False
        for topic_id, partitions in wishes.items():
            wanted.setdefault(topic_id, partitions)
        for part in heir.assigned:
            wanted[part.topic_id] -= len(part.partitions)
    return not any(wanted.values())


def upgrade(turn: Turn, group: ClassicGroup, heirs: list[Heir]) -> None:
    """The group is a consumer group of the same members at the epoch that was its generation; who waited is told to join again.

    Kafka's order: the old group's tombstone; members, epoch; targets and their epoch; what each member has. If not everything is
    given away, or members wait for another generation, the group has no hash of its topics: then the joiner makes a new epoch
    whoever it is.
    """
    group_id, epoch = group.group_id, group.live.generation
    is_whole = group.live.state is ClassicState.STABLE and gives_everything(heirs, turn.topics)
    classic_expire.disband(turn, group, Code.REBALANCE_IN_PROGRESS)
    turn.emit_all(group.tombstones())
    turn.emit_all(records.member(group_id, heir.member.member_id, said_by(heir)) for heir in heirs)
    new = turn.ledger.incremental(group_id)
    turn.emit(records.group_epoch(group_id, epoch, metadata_hash(new, turn.topics) if is_whole else NO_HASH))
    for heir in heirs:
        target = [(part.topic_id, part.partitions) for part in heir.assigned]
        turn.emit(records.target(group_id, heir.member.member_id, target))
    turn.emit(records.assignment_epoch(group_id, epoch, turn.now.wall_ms))
    for heir in heirs:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch,
            state=int(State.UNREVOKED if heir.owes else State.STABLE),
            assigned_partitions=heir.assigned,
            partitions_pending_revocation=heir.owes,
        )
        turn.emit(records.current(group_id, heir.member.member_id, value))
    expire.revive(turn, new)
    turn.note("info", f"group {group_id} has become a consumer group of {len(heirs)} classic members at epoch {epoch}")


def said_by(heir: Heir) -> ConsumerGroupMemberMetadataValue:
    """What the member has said, as a consumer group keeps it."""
    member, subscription = heir.member, heir.subscription
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
            session_timeout_ms=member.session_timeout_ms, supported_protocols=heir.protocols
        ),
    )


class Stayer(NamedTuple):
    """A member of a consumer group as its classic group will know it."""

    member: Member
    classic: ClassicMemberMetadata
    rebalance_timeout_ms: int


def downgrade_if_due(turn: Turn, group: IncrementalGroup, leaving: tuple[Member, ...]) -> bool:
    """True where the group is a classic one of those who stay, since none of them speaks the consumer protocol. They rebalance."""
    gone = {member.member_id: None for member in leaving}
    stayers = [stayer for stayer in stayers_of(group) if stayer.member.member_id not in gone]
    if not stayers or len(stayers) + len(gone) < len(group.saved.members) or not may_downgrade(turn.settings, stayers):
        return False
    downgrade(turn, group, stayers, leader=None)
    return True


def stayers_of(group: IncrementalGroup) -> list[Stayer]:
    """The classic members of the group."""
    members = ((member, member.said.classic_member_metadata) for member in group.saved.members.values())
    return [Stayer(member, classic, member.said.rebalance_timeout_ms) for member, classic in members if classic is not None]


def may_downgrade(settings: GroupSettings, stayers: list[Stayer]) -> bool:
    """These members can be a classic group, by the policy, by their number, by a protocol that all of them speak, and by what they
    say, which leaves half of the record to their assignments.
    """
    names = [{protocol.name: None for protocol in stayer.classic.supported_protocols} for stayer in stayers]
    size_bytes = sum(len(protocol.metadata) for stayer in stayers for protocol in stayer.classic.supported_protocols)
    return (
        settings.group_consumer_migration_policy in DOWNGRADING
        and len(stayers) <= settings.group_max_size
        and size_bytes <= LARGEST_BYTES // 2
        and any(all(name in each for each in names) for name in names[0])
    )


def downgrade(turn: Turn, group: IncrementalGroup, stayers: list[Stayer], leader: str | None) -> None:
    """The group is a classic one of these members; its generation is the epoch that the group had, and it goes on as it is if it
    has a leader. If it has none, nobody made that generation, and all have to join: that is saved, so that a crash changes nothing.
    """
    group_id = group.group_id
    protocol = elect([spoken.name for spoken in stayer.classic.supported_protocols] for stayer in stayers)
    value = GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=group.saved.epoch,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=turn.now.wall_ms,
        members=tuple(as_saved(group, stayer, protocol, turn.topics) for stayer in stayers),
    )
    for member in group.saved.members.values():
        expire.disarm(turn, group, member)
    turn.emit_all(farewell(group))
    turn.emit(records.classic_group(group_id, value))
    new = turn.ledger.classic_or_none(group_id)
    assert new is not None, f"group {group_id} was just made"
    classic_expire.revive(turn, new)
    for stayer in stayers:
        spoken = tuple((each.name, bytes(each.metadata)) for each in stayer.classic.supported_protocols)
        new.live.say(new.live.members[stayer.member.member_id], spoken)
    turn.note("info", f"group {group_id} has become a classic group of {len(stayers)} members at generation {value.generation}")


def as_saved(group: IncrementalGroup, stayer: Stayer, protocol: str, topics: Topics) -> MemberMetadata:
    """The member with all that it may be using, be it to be given up or not."""
    member, classic, rebalance_timeout_ms = stayer
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.said.instance_id,
        client_id=member.said.client_id,
        client_host=member.said.client_host,
        rebalance_timeout=rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=next(spoken.metadata for spoken in classic.supported_protocols if spoken.name == protocol),
        assignment=consumer_classic.assignment(group, classic, member.holds(), topics),
    )


def farewell(group: IncrementalGroup) -> list[Record]:
    """The records after which the group is forgotten, whoever is in it, in the order in which Kafka forgets."""
    gone = [records.member_tombstones(group.group_id, member_id) for member_id in group.saved.members]
    holds, targets, members = ([each[kind] for each in gone] for kind in range(3))
    assignment_epoch, epoch = records.group_tombstones(group.group_id)
    return [*holds, *targets, assignment_epoch, *members, epoch]


def replaced_last_or_none(turn: Turn, group: IncrementalGroup, body: JoinGroupRequest) -> Member | None:
    """The static member that gives its place to the joiner, if it is the last one that speaks the consumer protocol.

    Errors: those of `consumer_classic.check_join`, if so.
    """
    if body.group_instance_id is None or body.member_id:
        return None
    seated = group.static_member_or_none(body.group_instance_id)
    stayers = stayers_of(group)
    if seated is None or seated.is_classic or len(stayers) + 1 < len(group.saved.members):
        return None
    consumer_classic.check_join(turn, group, body)
    heir = Stayer(seated, consumer_classic.metadata_of(body), 0)
    has_room = len(group.saved.members) < turn.settings.group_max_size
    return seated if has_room and may_downgrade(turn.settings, [*stayers, heir]) else None


def succeed(turn: Turn, group: IncrementalGroup, replaced: Member, body: JoinGroupRequest) -> None:
    """The group is a classic one in which the replaced member speaks as its successor will, so that it can be replaced there.

    It goes on as it is if nothing would come of a rebalance: every member has what it shall have, and the successor wants what its
    predecessor did (KAFKA-20273). Then the successor leads, and is told so (KIP-814), for somebody has to see topics change.
    """
    topics = tuple(sorted(dict.fromkeys(consumer_classic.subscription_of(body).topics)))
    heir = Stayer(replaced, consumer_classic.metadata_of(body), consumer_classic.rebalance_timeout_ms(body))
    stayers = [*stayers_of(group), heir]
    goes_on = topics == replaced.said.subscribed_topic_names and is_settled(group, replaced, turn.topics)
    downgrade(turn, group, stayers, leader=replaced.member_id if goes_on else None)


def is_settled(group: IncrementalGroup, replaced: Member, topics: Topics) -> bool:
    """Every member has its target, made of the topics as they are, and is at its epoch; one that is replaced may be away."""
    saved = group.saved
    return (
        saved.epoch == saved.assignment_epoch
        and saved.metadata_hash == metadata_hash(group, topics)
        and all(
            member.target is not None
            and (member is replaced or member.epoch == saved.epoch)
            and sorted(member.holds()) == sorted(member.target.tolist())
            for member in saved.members.values()
        )
    )


def places(parts: Iterable[TopicPartitions]) -> Iterator[Place]:
    """Partitions one by one."""
    return ((part.topic_id, index) for part in parts for index in part.partitions)


def grouped(some: Iterable[Place]) -> tuple[TopicPartitions, ...]:
    """Partitions by topic, both ascending."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, index in sorted(some):
        topics.setdefault(topic_id, []).append(index)
    return tuple(TopicPartitions(topic_id=topic_id, partitions=tuple(indexes)) for topic_id, indexes in topics.items())
