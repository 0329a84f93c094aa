"""The query about one setting of a broker: its request, and what its response has."""

import pytest

from apportion.errors import Code
from apportion.member.cluster_queries.configs import BrokerSettingQuery
from apportion.wire.messages.describe_configs import (
    BROKER,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

QUERY = BrokerSettingQuery(3, "x.ms")


def described(**configs: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        configs=tuple(
            DescribeConfigsResourceResult(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        )
    )


def test_one_setting_of_one_broker_is_requested() -> None:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name="3", configuration_keys=("x.ms",)
    )
    assert QUERY.request() == DescribeConfigsRequest(resources=(resource,))


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (described(w_ms="1", x_ms="2"), "2"),
        (described(x_ms=None), None),
        (described(w_ms="1"), None),
        (DescribeConfigsResult(error_code=Code.CLUSTER_AUTHORIZATION_FAILED), None),
    ],
    ids=["told", "secret", "unknown", "refused"],
)
def test_a_setting_that_the_broker_does_not_tell_is_none(
    result: DescribeConfigsResult, value: str | None
) -> None:
    assert QUERY.parse(DescribeConfigsResponse(results=(result,))) == value
