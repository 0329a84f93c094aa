"""The settings of the authorizer: the values they take, and the sentences that refuse others."""

from typing import Any

import pytest

from apportion.node.settings import BrokerSettings, SettingRefused

KAFKAS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize("name", [KAFKAS, "StandardAuthorizer"])
def test_kafkas_authorizer_is_named_with_its_package_or_without(name: str) -> None:
    settings = BrokerSettings.of({"authorizer.class.name": name, "super.users": "User:a;User:b"})
    assert (settings.authorizer_class_name, settings.super_users) == (name, "User:a;User:b")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
            f"authorizer.class.name must be {KAFKAS} or StandardAuthorizer, not "
            "'kafka.security.authorizer.AclAuthorizer'.",
        ),
        (
            {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:alice;bob"},
            "super.users has 'bob', which is no principal: write User:bob.",
        ),
        (
            {"super.users": "User:alice"},
            "super.users has no effect without authorizer.class.name: set that, too.",
        ),
        (
            {"allow.everyone.if.no.acl.found": True},
            "allow.everyone.if.no.acl.found has no effect without authorizer.class.name: set "
            "that, too.",
        ),
        (
            {"allow.everyone.if.no.acl.found": "yes"},
            "allow.everyone.if.no.acl.found must be true or false, not 'yes'.",
        ),
    ],
)
def test_settings_that_would_not_do_what_they_say_are_refused(
    values: dict[str, Any], why: str
) -> None:
    with pytest.raises(SettingRefused) as refusal:
        BrokerSettings.of(values)
    assert str(refusal.value) == why
