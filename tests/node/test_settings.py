"""Settings bear Kafka's names, and a wrong one is told in one sentence."""

from pathlib import Path

import pytest

from apportion.node.setting_texts import values_of_pairs
from apportion.node.settings import BrokerSettings, SettingRefused
from tests.refusals import sentence, texts
from tests.scripted import check


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


@pytest.mark.parametrize("package", ["org.apache.kafka.metadata.authorizer.", ""])
def test_kafkas_authorizer_is_named_with_its_package_or_without(package: str) -> None:
    name = f"{package}StandardAuthorizer"
    settings = BrokerSettings.of({"authorizer.class.name": name, "super.users": "User:a;User:b"})
    assert (settings.authorizer_class_name, settings.super_users) == (name, "User:a;User:b")


def test_settings_that_would_not_do_what_they_say_are_refused(
    request: pytest.FixtureRequest,
) -> None:
    def refused(step: str) -> list[str]:
        return sentence(lambda: BrokerSettings.of(texts(step)), SettingRefused)

    check(Path(__file__).parent / "refusals" / "broker.txt", refused, request)
