"""Settings bear Kafka's names, and a wrong one is told in one sentence."""

import pytest

from apportion.node.setting_texts import values_of_pairs
from apportion.node.settings import BrokerSettings, SettingRefused


def test_names_may_have_dots_or_underscores() -> None:
    settings = BrokerSettings.of(
        {
            "num.partitions": "12",
            "auto_create_topics_enable": False,
            "group.consumer.session.timeout.ms": 6000,
        }
    )
    assert (settings.num_partitions, settings.auto_create_topics_enable) == (12, False)
    assert settings.group.group_consumer_session_timeout_ms == 6000


def test_every_setting_can_be_said_back() -> None:
    settings = BrokerSettings.of({"num.partitions": 5, "group.consumer.assignors": "range"})
    named = settings.named()
    said_back = BrokerSettings.of(
        values_of_pairs(f"{name}={value}" for name, value in named.items())
    )
    assert said_back.named() == named


def test_a_setting_that_nothing_bears_is_named_with_a_near_one() -> None:
    with pytest.raises(
        SettingRefused,
        match=r"there is no setting 'log\.segment\.byte'; did you mean log\.segment\.bytes\?",
    ):
        BrokerSettings.of({"log.segment.byte": 1})


@pytest.mark.parametrize(
    "name", ["log.segment.bytes", "socket.request.max.bytes", "fetch.max.bytes", "max.connections"]
)
def test_a_setting_that_means_nothing_below_1_is_refused(name: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        BrokerSettings.of({name: 0})
    assert str(refused.value) == f"{name} must be at least 1, not 0."
