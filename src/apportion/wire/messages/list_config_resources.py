"""ListConfigResources: list the resources that have settings of their own (KIP-1142)."""

from apportion.wire.fields import array, int8, int16, int32, message, string

CLIENT_METRICS = 16  # the only kind of resource in version 0


@message(key=74, versions=range(2), flexible=0, type="request")
class ListConfigResourcesRequest:
    """Request the resources of these kinds; of all that the broker supports if there is none."""

    resource_types: tuple[int, ...] = array(int8(), since=1)


@message()
class ConfigResource:
    """One resource, by name and kind."""

    resource_name: str = string()
    resource_type: int = int8(since=1, default=CLIENT_METRICS, ignorable=True)


@message(key=74, versions=range(2), flexible=0, type="response")
class ListConfigResourcesResponse:
    """The resources that were found."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: tuple[ConfigResource, ...] = array(ConfigResource)
