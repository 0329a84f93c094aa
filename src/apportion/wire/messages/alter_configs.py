"""AlterConfigs: replace all settings of topics, brokers and groups."""

from apportion.wire.fields import array, boolean, int8, int16, int32, message, string


@message()
class AlterableConfig:
    """One setting and its value."""

    name: str = string()
    value: str | None = string(nullable=0)


@message()
class AlterConfigsResource:
    """One resource, as in DescribeConfigs, and all settings that it shall have of its own."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[AlterableConfig, ...] = array(AlterableConfig)


@message(key=33, versions=range(3), flexible=2, type="request")
class AlterConfigsRequest:
    """Replace the settings of these resources; with `validate_only` only check that."""

    resources: tuple[AlterConfigsResource, ...] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@message()
class AlterConfigsResourceResponse:
    """The result of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    resource_type: int = int8()
    resource_name: str = string()


@message(key=33, versions=range(3), flexible=2, type="response")
class AlterConfigsResponse:
    """The results of all resources."""

    throttle_time_ms: int = int32()
    responses: tuple[AlterConfigsResourceResponse, ...] = array(AlterConfigsResourceResponse)
