"""Queries about settings: their requests, and what their responses have."""

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.configs import (
    AlterConfigsQuery,
    DescribeConfigsQuery,
    DescribedSetting,
    SettingQuery,
)
from apportion.wire.messages.describe_configs import (
    BROKER,
    GROUP,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from apportion.wire.messages.incremental_alter_configs import (
    DELETE,
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

QUERY = SettingQuery(BROKER, "3", "x.ms")


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


def test_all_settings_of_a_topic_are_read_with_what_they_would_be_otherwise() -> None:
    query = DescribeConfigsQuery(TOPIC, "t")
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="t", configuration_keys=None
    )
    assert query.request() == DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    synonyms = (
        DescribeConfigsSynonym(name="x.ms", value="1", source=1),
        DescribeConfigsSynonym(name="log.x.ms", value="2", source=4),
    )
    configs = (
        DescribeConfigsResourceResult(name="y", value="1", config_source=1),
        DescribeConfigsResourceResult(name="x.ms", value="1", config_source=1, synonyms=synonyms),
        DescribeConfigsResourceResult(name="w.ms", value="3", config_source=5),
        DescribeConfigsResourceResult(name="secret", value=None, config_source=4),
    )
    response = DescribeConfigsResponse(results=(DescribeConfigsResult(configs=configs),))
    settings = query.parse(response)
    assert [*settings.items()] == [
        ("secret", DescribedSetting(None, 4, None)),
        ("w.ms", DescribedSetting("3", 5, "3")),
        ("x.ms", DescribedSetting("1", 1, "2")),
        ("y", DescribedSetting("1", 1, None)),
    ]
    assert [name for name, each in settings.items() if each.is_own] == ["x.ms", "y"]


def test_a_setting_is_set_or_returned_to_its_default() -> None:
    query = AlterConfigsQuery(GROUP, "g", {"w.ms": "1", "x.ms": None}, validate_only=True)
    configs = (
        IncrementalAlterableConfig(name="w.ms", config_operation=SET, value="1"),
        IncrementalAlterableConfig(name="x.ms", config_operation=DELETE, value=None),
    )
    resource = IncrementalAlterConfigsResource(
        resource_type=GROUP, resource_name="g", configs=configs
    )
    assert query.request() == IncrementalAlterConfigsRequest(
        resources=(resource,), validate_only=True
    )
    query.parse(IncrementalAlterConfigsResponse(responses=(altered(Code.NONE),)))


def altered(code: Code) -> IncrementalAlterConfigsResourceResponse:
    return IncrementalAlterConfigsResourceResponse(error_code=code, error_message="why")


def test_a_refused_alteration_has_the_words_of_the_broker() -> None:
    query = AlterConfigsQuery(GROUP, "g", {})
    with pytest.raises(Refused) as refused:
        query.parse(IncrementalAlterConfigsResponse(responses=(altered(Code.INVALID_CONFIG),)))
    assert (refused.value.code, refused.value.why) == (Code.INVALID_CONFIG, "why")
    failed = DescribeConfigsResult(error_code=Code.INVALID_REQUEST, error_message="why")
    with pytest.raises(Refused) as refused:
        DescribeConfigsQuery(GROUP, "").parse(DescribeConfigsResponse(results=(failed,)))
    assert (refused.value.code, refused.value.why) == (Code.INVALID_REQUEST, "why")
