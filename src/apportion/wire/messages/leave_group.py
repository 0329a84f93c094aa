"""LeaveGroup: remove members from a group."""

from apportion.wire.fields import array, int16, int32, message, string


@message()
class MemberIdentity:
    """One member that leaves, by its member id or group instance id.

    An administrator removes static members by instance id (KIP-345).
    """

    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable=3, default=None)
    # KIP-800: for the broker's log alone.
    reason: str | None = string(since=5, nullable=5, default=None, ignorable=True)


@message(key=13, versions=range(6), flexible=4, type="request")
class LeaveGroupRequest:
    """Remove these members: `member_id` up to version 2, `members` from version 3 on."""

    group_id: str = string()
    member_id: str = string(until=2)
    members: tuple[MemberIdentity, ...] = array(MemberIdentity, since=3)


@message()
class MemberResponse:
    """The error of one member, or none."""

    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable=3, default=None)
    error_code: int = int16(since=3)


@message(key=13, versions=range(6), flexible=4, type="response")
class LeaveGroupResponse:
    """The results of all members."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    members: tuple[MemberResponse, ...] = array(MemberResponse, since=3)
