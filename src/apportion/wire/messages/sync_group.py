"""SyncGroup: the leader brings the assignment of a generation, every member gets its own."""

from apportion.wire.fields import array, int16, int32, message, octets, string


@message()
class SyncGroupRequestAssignment:
    """The assignment of one member."""

    member_id: str = string()
    assignment: bytes | memoryview = octets()


@message(key=14, versions=range(6), flexible=4, type="request")
class SyncGroupRequest:
    """Request the member's assignment; the leader also brings that of all members."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=3, default=None)
    # KIP-559: the broker refuses a member whose type or name is not that of its generation.
    protocol_type: str | None = string(since=5, nullable=5, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable=5, default=None, ignorable=True)
    # Of the leader alone; what other members send here is ignored.
    assignments: tuple[SyncGroupRequestAssignment, ...] = array(SyncGroupRequestAssignment)


@message(key=14, versions=range(6), flexible=4, type="response")
class SyncGroupResponse:
    """The member's assignment."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable=5, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable=5, default=None, ignorable=True)
    assignment: bytes | memoryview = octets()
