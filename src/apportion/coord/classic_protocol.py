"""The classic protocol's rules that hold for groups of both kinds.

A classic member may be in a classic group or, since KIP-848, in a consumer group, and must not
notice the difference. The rules here are about requests and responses alone. How a group treats its
members is in `classic` and in `consumer/classic_api.py`, which do not import each other.
Versions: JoinGroup 0-9, SyncGroup 0-5, LeaveGroup 0-5.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.coord.config import GroupSettings
from apportion.coord.group import M, Protocols, checked_member
from apportion.coord.records import fits_in_key
from apportion.errors import Code, Refused
from apportion.machine import Access, Arrived, Caller, Ticket
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
        has to be told a new one, and join again with it (KIP-394). fresh: 16 random bytes. access:
        what it may know of, where the broker has ACLs.
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
    access: Access | None


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


def checked_joiner(arrived: Arrived, settings: GroupSettings) -> Joiner:
    """Return the sender of a JoinGroup; refuse what no group could accept or no record could hold.

    Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST.
    """
    request: JoinGroupRequest = arrived.request
    check_group_id(request.group_id)
    least_ms, most_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        raise Refused(
            Code.INVALID_SESSION_TIMEOUT, f"SessionTimeoutMs must be from {least_ms} to {most_ms}."
        )
    names = [request.protocol_type, *[protocol.name for protocol in request.protocols]]
    if not all(map(fits_in_key, names)):
        raise Refused(Code.INVALID_REQUEST, "The name of a protocol is too long.")
    instance_id = request.group_instance_id
    # of a new member's id
    prefix = arrived.caller.client_id if instance_id is None else instance_id
    if not fits_in_key(prefix + "-" * UUID_CHARS):
        raise Refused(Code.INVALID_REQUEST, "GroupInstanceId or the client's id is too long.")
    return Joiner(
        ticket=arrived.ticket,
        version=arrived.version,
        caller=arrived.caller,
        fresh=arrived.fresh,
        member_id=request.member_id or classic_member_id(prefix, arrived.fresh),
        has_id=bool(request.member_id),
        needs_id=needs_member_id(arrived),
        instance_id=instance_id,
        protocol_type=request.protocol_type,
        protocols=supported_protocols(request),
        session_timeout_ms=request.session_timeout_ms,
        # Version 0 has only the session timeout. A negative one counts as 0, as in Kafka.
        rebalance_timeout_ms=request.session_timeout_ms
        if arrived.version == 0
        else max(request.rebalance_timeout_ms, 0),
        access=arrived.access,
    )


def needs_member_id(arrived: Arrived) -> bool:
    """Return whether JoinGroup is answered with MEMBER_ID_REQUIRED and a new id (KIP-394).

    A client that times out and joins again must not leave members behind that nobody drives.
    """
    # Static members are recognised by their instance id; older clients know no second step.
    request: JoinGroupRequest = arrived.request
    return not request.member_id and request.group_instance_id is None and arrived.version >= 4


def classic_member_id(name: str, fresh: bytes) -> str:
    """Return a classic group's member id in Kafka's form: a prefix and a random UUID.

    fresh: the 16 random bytes for the UUID.
    """
    digits = bytes(
        [*fresh[:6], fresh[6] & 0x0F | 0x40, fresh[7], fresh[8] & 0x3F | 0x80, *fresh[9:]]
    ).hex()
    return f"{name}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


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


def member_id_required(joiner: Joiner) -> JoinGroupResponse:
    """Return the response that has a joiner join again with the id in it (KIP-394)."""
    return join_error(Code.MEMBER_ID_REQUIRED, joiner.member_id, joiner.version)


def check_sync_request(arrived: Arrived) -> None:
    """Refuse a SyncGroup of version 5 that does not name the protocol and its type.

    Errors: INCONSISTENT_GROUP_PROTOCOL.
    """
    request: SyncGroupRequest = arrived.request
    # KIP-559: from version 5 on a proxy may rely on both.
    if arrived.version >= 5 and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            "SyncGroup of version 5 must name the protocol and its type.",
        )


def names_protocol(body: SyncGroupRequest, protocol_type: str, protocol: str | None) -> bool:
    """Return whether a SyncGroup names this protocol and type, or leaves them out."""
    return body.protocol_type in (None, protocol_type) and body.protocol_name in (None, protocol)


def leaving_members(arrived: Arrived) -> tuple[MemberIdentity, ...]:
    """Return the members that LeaveGroup names; before version 3 it names one."""
    request: LeaveGroupRequest = arrived.request
    return (
        request.members if arrived.version >= 3 else (MemberIdentity(member_id=request.member_id),)
    )


def leaving_member_or_none(
    identity: MemberIdentity, members: Mapping[str, M], instances: Mapping[str, str]
) -> tuple[M | None, Code]:
    """Return one member that LeaveGroup names and NONE, or None and its error.

    members, instances: as in `checked_member`.
    """
    member_id, instance_id = identity.member_id, identity.group_instance_id
    # KIP-345: an administrator removes an instance without knowing its member id.
    if not member_id and instance_id is not None:
        member_id = instances.get(instance_id, "")
    try:
        return checked_member(members, instances, member_id, instance_id), Code.NONE
    except Refused as refusal:  # one of many: the others have their answers
        return None, refusal.code


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
