"""The SASL of a listener, as settings give it: users, sessions and the checks of tokens."""

from pathlib import Path
from typing import Any

import pytest

from apportion.node.sasl_settings import (
    JwtRules,
    SaslSettings,
    TokenCheckFunction,
    TokenRules,
    UnsecuredRules,
)
from apportion.node.settings import BrokerSettings, SettingRefused
from tests.refusals import sentence, texts
from tests.scripted import check

SECRET = "a-secret"
MODULES = "org.apache.kafka.common.security"
PLAIN_USERS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
HANDLER = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
KEYS = "sasl.oauthbearer.jwks.endpoint.url"
URL = "https://login.example.com/keys"


def sasl(mechanisms: str, values: dict[str, Any]) -> SaslSettings:
    """The SASL of the one listener."""
    (listener,) = BrokerSettings.of(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": mechanisms,
            **values,
        }
    ).listening()
    assert listener.security.sasl is not None
    return listener.security.sasl


def test_users_of_plain_are_options_of_its_login_module() -> None:
    users = (
        f'{MODULES}.plain.PlainLoginModule required username="broker" password="p" '
        f'user_alice="{SECRET}" user_bob="b \\"c\\"";'
    )
    found = sasl("PLAIN", {PLAIN_USERS: users})
    assert found == SaslSettings(
        mechanisms=("PLAIN",),
        passwords={"alice": SECRET, "bob": 'b "c"'},
        most_session_ms={"PLAIN": 0},
    )
    assert SECRET not in repr(found)


def test_a_mechanism_may_have_sessions_of_its_own() -> None:
    prefix = "listener.name.sasl_plaintext"
    found = sasl(
        "SCRAM-SHA-256,SCRAM-SHA-512",
        {
            "connections.max.reauth.ms": "5000",
            f"{prefix}.scram-sha-512.connections.max.reauth.ms": "0",
            f"{prefix}.scram-sha-512.sasl.jaas.config": (
                f"{MODULES}.scram.ScramLoginModule required;"
            ),
            "connection.failed.authentication.delay.ms": "7",
        },
    )
    assert found == SaslSettings(
        mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512"),
        most_session_ms={"SCRAM-SHA-256": 5000, "SCRAM-SHA-512": 0},
        failure_delay_ms=7,
    )


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        ({KEYS: URL}, JwtRules(URL)),
        (
            {
                KEYS: "file:///etc/keys.json",
                HANDLER: f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
                "sasl.oauthbearer.expected.audience": "a,b",
                "sasl.oauthbearer.expected.issuer": "us",
                "sasl.oauthbearer.scope.claim.name": "scp",
                "sasl.oauthbearer.sub.claim.name": "client",
                "sasl.oauthbearer.clock.skew.seconds": "5",
                "sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000",
            },
            JwtRules("file:///etc/keys.json", ("a", "b"), "us", "scp", "client", 5, 1000),
        ),
        (
            {f"listener.name.sasl_plaintext.oauthbearer.{KEYS}": "http://127.0.0.1:80/keys"},
            JwtRules("http://127.0.0.1:80/keys"),
        ),
        ({HANDLER: "my.tokens:check"}, TokenCheckFunction("my.tokens:check")),
        (
            {
                "apportion.oauthbearer.unsecured": "true",
                "sasl.oauthbearer.sub.claim.name": "client",
            },
            UnsecuredRules("client", 30),
        ),
    ],
)
def test_tokens_are_looked_at_as_the_settings_say(
    values: dict[str, Any], tokens: TokenRules
) -> None:
    assert sasl("OAUTHBEARER", values) == SaslSettings(
        mechanisms=("OAUTHBEARER",), tokens=tokens, most_session_ms={"OAUTHBEARER": 0}
    )


def test_a_wrong_setting_is_a_sentence_without_a_secret(request: pytest.FixtureRequest) -> None:
    def refused(step: str) -> list[str]:
        values = texts(step.replace("JAAS=", f"{PLAIN_USERS}="), MODULES=MODULES, SECRET=SECRET)
        lines = sentence(lambda: sasl(values.pop("mechanism"), values), SettingRefused)
        assert SECRET not in " ".join(lines)
        return lines

    check(Path(__file__).parent / "refusals" / "sasl.txt", refused, request)
