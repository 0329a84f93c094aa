"""The query about a broker's settings: DescribeConfigs."""

from dataclasses import dataclass
from typing import ClassVar

from apportion.member.cluster_queries.query import BrokerQuery
from apportion.wire.messages.describe_configs import (
    BROKER,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)


@dataclass(frozen=True, slots=True)
class BrokerSettingQuery(BrokerQuery[str | None]):
    """Read one setting of a broker. Only the broker itself answers."""

    api: ClassVar[str] = "DescribeConfigs"

    node_id: int
    name: str

    def request(self) -> DescribeConfigsRequest:
        """Return the request for this setting alone."""
        resource = DescribeConfigsResource(
            resource_type=BROKER,
            resource_name=str(self.node_id),
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
