"""IncrementalAlterConfigs: change some settings of topics, brokers and groups (KIP-339)."""

from apportion.wire.fields import array, boolean, int8, int16, int32, message, string

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Operations on one setting; APPEND and SUBTRACT are for lists."""


@message()
class IncrementalAlterableConfig:
    """One setting and what to do with it; DELETE has no value."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable=0)


@message()
class IncrementalAlterConfigsResource:
    """One resource, as in DescribeConfigs, and its changes."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[IncrementalAlterableConfig, ...] = array(IncrementalAlterableConfig)


@message(key=44, versions=range(2), flexible=1, type="request")
class IncrementalAlterConfigsRequest:
    """Change the settings of these resources; with `validate_only` only check that."""

    resources: tuple[IncrementalAlterConfigsResource, ...] = array(IncrementalAlterConfigsResource)
    validate_only: bool = boolean()


@message()
class IncrementalAlterConfigsResourceResponse:
    """The result of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    resource_type: int = int8()
    resource_name: str = string()


@message(key=44, versions=range(2), flexible=1, type="response")
class IncrementalAlterConfigsResponse:
    """The results of all resources."""

    throttle_time_ms: int = int32()
    responses: tuple[IncrementalAlterConfigsResourceResponse, ...] = array(
        IncrementalAlterConfigsResourceResponse
    )
