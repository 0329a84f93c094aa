"""DescribeConfigs: the settings of topics, brokers and groups."""

from apportion.wire.fields import array, boolean, int8, int16, int32, message, string

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Kinds of resources."""


@message()
class DescribeConfigsResource:
    """One resource (TOPIC, BROKER, GROUP...) and its settings; null for all."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: tuple[str, ...] | None = array(string(), nullable=0)


@message(key=32, versions=range(1, 5), flexible=4, type="request")
class DescribeConfigsRequest:
    """Request the settings of some topics, brokers or groups."""

    resources: tuple[DescribeConfigsResource, ...] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(since=3)


@message()
class DescribeConfigsSynonym:
    """Another setting that sets the same value; the first one in the list takes precedence."""

    name: str = string()
    value: str | None = string(nullable=0)
    source: int = int8()


@message()
class DescribeConfigsResourceResult:
    """One setting, its value and the source of that."""

    name: str = string()
    value: str | None = string(nullable=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: tuple[DescribeConfigsSynonym, ...] = array(DescribeConfigsSynonym, ignorable=True)
    config_type: int = int8(since=3, ignorable=True)
    documentation: str | None = string(since=3, nullable=0, ignorable=True)


@message()
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[DescribeConfigsResourceResult, ...] = array(DescribeConfigsResourceResult)


@message(key=32, versions=range(1, 5), flexible=4, type="response")
class DescribeConfigsResponse:
    """The settings of the requested resources."""

    throttle_time_ms: int = int32()
    results: tuple[DescribeConfigsResult, ...] = array(DescribeConfigsResult)
