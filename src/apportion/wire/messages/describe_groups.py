"""DescribeGroups: classic groups with their members."""

from apportion.wire.fields import array, boolean, int16, int32, message, octets, string

NOT_ASKED = -(2**31)


@message(key=15, versions=range(7), flexible=5, type="request")
class DescribeGroupsRequest:
    """Request the descriptions of some groups."""

    groups: tuple[str, ...] = array(string())
    include_authorized_operations: bool = boolean(since=3)


@message()
class DescribedGroupMember:
    """One member with its metadata and its assignment."""

    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable=4, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes | memoryview = octets()
    member_assignment: bytes | memoryview = octets()


@message()
class DescribedGroup:
    """One group. Before version 6 a group that does not exist is Dead, without an error."""

    error_code: int = int16()
    # KIP-1043, with GROUP_ID_NOT_FOUND in place of the state Dead.
    error_message: str | None = string(since=6, nullable=6, default=None, ignorable=True)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: tuple[DescribedGroupMember, ...] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=NOT_ASKED, ignorable=True)


@message(key=15, versions=range(7), flexible=5, type="response")
class DescribeGroupsResponse:
    """The descriptions, in the order of the request."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    groups: tuple[DescribedGroup, ...] = array(DescribedGroup)
