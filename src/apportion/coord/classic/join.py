"""JoinGroup: a member joins for the first time, or again for the next generation.

The request waits until all members have joined.
Versions 0-9. 1: a rebalance timeout. 4: joining in two steps, first an id and then the membership
(KIP-394). 5: static members (KIP-345). 7: the protocol type (KIP-559). 8: a reason. 9:
SkipAssignment (KIP-814, whose text says 8).
"""

from apportion.coord import records
from apportion.coord.classic import rebalance
from apportion.coord.classic.live_state import ClassicGroupMember
from apportion.coord.classic.membership import remove_member, remove_pending_member
from apportion.coord.classic.responses import (
    fail_pending_join,
    fail_pending_requests,
    join_response,
    members_for_leader,
)
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.classic.states import ClassicGroupState
from apportion.coord.classic_protocol import (
    check_has_protocol,
    check_join_request,
    join_error,
    member_id_prefix,
    needs_member_id,
    new_member_id,
    rebalance_timeout_ms,
    supported_protocols,
)
from apportion.coord.turn import GroupRequest, Turn
from apportion.errors import Code, Refused
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.records.groups import GroupMetadataValue

NEW_MEMBER_TIMEOUT_MS = 300_000
"""The session timeout of a new member that waits for its first generation, as in Kafka: it cannot
heartbeat yet.
"""
# Kafka has no bound. But any client may ask for ids, and each costs memory for a session timeout.
MAX_PENDING_JOINS = 10_000
MIN_PENDING_JOINS = 100
"""Bounds for the number of pending member ids; within them, `group.max.size` is the limit."""


def join(turn: Turn, request: GroupRequest[JoinGroupRequest]) -> None:
    """Handle JoinGroup for a classic group: park it for the next generation, or answer it at once.

    An answer at once has a new member id (MEMBER_ID_REQUIRED, KIP-394), or the current generation.
    Errors, in this order: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST,
    GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    body = request.body
    # Before the group is looked up, as in Kafka: a wrong session timeout is reported for a missing
    # group, too.
    check_join_request(request, turn.settings)
    group = turn.ledger.classic_group_or_none(body.group_id)
    if group is None:
        # Before `create_group`: a refused request must leave no empty group behind, as it does in
        # Kafka.
        check_first_join(request)
        join_without_id(turn, create_group(turn, body.group_id), request)
    # Kafka's order: capacity before protocols and member id. A late member of a full group has to
    # be removed, whatever it sends.
    elif not has_room_for(group, body.member_id, turn.settings.group_max_size):
        reject_joiner(turn, group, request)
    else:
        check_protocols(group, body)
        if body.member_id:
            rejoin(turn, group, request)
        else:
            join_without_id(turn, group, request)


def check_first_join(request: GroupRequest[JoinGroupRequest]) -> None:
    """Refuse a JoinGroup that names a group that does not exist and that cannot create it.

    Errors: UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL.
    """
    if request.body.member_id:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"There is no classic group {request.body.group_id}.")
    check_has_protocol(request.body)


def has_room_for(group: ClassicGroup, member_id: str, limit: int) -> bool:
    """Return whether a classic group may accept the sender of a JoinGroup (`group.max.size`).

    During PreparingRebalance only members that have joined count, so the last one to come back may
    find the group full. Kafka's `acceptJoiningMember` counts likewise.
    """
    live = group.live
    if live.state is ClassicGroupState.EMPTY:
        return True
    member = live.members.get(member_id)
    if live.state is ClassicGroupState.PREPARING_REBALANCE:
        return (
            member is not None and member.join_ticket is not None
        ) or live.waiting_join_count < limit
    return member is not None or len(live.members) < limit


def check_protocols(group: ClassicGroup, body: JoinGroupRequest) -> None:
    """Refuse a JoinGroup whose assignors have none in common with those of all members.

    Errors: INCONSISTENT_GROUP_PROTOCOL.
    """
    live = group.live
    if live.state is ClassicGroupState.EMPTY:
        check_has_protocol(body)
    elif body.protocol_type != live.protocol_type or not any(
        # Counters, because every member of a large group joins for every generation.
        live.protocol_counts.get(protocol.name, 0) == len(live.members)
        for protocol in body.protocols
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


def reject_joiner(turn: Turn, group: ClassicGroup, request: GroupRequest[JoinGroupRequest]) -> None:
    """Answer JoinGroup to a full classic group with GROUP_MAX_SIZE_REACHED.

    A member that rejoins too late is removed, and a pending member id is void.
    """
    member = group.live.members.get(request.body.member_id)
    if member is not None:
        remove_member(turn, group, member)
    remove_pending_member(turn, group, request.body.member_id)
    # Kafka lets the others wait until the rebalance timeout, though no member is missing any more.
    rebalance.complete_join_if_all_joined(turn, group)
    turn.reply(request.ticket, join_error(Code.GROUP_MAX_SIZE_REACHED, "", request.version))


def join_without_id(
    turn: Turn, group: ClassicGroup, request: GroupRequest[JoinGroupRequest]
) -> None:
    """Handle JoinGroup without a member id: of a new member, or a restarted static one."""
    instance_id = request.body.group_instance_id
    replaced_id = None if instance_id is None else group.live.instances.get(instance_id)
    # KIP-345: in a classic group the last process to join with an instance id wins.
    if replaced_id is not None:
        join_as_static_member(turn, group, replaced_id, request)
        return
    member_id = new_member_id(member_id_prefix(request), request.fresh)
    if needs_member_id(request):
        require_member_id(turn, group, member_id, request)
    else:
        add_member(turn, group, new_member(request, member_id), request)


def join_as_static_member(
    turn: Turn, group: ClassicGroup, replaced_id: str, request: GroupRequest[JoinGroupRequest]
) -> None:
    """Replace a classic group's static member by the sender of JoinGroup, even in a full group.

    The joiner has a new id, or the same one where it comes back from the consumer protocol.
    """
    member_id = request.body.member_id or new_member_id(member_id_prefix(request), request.fresh)
    replace_static_member(
        turn,
        group,
        old=group.live.members[replaced_id],
        new=new_member(request, member_id),
        request=request,
    )


def require_member_id(
    turn: Turn, group: ClassicGroup, member_id: str, request: GroupRequest[JoinGroupRequest]
) -> None:
    """Answer JoinGroup with MEMBER_ID_REQUIRED and a new id (KIP-394).

    The id is valid for one session timeout. The oldest pending ids are dropped when there are too
    many.
    """
    pending = group.live.pending_joins
    while len(pending) >= max(
        MIN_PENDING_JOINS, min(MAX_PENDING_JOINS, turn.settings.group_max_size)
    ):
        remove_pending_member(turn, group, next(iter(pending)))
    pending[member_id] = None
    turn.deadlines.arm(
        (SESSION, group.group_id, member_id), turn.now.mono_ms + request.body.session_timeout_ms
    )
    turn.reply(request.ticket, join_error(Code.MEMBER_ID_REQUIRED, member_id, request.version))


def add_member(
    turn: Turn,
    group: ClassicGroup,
    member: ClassicGroupMember,
    request: GroupRequest[JoinGroupRequest],
) -> None:
    """Add a new member to a classic group for its JoinGroup, and start a rebalance."""
    live = group.live
    member.is_new = True
    # Only newcomers of an open rebalance extend the initial delay (`rebalance.expire_join`).
    live.has_newcomers = live.has_newcomers or live.state is ClassicGroupState.PREPARING_REBALANCE
    live.add(member)
    # Before the rebalance: `all_joined` has to count this member.
    park_join(turn, group, member, request)
    rebalance.arm_session(turn, group, member, NEW_MEMBER_TIMEOUT_MS)
    rebalance.prepare_or_complete_join(turn, group)


def rejoin(turn: Turn, group: ClassicGroup, request: GroupRequest[JoinGroupRequest]) -> None:
    """Handle JoinGroup with a member id: park it for the next generation, or answer it at once.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID; UNKNOWN_SERVER_ERROR for a dynamic member's id
    that comes back with a group instance id.
    """
    body, live = request.body, group.live
    if body.member_id in live.pending_joins:
        # Kafka calls this an illegal state: a static member never gets a pending id.
        if body.group_instance_id is not None:
            raise Refused(
                Code.UNKNOWN_SERVER_ERROR,
                f"Member {body.member_id} was given its id as a dynamic member.",
            )
        add_member(turn, group, new_member(request, body.member_id), request)
        return
    member = group.checked_member(body.member_id, body.group_instance_id)
    protocols = supported_protocols(body)
    if live.state is not ClassicGroupState.PREPARING_REBALANCE and may_answer_at_once(
        live.state, live.leader == member.member_id, member.protocols == protocols
    ):
        turn.reply(
            request.ticket,
            join_response(
                live, member, members_for_leader(live) if live.leader == member.member_id else ()
            ),
        )
        return
    live.update_protocols(member, protocols)
    member.session_timeout_ms = body.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    park_join(turn, group, member, request)
    rebalance.prepare_or_complete_join(turn, group)


def may_answer_at_once(state: ClassicGroupState, is_leader: bool, has_same_protocols: bool) -> bool:
    """Return whether JoinGroup between two rebalances is answered at once.

    The answer would be the current generation, whose response the member may have missed. A stable
    group's leader, however, rejoins because it wants a rebalance.
    """
    return has_same_protocols and (state is ClassicGroupState.COMPLETING_REBALANCE or not is_leader)


def replace_static_member(
    turn: Turn,
    group: ClassicGroup,
    *,
    old: ClassicGroupMember,
    new: ClassicGroupMember,
    request: GroupRequest[JoinGroupRequest],
) -> None:
    """Give a restarted static member its predecessor's membership, and fence the old id (KIP-345).

    A stable group whose protocol stays the same goes on without a rebalance. From version 9 on, the
    response names the new member as the leader and sets SkipAssignment (KIP-814). Before that it
    names the predecessor's id as the leader, so that the new member does not assign; where the id
    is the same, it names no leader.
    """
    live = group.live
    led_by = live.leader
    # Now, because no later event would answer them: the old id is in no generation any more.
    fail_pending_requests(turn, group, old, Code.FENCED_INSTANCE_ID, member_id=old.member_id)
    turn.deadlines.disarm((SESSION, group.group_id, old.member_id))
    new.assignment = old.assignment
    live.replace(old, new)
    rebalance.arm_session(turn, group, new)
    # Only the protocol counts, as in Kafka; the leader sees a changed subscription at the next
    # rebalance. The record names the new id, or a crash would give the instance back to the old
    # one.
    if live.state is ClassicGroupState.STABLE and live.select_protocol() == live.protocol:
        turn.emit(group.to_record())
        turn.reply(request.ticket, static_member_response(group, new, led_by, request.version))
    else:  # without an assignment, or one that another protocol (assignor) has to make
        park_join(turn, group, new, request)
        rebalance.prepare_or_complete_join(turn, group)


def static_member_response(
    group: ClassicGroup, member: ClassicGroupMember, led_by: str | None, version: int
) -> JoinGroupResponse:
    """Return JoinGroup's response to a restarted static member in a stable group.

    led_by: the member id of the leader before the replacement.
    """
    live = group.live
    if version < 9:
        return join_response(live, member, led_by="" if led_by == member.member_id else led_by)
    leads = live.leader == member.member_id
    return join_response(
        live, member, members_for_leader(live) if leads else (), skips_assignment=leads
    )


def park_join(
    turn: Turn,
    group: ClassicGroup,
    member: ClassicGroupMember,
    request: GroupRequest[JoinGroupRequest],
) -> None:
    """Park a member's JoinGroup; answer an earlier one of the member with REBALANCE_IN_PROGRESS."""
    before = group.live.park_join(member, request.ticket)
    fail_pending_join(turn, before, Code.REBALANCE_IN_PROGRESS, member.member_id)


def new_member(request: GroupRequest[JoinGroupRequest], member_id: str) -> ClassicGroupMember:
    """Return a new member with the metadata of its JoinGroup, not in the group yet."""
    member = ClassicGroupMember(
        member_id, request.body.group_instance_id, request.caller, request.body.protocol_type
    )
    member.session_timeout_ms = request.body.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    member.protocols = supported_protocols(request.body)
    return member
