"""DescribeConfigs: the settings of this broker and of its topics."""

from collections.abc import Iterable

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.topic_settings import config_type
from apportion.node.topics import ConfigEntry, check_name
from apportion.wire.messages.describe_configs import (
    BROKER,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

UNKNOWN_TYPE = 0  # Kafka's config type for "unknown"
STATIC_BROKER, DEFAULT = 4, 5  # Kafka's config sources


def describe_configs(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle DescribeConfigs: describe all settings of each resource, or the named ones.

    No value is secret, and none has synonyms.
    """
    request: DescribeConfigsRequest = arrived.request
    return Answer(
        DescribeConfigsResponse(
            results=tuple(_described(broker, resource) for resource in request.resources)
        )
    )


def _described(broker: BrokerContext, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    """Return one topic's or the broker's settings, or the error, for DescribeConfigs."""
    kind, name = resource.resource_type, resource.resource_name
    try:
        settings = list(_settings(broker, resource))
    except Refused as refused:
        return DescribeConfigsResult(
            error_code=refused.code,
            error_message=refused.why,
            resource_type=kind,
            resource_name=name,
        )
    requested_keys = resource.configuration_keys
    return DescribeConfigsResult(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            DescribeConfigsResourceResult(
                name=entry.name,
                value=entry.value if kind == TOPIC else entry.value or None,
                config_source=entry.source,
                config_type=config_type(entry.name) if kind == TOPIC else UNKNOWN_TYPE,
                # No API alters a setting here, so a tool must not offer it.
                read_only=True,
            )
            for entry in settings
            if requested_keys is None or entry.name in requested_keys
        ),
    )


def _settings(broker: BrokerContext, resource: DescribeConfigsResource) -> Iterable[ConfigEntry]:
    """Return the settings of one topic or of this broker, for DescribeConfigs.

    Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
    """
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        check_name(name)
        if broker.topic_service.topics.named(name) is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        return broker.topic_service.config_entries(name)
    if resource.resource_type == BROKER:
        if name not in ("", str(broker.settings.node_id)):
            raise Refused(
                Code.INVALID_REQUEST, f"this is broker {broker.settings.node_id}, not {name!r}"
            )
        defaults = type(broker.settings)().named()
        return [
            ConfigEntry(key, value, DEFAULT if defaults[key] == value else STATIC_BROKER)
            for key, value in broker.settings.named().items()
        ]
    raise Refused(
        Code.INVALID_REQUEST,
        f"settings of resource type {resource.resource_type} cannot be described here",
    )


HANDLERS: dict[type, BrokerHandler] = {DescribeConfigsRequest: describe_configs}
