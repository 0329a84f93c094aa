"""Queries about settings: DescribeConfigs and IncrementalAlterConfigs.

A query that alters settings may be sent again if its response is lost: the second time it changes
nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from apportion.member.cluster_queries.query import BrokerQuery, raise_error
from apportion.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from apportion.wire.messages.incremental_alter_configs import (
    DELETE,
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)


@dataclass(frozen=True, slots=True)
class SettingQuery(BrokerQuery[str | None]):
    """Read one setting of a resource, of a kind in Kafka's numbers.

    Only a broker itself tells its own; any broker tells those of a group or a topic.
    """

    api: ClassVar[str] = "DescribeConfigs"

    kind: int
    resource: str
    name: str

    def request(self) -> DescribeConfigsRequest:
        """Return the request for this setting alone."""
        resource = DescribeConfigsResource(
            resource_type=self.kind,
            resource_name=self.resource,
            configuration_keys=(self.name,),
        )
        return DescribeConfigsRequest(resources=(resource,))

    def parse(self, response: DescribeConfigsResponse) -> str | None:
        """Return the value; None for an unknown or secret setting, and for a broker that refuses.

        A client may be without the permission to describe settings, and goes by a default then.
        """
        values = (
            config.value
            for result in response.results
            for config in result.configs
            if config.name == self.name
        )
        return next(values, None)


@dataclass(frozen=True, slots=True)
class DescribeConfigsQuery(BrokerQuery[dict[str, str | None]]):
    """Read all settings of a topic or a group; of what kind it is, says `kind`, in Kafka's numbers.

    The result has None for a value that is secret or empty.
    """

    api: ClassVar[str] = "DescribeConfigs"

    kind: int
    name: str

    def request(self) -> DescribeConfigsRequest:
        """Return the request for all settings of the resource."""
        resource = DescribeConfigsResource(
            resource_type=self.kind, resource_name=self.name, configuration_keys=None
        )
        return DescribeConfigsRequest(resources=(resource,))

    def parse(self, response: DescribeConfigsResponse) -> dict[str, str | None]:
        """Return the values by name; raise Refused for an error."""
        for result in response.results:
            raise_error(result.error_code, result.error_message)
        return {config.name: config.value for each in response.results for config in each.configs}


@dataclass(frozen=True, slots=True)
class AlterConfigsQuery(BrokerQuery[None]):
    """Alter settings of a topic or a group; of what kind it is, says `kind`, in Kafka's numbers.

    changes: the new value of each setting; None returns it to its default.
    """

    api: ClassVar[str] = "IncrementalAlterConfigs"

    kind: int
    name: str
    changes: Mapping[str, str | None]
    validate_only: bool = False

    def request(self) -> IncrementalAlterConfigsRequest:
        """Return the request for these changes."""
        configs = tuple(
            IncrementalAlterableConfig(
                name=name, config_operation=DELETE if value is None else SET, value=value
            )
            for name, value in self.changes.items()
        )
        resource = IncrementalAlterConfigsResource(
            resource_type=self.kind, resource_name=self.name, configs=configs
        )
        return IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=self.validate_only
        )

    def parse(self, response: IncrementalAlterConfigsResponse) -> None:
        """Raise Refused, with the broker's words, if nothing was altered."""
        for result in response.responses:
            raise_error(result.error_code, result.error_message)
