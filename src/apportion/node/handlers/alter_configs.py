"""IncrementalAlterConfigs and AlterConfigs: alter settings while the broker runs.

Each resource of a request has its own result: all of its changes are made, or none. A setting holds
from the next use on, in every log and every group; the response waits until it is on the disk.
Versions: IncrementalAlterConfigs 0-1, AlterConfigs 0-2.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from apportion.coord.group_settings import check_group_settings
from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.config_changes import ConfigChange, changed_settings, check_changes
from apportion.node.config_entries import OFFSETS_TOPIC, TOPIC_SETTINGS
from apportion.node.handlers.configs import check_broker_name, check_group_name, missing_resource
from apportion.node.live_settings import ALL_BROKERS, MIN_INSYNC_REPLICAS
from apportion.node.settings import SettingRefused
from apportion.node.topic_settings import canonical, check_settings, is_list
from apportion.node.topics import AlteredResource, check_name
from apportion.store import metadata_log
from apportion.topics import grouped
from apportion.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from apportion.wire.messages.describe_configs import BROKER, GROUP, TOPIC
from apportion.wire.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

Own = Mapping[str, str]
LISTS = {name: default for name, default in TOPIC_SETTINGS.items() if is_list(name)}


class ResourceKind(NamedTuple):
    """One kind of resource whose settings may be altered.

    kind: its name in the metadata log. lists: its settings that are lists, with their defaults.
    check_name: refuses a name that no such resource can have. checked: returns all own settings as
    they are to be stored, or refuses them; it is told which of them the request names.
    """

    kind: str
    lists: Own
    check_name: Callable[[BrokerContext, str], None]
    checked: Callable[[BrokerContext, str, Own, Own], Own]


def incremental_alter_configs(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle IncrementalAlterConfigs: change the named settings, and no others (KIP-339)."""
    request: IncrementalAlterConfigsRequest = arrived.request
    results = _results(
        broker,
        request,
        lambda resource: (
            ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs
        ),
        is_whole=False,
    )
    return Answer(
        IncrementalAlterConfigsResponse(
            responses=tuple(IncrementalAlterConfigsResourceResponse(**each) for each in results)
        )
    )


def alter_configs(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle AlterConfigs: the named settings become all own settings of the resource."""
    request: AlterConfigsRequest = arrived.request
    results = _results(
        broker,
        request,
        lambda resource: (ConfigChange(each.name, SET, each.value) for each in resource.configs),
        is_whole=True,
    )
    return Answer(
        AlterConfigsResponse(
            responses=tuple(AlterConfigsResourceResponse(**each) for each in results)
        )
    )


def _results(
    broker: BrokerContext,
    request: Any,
    changes_of: Callable[[Any], Iterable[ConfigChange]],
    *,
    is_whole: bool,
) -> list[dict[str, Any]]:
    """Alter each resource of a request; return the fields of its results.

    is_whole: whether the settings that the request does not name go away.
    """
    mentions = grouped(
        ((each.resource_type, each.resource_name), each) for each in request.resources
    )
    results, altered = [], []
    topic_service = broker.topic_service
    for resource in request.resources:
        number, name = resource.resource_type, resource.resource_name
        result: dict[str, Any] = {"resource_type": number, "resource_name": name}
        try:
            if len(mentions[number, name]) > 1:
                raise Refused(
                    Code.INVALID_REQUEST, "the request names this resource twice: merge its changes"
                )
            changes = tuple(changes_of(resource))
            kind, own = _altered(broker, (number, name), changes, is_whole=is_whole)
            if own != topic_service.own_settings(kind, name):
                altered.append(AlteredResource(kind, name, own))
        except Refused as refused:
            result |= {"error_code": int(refused.code), "error_message": refused.why}
        results.append({"error_code": 0, "error_message": None} | result)
    # Each resource stands once in `altered`, and none is checked by the settings of another.
    if not request.validate_only:
        topic_service.configure(altered)
    return results


def _altered(
    broker: BrokerContext,
    resource: tuple[int, str],
    changes: tuple[ConfigChange, ...],
    *,
    is_whole: bool,
) -> tuple[str, Own]:
    """Return a resource's kind and its own settings as these changes make them.

    The order of the checks is Kafka's. Errors: INVALID_REQUEST, INVALID_CONFIG,
    INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION.
    """
    number, name = resource
    check_changes(changes)
    kind = KINDS.get(number)
    if kind is None:
        raise missing_resource(number)
    kind.check_name(broker, name)
    before = {} if is_whole else broker.topic_service.own_settings(kind.kind, name)
    own = changed_settings(before, changes, kind.lists)
    named = {change.name: own[change.name] for change in changes if change.name in own}
    return kind.kind, kind.checked(broker, name, own, named)


def _check_topic_name(_broker: BrokerContext, name: str) -> None:
    if not name:
        raise Refused(Code.INVALID_REQUEST, "name a topic: topics have no settings in common")
    check_name(name)


def _checked_topic(broker: BrokerContext, name: str, own: Own, named: Own) -> Own:
    """Return the own settings of a topic, the named ones as plain values."""
    check_settings(named)
    if broker.topic_service.topics.named(name) is None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    checked = {**own, **{each: canonical(each, text) for each, text in named.items()}}
    # Unlike Kafka: with another policy the groups' records would expire, and the groups with them.
    if name == OFFSETS_TOPIC and checked.get("cleanup.policy") != "compact":
        raise Refused(
            Code.INVALID_CONFIG, f"cleanup.policy of {name} has to be compact: it has the groups"
        )
    return checked


def _checked_group(broker: BrokerContext, _name: str, own: Own, _named: Own) -> Own:
    return check_group_settings(own, broker.settings.group)


def _checked_broker(broker: BrokerContext, name: str, own: Own, named: Own) -> Own:
    """Return the altered settings of a broker or of all, the named ones as plain values."""
    try:
        values = broker.settings.altered(named).named()
    except SettingRefused as refused:
        # Kafka's code for all of these, whatever is wrong with the value.
        raise Refused(Code.INVALID_REQUEST, str(refused)) from None
    # KIP-966: a cluster has it for all of its brokers, and none of them has another one.
    if (MIN_INSYNC_REPLICAS in own) != (name == ALL_BROKERS):
        what = "is altered for all brokers, not for one" if name else "stays: set it, or leave it"
        raise Refused(Code.INVALID_CONFIG, f"{MIN_INSYNC_REPLICAS} {what}")
    return {**own, **{each: values[each] for each in named}}


def _check_group_name(_broker: BrokerContext, name: str) -> None:
    check_group_name(name)


KINDS: dict[int, ResourceKind] = {
    TOPIC: ResourceKind(metadata_log.TOPIC, LISTS, _check_topic_name, _checked_topic),
    BROKER: ResourceKind(metadata_log.BROKER, {}, check_broker_name, _checked_broker),
    GROUP: ResourceKind(metadata_log.GROUP, {}, _check_group_name, _checked_group),
}
"""The kinds of resources by Kafka's numbers."""

HANDLERS: dict[type, BrokerHandler] = {
    IncrementalAlterConfigsRequest: incremental_alter_configs,
    AlterConfigsRequest: alter_configs,
}
