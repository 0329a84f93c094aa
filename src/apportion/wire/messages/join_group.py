"""JoinGroup: join the next generation of a classic group."""

from apportion.wire.fields import array, boolean, int16, int32, message, octets, string


@message()
class JoinGroupRequestProtocol:
    """One protocol (assignor) that the member supports, with its metadata for it."""

    name: str = string()
    metadata: bytes | memoryview = octets()


@message(key=11, versions=range(10), flexible=6, type="request")
class JoinGroupRequest:
    """Join a classic group, or rejoin it for the next generation.

    Versions: 4 joins in two steps (KIP-394), 5 has instance ids (KIP-345), 8 a reason (KIP-800), 9
    as 8.
    """

    group_id: str = string()
    session_timeout_ms: int = int32()
    # version 0: the session timeout
    rebalance_timeout_ms: int = int32(since=1, default=-1, ignorable=True)
    member_id: str = string()  # "" on the first try
    group_instance_id: str | None = string(since=5, nullable=5, default=None)
    protocol_type: str = string()
    protocols: tuple[JoinGroupRequestProtocol, ...] = array(JoinGroupRequestProtocol)
    # KIP-800: for the broker's log alone. Clients send at most 255 characters.
    reason: str | None = string(since=8, nullable=8, default=None, ignorable=True)


@message()
class JoinGroupResponseMember:
    """One member of the new generation, with its metadata for the chosen protocol."""

    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=5, default=None, ignorable=True)
    metadata: bytes | memoryview = octets()


@message(key=11, versions=range(10), flexible=6, type="response")
class JoinGroupResponse:
    """The new generation. Only its leader gets the members.

    skip_assignment: tells the leader to assign nothing (KIP-814).
    """

    throttle_time_ms: int = int32(since=2, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    # KIP-559: a proxy sees the type and the name without the request. The name is null in an error.
    protocol_type: str | None = string(since=7, nullable=7, default=None, ignorable=True)
    protocol_name: str | None = string(nullable=7)
    # "" in a consumer group: the coordinator assigns there, and no member leads.
    leader: str = string()
    # The page of KIP-814 says version 8, which was then used for the reason.
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: tuple[JoinGroupResponseMember, ...] = array(JoinGroupResponseMember)
