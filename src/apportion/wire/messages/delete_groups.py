"""DeleteGroups: delete groups that have no members."""

from apportion.wire.fields import array, int16, int32, message, string


@message(key=42, versions=range(4), flexible=2, type="request")
class DeleteGroupsRequest:
    """Delete these groups and their committed offsets."""

    groups_names: tuple[str, ...] = array(string())


@message()
class DeletableGroupResult:
    """The error of one group, or none."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=3, nullable=3, default=None, ignorable=True)


@message(key=42, versions=range(4), flexible=2, type="response")
class DeleteGroupsResponse:
    """The results of all groups."""

    throttle_time_ms: int = int32()
    results: tuple[DeletableGroupResult, ...] = array(DeletableGroupResult)
