"""DescribeConfigs and ListConfigResources: the settings of topics, groups and this broker.

Versions: DescribeConfigs 1-4 (3: type and documentation), ListConfigResources 0-1 (1: all kinds).
"""

from collections.abc import Iterable

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.config_entries import (
    ConfigEntry,
    all_brokers_entries,
    broker_entries,
    group_entries,
    topic_entries,
)
from apportion.node.live_settings import ALL_BROKERS
from apportion.node.topics import check_name
from apportion.store import metadata_log
from apportion.wire.messages.describe_configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from apportion.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

MISSING_RESOURCES = {
    BROKER_LOGGER: "this broker has no loggers whose levels could be seen or set",
    CLIENT_METRICS: "this broker takes no metrics from clients",
}
LISTED = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
"""The kinds that ListConfigResources knows, in the order of its response."""
FIRST_KIND_VERSION = 1  # the first version of ListConfigResources that names kinds


def describe_configs(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle DescribeConfigs: describe all settings of each resource, or the named ones.

    A secret has no value there.
    """
    request: DescribeConfigsRequest = arrived.request
    return Answer(
        DescribeConfigsResponse(
            results=tuple(_described(broker, resource, request) for resource in request.resources)
        )
    )


def _described(
    broker: BrokerContext, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    """Return one resource's settings, or the error, for DescribeConfigs."""
    kind, name = resource.resource_type, resource.resource_name
    try:
        entries = list(_entries(broker, resource))
    except Refused as refused:
        return DescribeConfigsResult(
            error_code=refused.code,
            error_message=refused.why,
            resource_type=kind,
            resource_name=name,
        )
    return DescribeConfigsResult(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            DescribeConfigsResourceResult(
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_secret,
                synonyms=tuple(
                    DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
                    for each in (entry.synonyms if request.include_synonyms else ())
                ),
                config_type=entry.config_type,
                documentation=entry.sentence if request.include_documentation else None,
            )
            for entry in entries
            # An empty list stands for all, as in Kafka.
            if not resource.configuration_keys or entry.name in resource.configuration_keys
        ),
    )


def _entries(broker: BrokerContext, resource: DescribeConfigsResource) -> Iterable[ConfigEntry]:
    """Return the settings of one topic, group or broker, for DescribeConfigs.

    Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
    """
    name, topic_service = resource.resource_name, broker.topic_service
    if resource.resource_type == TOPIC:
        check_name(name)
        if topic_service.topics.named(name) is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        own = topic_service.own_settings(metadata_log.TOPIC, name)
        return topic_entries(name, own, topic_service.live)
    if resource.resource_type == BROKER:
        check_broker_name(broker, name)
        if name == ALL_BROKERS:
            return all_brokers_entries(topic_service.live)
        return broker_entries(topic_service.live)
    if resource.resource_type == GROUP:
        check_group_name(name)
        own = topic_service.own_settings(metadata_log.GROUP, name)
        return group_entries(name, own, topic_service.live)
    raise missing_resource(resource.resource_type)


def check_broker_name(broker: BrokerContext, name: str) -> None:
    """Refuse the name of another broker. Errors: INVALID_REQUEST."""
    node_id = broker.settings.node_id
    if name not in (ALL_BROKERS, str(node_id)):
        raise Refused(
            Code.INVALID_REQUEST,
            f"this is broker {node_id}, not {name!r}; an empty name stands for all brokers",
        )


def check_group_name(name: str) -> None:
    """Refuse an empty name: there are no settings of all groups. Errors: INVALID_REQUEST."""
    if not name:
        raise Refused(
            Code.INVALID_REQUEST,
            "name a group: the settings of all groups are the broker's, group.consumer...",
        )


def missing_resource(kind: int) -> Refused:
    """Return the refusal of a resource of a kind that has no settings here."""
    why = MISSING_RESOURCES.get(
        kind, f"there are no resources of type {kind}; there are 2 (topic), 4 (broker), 32 (group)"
    )
    return Refused(Code.INVALID_REQUEST, why)


def list_config_resources(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle ListConfigResources: list the resources that have, or may have, settings (KIP-1142).

    Every topic and the broker are there, but only groups with settings of their own. Version 0 asks
    for subscriptions to client metrics, of which there are none.
    Errors: UNSUPPORTED_VERSION for an unknown kind.
    """
    request: ListConfigResourcesRequest = arrived.request
    kinds = request.resource_types or LISTED
    if arrived.version < FIRST_KIND_VERSION:
        kinds = (CLIENT_METRICS,)
    if any(kind not in LISTED for kind in kinds):
        return Answer(ListConfigResourcesResponse(error_code=int(Code.UNSUPPORTED_VERSION)))
    topic_service = broker.topic_service
    names = {
        GROUP: topic_service.configured(metadata_log.GROUP),
        BROKER: [str(broker.settings.node_id)],
        TOPIC: sorted(topic.name for topic in topic_service.topics),
    }
    return Answer(
        ListConfigResourcesResponse(
            config_resources=tuple(
                ConfigResource(resource_name=name, resource_type=kind)
                for kind in LISTED
                if kind in kinds
                for name in names.get(kind, ())
            )
        )
    )


HANDLERS: dict[type, BrokerHandler] = {
    DescribeConfigsRequest: describe_configs,
    ListConfigResourcesRequest: list_config_resources,
}
