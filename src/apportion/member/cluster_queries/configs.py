"""Queries about settings: DescribeConfigs and IncrementalAlterConfigs.

A query that alters settings may be sent again if its response is lost: the second time it changes
nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from apportion.errors import Code
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
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

OWN_SOURCES: Mapping[int, str] = MappingProxyType({1: "topic", 8: "group"})
"""Sources of settings that were given for one topic or one group alone, in Kafka's numbers."""
SOURCES: Mapping[int, str] = MappingProxyType(
    {**OWN_SOURCES, 2: "broker", 3: "broker", 4: "broker", 5: "default"}
)
"""Where a value comes from. A broker has its own from a file (4) or altered (2, or 3 for all)."""


class DescribedSetting(NamedTuple):
    """A setting of a topic or a group. value: None if it is secret or empty.

    inherited: the value without one of its own; None also where the broker does not tell it.
    """

    value: str | None
    source: int
    inherited: str | None

    @property
    def is_own(self) -> bool:
        """True if the value was given for this one topic or group."""
        return self.source in OWN_SOURCES


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
class DescribeConfigsQuery(BrokerQuery[dict[str, DescribedSetting]]):
    """Read all settings of a topic or a group; of what kind it is, says `kind`, in Kafka's numbers.

    Any broker answers.
    """

    api: ClassVar[str] = "DescribeConfigs"

    kind: int
    name: str

    def names_of(self, _code: Code) -> tuple[str, ...]:
        """Return the name of the resource."""
        return (self.name,)

    def request(self) -> DescribeConfigsRequest:
        """Return the request for all settings of the resource."""
        resource = DescribeConfigsResource(
            resource_type=self.kind, resource_name=self.name, configuration_keys=None
        )
        return DescribeConfigsRequest(resources=(resource,), include_synonyms=True)

    def parse(self, response: DescribeConfigsResponse) -> dict[str, DescribedSetting]:
        """Return the settings in order of name; raise Refused for an error."""
        for result in response.results:
            self.refuse_error(result.error_code, result.error_message)
        configs = (config for each in response.results for config in each.configs)
        return {
            config.name: _described(config)
            for config in sorted(configs, key=lambda config: config.name)
        }


def _described(config: DescribeConfigsResourceResult) -> DescribedSetting:
    """Return one setting of a DescribeConfigs response."""
    if config.config_source not in OWN_SOURCES:
        return DescribedSetting(config.value, config.config_source, config.value)
    inherited = (each.value for each in config.synonyms if each.source not in OWN_SOURCES)
    return DescribedSetting(config.value, config.config_source, next(inherited, None))


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

    def names_of(self, _code: Code) -> tuple[str, ...]:
        """Return the name of the resource."""
        return (self.name,)

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
            self.refuse_error(result.error_code, result.error_message)
