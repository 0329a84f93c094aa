"""Delete groups that have no members."""

from apportion.wire.fields import array, int16, int32, message, string


@message(key=42, versions=range(3), flexible=2, type="request")
class DeleteGroupsRequest:
    """Delete these groups and what they have committed."""

    groups_names: tuple[str, ...] = array(string())


@message()
class DeletableGroupResult:
    """Whether one group is gone."""

    group_id: str = string()
    error_code: int = int16()


@message(key=42, versions=range(3), flexible=2, type="response")
class DeleteGroupsResponse:
    """What became of every group."""

    throttle_time_ms: int = int32()
    results: tuple[DeletableGroupResult, ...] = array(DeletableGroupResult)
