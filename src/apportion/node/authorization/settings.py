"""The checks of settings, by the kind of their resource, and of the whole cluster."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from apportion.errors import Refused
from apportion.machine import Arrived
from apportion.node.authorization.checks import (
    Checked,
    Need,
    Verdict,
    by_verdicts,
    completing,
    needing,
)
from apportion.node.authorization.rights import Rights
from apportion.node.authorization.topics import cluster_operations
from apportion.node.broker import BrokerContext
from apportion.node.config_changes import ConfigChange, check_changes
from apportion.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from apportion.wire.fields import replaced
from apportion.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from apportion.wire.messages.describe_configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
)
from apportion.wire.messages.incremental_alter_configs import SET

ON_CLUSTER = (BROKER, BROKER_LOGGER, CLIENT_METRICS)
"""The kinds of resources whose settings are the cluster's."""
BY_NAME = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP}

ChangesOf = Callable[[Any], Iterable[ConfigChange]]
"""Returns what a request wants to change of one of its resources."""


@dataclass(frozen=True, slots=True)
class OfSettings:
    """Checks each resource whose settings a request names.

    answered: the array of the response. changes: None if nothing is changed. A resource that is
    named twice, and changes that make no sense, go to the handler: as in Kafka they are refused
    before anybody asks who the caller is.
    """

    operation: AclOperation
    answered: str
    changes: ChangesOf | None = None

    @property
    def needs(self) -> tuple[Need, ...]:
        """The permissions for the kinds of resources."""
        return (
            Need(self.operation, ResourceType.TOPIC),
            Need(self.operation, ResourceType.GROUP),
            Need(self.operation, ResourceType.CLUSTER, "refused, for settings of brokers"),
        )

    def __call__(self, _broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
        """Pass on the resources that are allowed, and refuse the others."""
        resources = arrived.request.resources
        mentions = Counter((each.resource_type, each.resource_name) for each in resources)
        verdicts = [
            Verdict(
                resource,
                None
                if self.changes is not None
                and mentions[resource.resource_type, resource.resource_name] > 1
                else self._refusal_or_none(resource, rights),
            )
            for resource in resources
        ]
        return by_verdicts(
            arrived, rights, ("resources", self.answered), verdicts, is_explained=True
        )

    def _refusal_or_none(self, resource: Any, rights: Rights) -> Refused | None:
        """Return the refusal of one resource; None if its handler shall answer."""
        if resource.resource_type in ON_CLUSTER:
            kind, name = ResourceType.CLUSTER, CLUSTER_NAME
        elif resource.resource_type in BY_NAME:
            kind, name = BY_NAME[resource.resource_type], resource.resource_name
        else:
            return None  # there is no such kind, for anybody
        if rights.allows(self.operation, kind, name) or not self._makes_sense(resource):
            return None
        return rights.refusal(self.operation, kind, name)

    def _makes_sense(self, resource: Any) -> bool:
        """Return whether the changes of a resource are such that it matters who wants them."""
        if self.changes is None:
            return True
        try:
            check_changes(tuple(self.changes(resource)))
        except Refused:
            return False
        return True


def incremental_changes(resource: Any) -> Iterable[ConfigChange]:
    """Return what IncrementalAlterConfigs wants to change of a resource."""
    return (ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs)


def whole_changes(resource: Any) -> Iterable[ConfigChange]:
    """Return what AlterConfigs wants to change of a resource."""
    return (ConfigChange(each.name, SET, each.value) for each in resource.configs)


@needing(Need(AclOperation.DESCRIBE, ResourceType.CLUSTER, "0 for the authorized operations"))
def describe_cluster(_broker: BrokerContext, arrived: Arrived, rights: Rights) -> Checked:
    """Describe the cluster to everybody, with what the caller may do to it."""
    request: DescribeClusterRequest = arrived.request
    if not request.include_cluster_authorized_operations:
        return arrived

    def complete(response: DescribeClusterResponse) -> DescribeClusterResponse:
        operations = cluster_operations(response.cluster_authorized_operations, rights)
        return replaced(response, cluster_authorized_operations=operations)

    return completing(arrived, rights, complete)
