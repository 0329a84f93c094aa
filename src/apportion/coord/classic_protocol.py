"""The classic protocol's rules that hold for groups of both kinds.

A classic member may be in a classic group or, since KIP-848, in a consumer group, and must not
notice the difference. The rules here are about requests and responses alone. How a group treats its
members is in `classic` and in `consumer/classic_api.py`, which do not import each other.
Versions: JoinGroup 0-9, SyncGroup 0-5, LeaveGroup 0-5.
"""

from typing import NamedTuple

from apportion.coord.config import GroupSettings
from apportion.coord.group import Protocols
from apportion.coord.records import fits_in_key
from apportion.coord.turn import GroupRequest
from apportion.errors import Code, Refused
from apportion.machine import Caller, Ticket
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from apportion.wire.messages.sync_group import SyncGroupRequest

UUID_CHARS = 37  # with the dash before it


class Joiner(NamedTuple):
    """The sender of a JoinGroup, whatever the version of the request.

    member_id: its own, or where it has none a new one in the form of classic groups. needs_id: it
        has to be told a new one, and join again with it (KIP-394). fresh: 16 random bytes.
    """

    ticket: Ticket
    version: int
    caller: Caller
    fresh: bytes
    member_id: str
    has_id: bool
    needs_id: bool
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int


def check_group_id(group_id: str) -> None:
    """Refuse a classic group's id that no record can hold. Errors: INVALID_GROUP_ID."""
    # Only membership needs a name: OffsetCommit and OffsetFetch accept an empty group id, as in
    # Kafka.
    if not group_id:
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is empty.")
    # Kafka notices when it encodes the record, and answers UNKNOWN_SERVER_ERROR. The request is at
    # fault.
    if not fits_in_key(group_id):
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is too long.")


def checked_joiner(request: GroupRequest[JoinGroupRequest], settings: GroupSettings) -> Joiner:
    """Return the sender of a JoinGroup; refuse what no group could accept or no record could hold.

    Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST.
    """
    body = request.body
    check_group_id(body.group_id)
    least_ms, most_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not least_ms <= body.session_timeout_ms <= most_ms:
        raise Refused(
            Code.INVALID_SESSION_TIMEOUT, f"SessionTimeoutMs must be from {least_ms} to {most_ms}."
        )
    if not all(
        fits_in_key(text)
        for text in (body.protocol_type, *(protocol.name for protocol in body.protocols))
    ):
        raise Refused(Code.INVALID_REQUEST, "The name of a protocol is too long.")
    prefix = member_id_prefix(request)
    if not fits_in_key(prefix + "-" * UUID_CHARS):
        raise Refused(Code.INVALID_REQUEST, "GroupInstanceId or the client's id is too long.")
    return Joiner(
        ticket=request.ticket,
        version=request.version,
        caller=request.caller,
        fresh=request.fresh,
        member_id=body.member_id or new_member_id(prefix, request.fresh),
        has_id=bool(body.member_id),
        needs_id=needs_member_id(request),
        instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocols=supported_protocols(body),
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms(request),
    )


def needs_member_id(request: GroupRequest[JoinGroupRequest]) -> bool:
    """Return whether JoinGroup is answered with MEMBER_ID_REQUIRED and a new id (KIP-394).

    A client that times out and joins again must not leave members behind that nobody drives.
    """
    # Static members are recognised by their instance id; older clients know no second step.
    body = request.body
    return not body.member_id and body.group_instance_id is None and request.version >= 4


def member_id_prefix(request: GroupRequest[JoinGroupRequest]) -> str:
    """Return the beginning of a new classic member's id: its group instance id or client id."""
    instance_id = request.body.group_instance_id
    return request.caller.client_id if instance_id is None else instance_id


def new_member_id(name: str, fresh: bytes) -> str:
    """Return a classic group's member id in Kafka's form: a prefix and a random UUID.

    fresh: the 16 random bytes for the UUID.
    """
    digits = bytes(
        [*fresh[:6], fresh[6] & 0x0F | 0x40, fresh[7], fresh[8] & 0x3F | 0x80, *fresh[9:]]
    ).hex()
    return f"{name}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def rebalance_timeout_ms(request: GroupRequest[JoinGroupRequest]) -> int:
    """Return JoinGroup's rebalance timeout; version 0 has only the session timeout.

    A negative one counts as 0, as in Kafka.
    """
    return (
        request.body.session_timeout_ms
        if request.version == 0
        else max(request.body.rebalance_timeout_ms, 0)
    )


def supported_protocols(body: JoinGroupRequest) -> Protocols:
    """Return a JoinGroup's assignors, each once, copied out of the request's buffer."""
    metadata: dict[str, bytes] = {}
    for protocol in body.protocols:
        # Kafka counts a name that is offered twice wrongly, and may never answer the join.
        if protocol.name not in metadata:
            metadata[protocol.name] = bytes(protocol.metadata)
    return tuple(metadata.items())


def join_error(code: Code, member_id: str, version: int) -> JoinGroupResponse:
    """Return the JoinGroup response with an error code.

    Its protocol name is null, which is "" before version 7.
    """
    return JoinGroupResponse(
        error_code=int(code), protocol_name=None if version >= 7 else "", member_id=member_id
    )


def check_sync_request(request: GroupRequest[SyncGroupRequest]) -> None:
    """Refuse a SyncGroup of version 5 that does not name the protocol and its type.

    Errors: INCONSISTENT_GROUP_PROTOCOL.
    """
    # KIP-559: from version 5 on a proxy may rely on both.
    if request.version >= 5 and None in (request.body.protocol_type, request.body.protocol_name):
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            "SyncGroup of version 5 must name the protocol and its type.",
        )


def names_protocol(body: SyncGroupRequest, protocol_type: str, protocol: str | None) -> bool:
    """Return whether a SyncGroup names this protocol and type, or leaves them out."""
    return body.protocol_type in (None, protocol_type) and body.protocol_name in (None, protocol)


def leaving_members(request: GroupRequest[LeaveGroupRequest]) -> tuple[MemberIdentity, ...]:
    """Return the members that LeaveGroup names; before version 3 it names one."""
    body = request.body
    return body.members if request.version >= 3 else (MemberIdentity(member_id=body.member_id),)


def leave_response(
    version: int, leaving: tuple[MemberIdentity, ...], codes: list[Code]
) -> LeaveGroupResponse:
    """Return the LeaveGroup response with one code for each member.

    Before version 3 a request names one member, and its code is that of the whole response.
    """
    if version < 3:
        return LeaveGroupResponse(error_code=int(codes[0]))
    members = (
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=int(code),
        )
        for identity, code in zip(leaving, codes, strict=True)
    )
    return LeaveGroupResponse(members=tuple(members))
