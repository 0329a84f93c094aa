"""ListGroups: all groups of a coordinator."""

from apportion.wire.fields import array, int16, int32, message, string


@message(key=16, versions=range(6), flexible=3, type="request")
class ListGroupsRequest:
    """Request the groups that pass both filters; an empty filter passes all."""

    # KIP-518; the filter by type came with KIP-848.
    states_filter: tuple[str, ...] = array(string(), since=4)
    types_filter: tuple[str, ...] = array(string(), since=5)


@message()
class ListedGroup:
    """One group, its state and its type."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4, ignorable=True)
    group_type: str = string(since=5, ignorable=True)


@message(key=16, versions=range(6), flexible=3, type="response")
class ListGroupsResponse:
    """The groups that pass the filters."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    groups: tuple[ListedGroup, ...] = array(ListedGroup)
