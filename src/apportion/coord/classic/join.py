"""JoinGroup: a member joins for the first time, or again for the next generation.

The request waits until all members have joined.
Versions 0-9. 1: a rebalance timeout. 4: joining in two steps, first an id and then the membership
(KIP-394). 5: static members (KIP-345). 7: the protocol type (KIP-559). 8: a reason. 9:
SkipAssignment (KIP-814, whose text says 8).
"""

from apportion.coord import records
from apportion.coord.classic import rebalance
from apportion.coord.classic.live_state import ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.classic.rebalance import (
    arm_session,
    join_response,
    members_for_leader,
    park_join,
    remove_member,
    remove_pending_member,
    replace_member,
)
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.classic_protocol import (
    Joiner,
    checked_joiner,
    join_error,
    member_id_required,
)
from apportion.coord.group import checked_member
from apportion.coord.group_counts import Removal
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.group_states import GroupState
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.records.groups import GroupMetadataValue

NEW_MEMBER_TIMEOUT_MS = 300_000
"""The session timeout of a new member that waits for its first generation, as in Kafka: it cannot
heartbeat yet.
"""
# Kafka has no bound. But any client may ask for ids, and each costs memory for a session timeout.
MAX_PENDING_JOINS = 10_000
MIN_PENDING_JOINS = 100
"""Bounds for the number of pending member ids; within them, `group.max.size` is the limit."""


def join(turn: Turn, arrived: Arrived) -> None:
    """Handle JoinGroup for a classic group: park it for the next generation, or answer it at once.

    An answer at once has a new member id (MEMBER_ID_REQUIRED, KIP-394), or the current generation.
    Errors, in this order: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST,
    GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    # Before the group is looked up, as in Kafka: a wrong session timeout is reported for a missing
    # group, too.
    joiner = checked_joiner(arrived, turn.settings)
    group_id = arrived.request.group_id
    group = turn.ledger.classic_group_or_none(group_id)
    if group is None:
        # Before `create_group`: a refused request must leave no empty group behind, as it does in
        # Kafka.
        check_first_join(group_id, joiner)
        join_without_id(turn, create_group(turn, group_id), joiner)
    # Kafka's order: capacity before protocols and member id. A late member of a full group has to
    # be removed, whatever it sends.
    elif not has_room_for(group, joiner.member_id, turn.settings.group_max_size):
        reject_joiner(turn, group, joiner)
    else:
        check_protocols(group, joiner)
        if joiner.has_id:
            rejoin(turn, group, joiner)
        else:
            join_without_id(turn, group, joiner)


def check_first_join(group_id: str, joiner: Joiner) -> None:
    """Refuse a JoinGroup that names a group that does not exist and that cannot create it.

    Errors: UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL.
    """
    if joiner.has_id:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"There is no classic group {group_id}.")
    check_has_protocol(joiner)


def check_has_protocol(joiner: Joiner) -> None:
    """Refuse a JoinGroup without an assignor. Errors: INCONSISTENT_GROUP_PROTOCOL."""
    if not joiner.protocol_type or not joiner.protocols:
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            "A member needs a protocol type and at least one protocol.",
        )


def has_room_for(group: ClassicGroup, member_id: str, limit: int) -> bool:
    """Return whether a classic group may accept the sender of a JoinGroup (`group.max.size`).

    During PreparingRebalance only members that have joined count, so the last one to come back may
    find the group full. Kafka's `acceptJoiningMember` counts likewise.
    """
    live = group.live
    if live.state is GroupState.EMPTY:
        return True
    if live.state is GroupState.PREPARING_REBALANCE:
        return member_id in live.parked or len(live.parked) < limit
    return member_id in live.members or len(live.members) < limit


def check_protocols(group: ClassicGroup, joiner: Joiner) -> None:
    """Refuse a JoinGroup whose assignors have none in common with those of all members.

    Errors: INCONSISTENT_GROUP_PROTOCOL.
    """
    live = group.live
    if live.state is GroupState.EMPTY:
        check_has_protocol(joiner)
    elif joiner.protocol_type != live.protocol_type or not any(
        # Counters, because every member of a large group joins for every generation.
        live.protocol_counts.get(name, 0) == len(live.members)
        for name, _ in joiner.protocols
    ):
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            f"No protocol of type {live.protocol_type} that the member speaks is spoken "
            f"by all members of group {group.group_id}.",
        )


def create_group(turn: Turn, group_id: str) -> ClassicGroup:
    """Create an empty classic group at generation 0 for JoinGroup, and save it."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=turn.now.wall_ms)
    # As in Kafka, a record of generation 0: the group has to survive a load.
    turn.emit(records.classic_group(group_id, value))
    group = turn.ledger.classic_group_or_none(group_id)
    assert group is not None, f"group {group_id} was just made"
    group.live.state_since_ms = turn.now.wall_ms
    return group


def reject_joiner(turn: Turn, group: ClassicGroup, joiner: Joiner) -> None:
    """Answer JoinGroup to a full classic group with GROUP_MAX_SIZE_REACHED.

    A member that rejoins too late is removed, and a pending member id is void.
    """
    member = group.live.members.get(joiner.member_id)
    if member is not None:
        remove_member(turn, group, member, Removal.GROUP_FULL)
    remove_pending_member(turn, group, joiner.member_id)
    # Kafka lets the others wait until the rebalance timeout, though no member is missing any more.
    rebalance.complete_join_if_all_joined(turn, group)
    turn.reply(joiner.ticket, join_error(Code.GROUP_MAX_SIZE_REACHED, "", joiner.version))


def join_without_id(turn: Turn, group: ClassicGroup, joiner: Joiner) -> None:
    """Handle JoinGroup without a member id: of a new member, or a restarted static one."""
    replaced_id = (
        None if joiner.instance_id is None else group.live.instances.get(joiner.instance_id)
    )
    # KIP-345: in a classic group the last process to join with an instance id wins.
    if replaced_id is not None:
        join_as_static_member(turn, group, replaced_id, joiner)
    elif joiner.needs_id:
        require_member_id(turn, group, joiner)
    else:
        add_member(turn, group, joiner)


def join_as_static_member(
    turn: Turn, group: ClassicGroup, replaced_id: str, joiner: Joiner
) -> None:
    """Give a restarted static member its predecessor's membership, even in a full group (KIP-345).

    The joiner has a new id, or the same one where it comes back from the consumer protocol. The old
    id is fenced. A stable group whose protocol stays the same goes on without a rebalance.
    """
    live = group.live
    led_by = live.leader
    member = new_member(joiner)
    replace_member(turn, group, live.members[replaced_id], member)
    # Only the protocol counts, as in Kafka; the leader sees a changed subscription at the next
    # rebalance. The record names the new id, or a crash would give the instance back to the old
    # one.
    if live.state is GroupState.STABLE and live.select_protocol() == live.protocol:
        turn.emit(group.to_record())
        turn.reply(joiner.ticket, static_member_response(live, member, led_by, joiner.version))
    else:  # without an assignment, or one that another protocol (assignor) has to make
        park_join(turn, group, member, joiner.ticket)


def static_member_response(
    live: ClassicGroupLiveState, member: ClassicGroupMember, led_by: str | None, version: int
) -> JoinGroupResponse:
    """Return JoinGroup's response to a restarted static member in a stable group.

    From version 9 on it names the new member as the leader and sets SkipAssignment (KIP-814).
    Before that it names the predecessor's id as the leader, so that the new member does not assign;
    where the id is the same, it names no leader.
    led_by: the member id of the leader before the replacement.
    """
    if version < 9:
        return join_response(live, member, led_by="" if led_by == member.member_id else led_by)
    leads = live.leader == member.member_id
    return join_response(
        live, member, members_for_leader(live) if leads else (), skips_assignment=leads
    )


def require_member_id(turn: Turn, group: ClassicGroup, joiner: Joiner) -> None:
    """Answer JoinGroup with MEMBER_ID_REQUIRED and a new id (KIP-394).

    The id is valid for one session timeout. The oldest pending ids are dropped when there are too
    many.
    """
    pending = group.live.pending_joins
    while len(pending) >= max(
        MIN_PENDING_JOINS, min(MAX_PENDING_JOINS, turn.settings.group_max_size)
    ):
        remove_pending_member(turn, group, next(iter(pending)))
    pending[joiner.member_id] = None
    turn.deadlines.arm(
        (SESSION, group.group_id, joiner.member_id), turn.now.mono_ms + joiner.session_timeout_ms
    )
    turn.reply(joiner.ticket, member_id_required(joiner))


def add_member(turn: Turn, group: ClassicGroup, joiner: Joiner) -> None:
    """Add a new member to a classic group for its JoinGroup, and start a rebalance."""
    live, member = group.live, new_member(joiner)
    member.is_new = True
    # Only newcomers of an open rebalance extend the initial delay (`rebalance.expire_join`).
    live.has_newcomers = live.has_newcomers or live.state is GroupState.PREPARING_REBALANCE
    live.add(member)
    arm_session(turn, group, member, NEW_MEMBER_TIMEOUT_MS)
    park_join(turn, group, member, joiner.ticket)


def new_member(joiner: Joiner) -> ClassicGroupMember:
    """Return a new member with the metadata of its JoinGroup, not in the group yet."""
    member = ClassicGroupMember(
        joiner.member_id, joiner.instance_id, joiner.caller, joiner.protocol_type
    )
    member.session_timeout_ms = joiner.session_timeout_ms
    member.rebalance_timeout_ms = joiner.rebalance_timeout_ms
    member.protocols = joiner.protocols
    return member


def rejoin(turn: Turn, group: ClassicGroup, joiner: Joiner) -> None:
    """Handle JoinGroup with a member id: park it for the next generation, or answer it at once.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID; UNKNOWN_SERVER_ERROR for a dynamic member's id
    that comes back with a group instance id.
    """
    live = group.live
    if joiner.member_id in live.pending_joins:
        # Kafka calls this an illegal state: a static member never gets a pending id.
        if joiner.instance_id is not None:
            raise Refused(
                Code.UNKNOWN_SERVER_ERROR,
                f"Member {joiner.member_id} was given its id as a dynamic member.",
            )
        add_member(turn, group, joiner)
        return
    member = checked_member(live.members, live.instances, joiner.member_id, joiner.instance_id)
    leads = live.leader == member.member_id
    if live.state is not GroupState.PREPARING_REBALANCE and may_answer_at_once(
        live.state, leads, member.protocols == joiner.protocols
    ):
        members = members_for_leader(live) if leads else ()
        turn.reply(joiner.ticket, join_response(live, member, members))
        return
    live.update_protocols(member, joiner.protocols)
    member.session_timeout_ms = joiner.session_timeout_ms
    member.rebalance_timeout_ms = joiner.rebalance_timeout_ms
    park_join(turn, group, member, joiner.ticket)


def may_answer_at_once(state: GroupState, is_leader: bool, has_same_protocols: bool) -> bool:
    """Return whether JoinGroup between two rebalances is answered at once.

    The answer would be the current generation, whose response the member may have missed. A stable
    group's leader, however, rejoins because it wants a rebalance.
    """
    return has_same_protocols and (state is GroupState.COMPLETING_REBALANCE or not is_leader)
