"""Requests about settings, and their answers as plain values."""

from typing import Any

from apportion.errors import Code
from apportion.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from apportion.wire.messages.describe_configs import (
    BROKER,
    GROUP,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from apportion.wire.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from apportion.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.node.kit import NodeDriver

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
KINDS = {"topic": TOPIC, "broker": BROKER, "group": GROUP}
OPERATIONS = {"+": APPEND, "-": SUBTRACT, "=": SET, "x": DELETE}

Change = tuple[str, str, str | None]
"""A setting, the operation as in OPERATIONS, and the value."""


def changes_of(**values: str | None) -> tuple[Change, ...]:
    """SET for each setting, dots as underscores; DELETE where the value is None."""
    return tuple(
        (name.replace("_", "."), "x" if value is None else "=", value)
        for name, value in values.items()
    )


def incremental(
    *resources: tuple[Any, str, tuple[Any, ...]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """The request for resources: kind, name and changes of each."""
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            IncrementalAlterConfigsResource(
                resource_type=KINDS.get(kind, kind),
                resource_name=name,
                configs=tuple(
                    IncrementalAlterableConfig(
                        name=key, config_operation=OPERATIONS.get(operation, operation), value=value
                    )
                    for key, operation, value in changes
                ),
            )
            for kind, name, changes in resources
        ),
        validate_only=validate_only,
    )


def whole(
    *resources: tuple[Any, str, tuple[tuple[str, str | None], ...]], validate_only: bool = False
) -> AlterConfigsRequest:
    """The request for resources: kind, name and all settings of each."""
    return AlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(
                resource_type=KINDS.get(kind, kind),
                resource_name=name,
                configs=tuple(AlterableConfig(name=key, value=value) for key, value in settings),
            )
            for kind, name, settings in resources
        ),
        validate_only=validate_only,
    )


def codes(answer: Any) -> list[int]:
    """The error code of each resource."""
    return [each.error_code for each in answer.responses]


def describe(
    kind: Any, name: str, *keys: str, synonyms: bool = True, documentation: bool = False
) -> DescribeConfigsRequest:
    """The request for the named settings of one resource, or for all."""
    resource = DescribeConfigsResource(
        resource_type=KINDS.get(kind, kind), resource_name=name, configuration_keys=keys or None
    )
    return DescribeConfigsRequest(
        resources=(resource,), include_synonyms=synonyms, include_documentation=documentation
    )


def told(answer: Any) -> Any:
    """Value, source and synonyms of each setting of the one resource; or the error code."""
    [result] = answer.results
    if result.error_code:
        return result.error_code
    return {
        each.name: (
            each.value,
            each.config_source,
            *((synonym.name, synonym.value, synonym.source) for synonym in each.synonyms),
        )
        for each in result.configs
    }


def listed(answer: Any) -> Any:
    """Kind and name of each resource; or the error code."""
    if answer.error_code:
        return answer.error_code
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def shown(driver: "NodeDriver", kind: Any, name: str, *keys: str) -> Any:
    """The named settings of one resource, or all, as `told` has them."""
    return told(driver.call(describe(kind, name, *keys)))


LIST_ALL = ListConfigResourcesRequest()


def alter(driver: NodeDriver, kind: str, name: str, **values: str | None) -> Any:
    """Alter one resource by SET and DELETE; return its code and sentence."""
    [result] = driver.call(incremental((kind, name, changes_of(**values)))).responses
    return Code(result.error_code), result.error_message


def own(driver: NodeDriver, kind: str, name: str) -> dict[str, str]:
    """The own settings of a resource as clients are told them."""
    entries = shown(driver, kind, name)
    return {key: each[0] for key, each in entries.items() if each[1] in (1, 2, 3, 8)}
