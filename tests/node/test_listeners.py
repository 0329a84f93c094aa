"""Listeners have names, protocols and addresses as in Kafka, and security of their own."""

from pathlib import Path
from typing import Any

import pytest

from apportion.node.listeners import (
    Address,
    Listener,
    ListenerSecurity,
    ListenerTls,
)
from apportion.node.sasl_settings import SaslSettings
from apportion.node.settings import BrokerSettings, SettingRefused
from apportion.security.key_stores import ClientAuth, KeyStore, StoreKind
from apportion.security.names import SecurityProtocol
from apportion.security.principals import PrincipalRules, principal_rules
from tests.refusals import sentence, texts
from tests.scripted import check

PLAIN = ListenerSecurity()
SECRET = "sesame"
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{SECRET}";'
MAP = "listener.security.protocol.map"


SETTINGS: dict[str, Any] = {
    "listeners": "INSIDE://127.0.0.1:1,OUTSIDE://127.0.0.1:2",
    MAP: "INSIDE:SSL,OUTSIDE:SASL_SSL",
    "apportion.authentication.timeout.ms": 500,
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.location": "broker.p12",
    "ssl.keystore.password": SECRET,
    "ssl.key.password": "",
    "ssl.truststore.type": "PKCS12",
    "ssl.truststore.location": "ca.p12",
    "ssl.truststore.password": SECRET,
    "ssl.client.auth": "required",
    "ssl.enabled.protocols": "TLSv1.3",
    "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/L,DEFAULT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.server.max.receive.size": 1000,
    "connections.max.reauth.ms": 60_000,
    "listener.name.outside.ssl.keystore.certificate.chain": r"chain\nend",
    "listener.name.outside.ssl.keystore.key": "key",
    "listener.name.outside.ssl.key.password": SECRET,
    "listener.name.outside.ssl.truststore.certificates": "ca",
    "listener.name.outside.ssl.enabled.protocols": ["TLSv1.2"],
    "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.outside.plain.sasl.jaas.config": LOGIN,
    "listener.name.outside.plain.connections.max.reauth.ms": 1,
}


def listening(values: dict[str, Any]) -> tuple[Listener, ...]:
    return BrokerSettings.of(values).listening()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("PLAINTEXT://127.0.0.1:9092", "127.0.0.1", 9092),
        ("plaintext://:0", "0.0.0.0", 0),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
    ],
)
def test_one_address_is_the_listener_plaintext(text: str, host: str, port: int) -> None:
    expected = Listener("PLAINTEXT", host, port, SecurityProtocol.PLAINTEXT, None, PLAIN)
    assert listening({"listeners": text}) == (expected,)


def test_a_listener_has_a_name_of_its_own() -> None:
    found = listening(
        {
            "listeners": "INSIDE://127.0.0.1:19092, outside://0.0.0.0:9092",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:plaintext",
            "advertised.listeners": "OUTSIDE://kafka.example.com:443",
        }
    )
    plaintext = SecurityProtocol.PLAINTEXT
    assert found == (
        Listener("INSIDE", "127.0.0.1", 19092, plaintext, None, PLAIN),
        Listener("OUTSIDE", "0.0.0.0", 9092, plaintext, Address("kafka.example.com", 443), PLAIN),
    )
    assert [str(each) for each in found] == [
        "INSIDE://127.0.0.1:19092",
        "OUTSIDE://0.0.0.0:9092",
    ]


def test_a_wrong_listener_is_refused_in_one_sentence(request: pytest.FixtureRequest) -> None:
    def refused(step: str) -> list[str]:
        values = texts(step.replace("MAP=", f"{MAP}="), SECRET=SECRET)
        lines = sentence(lambda: BrokerSettings.of(values), SettingRefused)
        assert SECRET not in " ".join(lines)
        return lines

    check(Path(__file__).parent / "refusals" / "listeners.txt", refused, request)


def test_a_secret_is_a_text() -> None:
    with pytest.raises(SettingRefused) as refused:
        BrokerSettings.of({"ssl.key.password": 7})
    assert str(refused.value) == "ssl.key.password must be a text, not a int."


def test_a_setting_of_security_holds_for_all_listeners_or_for_one() -> None:
    inside, outside = listening(SETTINGS)
    rules = principal_rules("RULE:^CN=(.*)$/$1/L,DEFAULT")
    assert inside.security == ListenerSecurity(
        ListenerTls(
            certificate=KeyStore(StoreKind.PKCS12, "broker.p12", password=SECRET),
            key=None,
            trusted=KeyStore(StoreKind.PKCS12, "ca.p12", password=SECRET),
            client_auth=ClientAuth.REQUIRED,
            versions=("TLSv1.3",),
            principal_rules=rules,
            certificate_setting="ssl.keystore.location",
            trusted_setting="ssl.truststore.location",
        )
    )
    sasl = SaslSettings(
        mechanisms=("PLAIN", "SCRAM-SHA-512"),
        passwords={"alice": SECRET},
        most_session_ms={"PLAIN": 1, "SCRAM-SHA-512": 60_000},
        most_frame_bytes=1000,
    )
    assert outside.security == ListenerSecurity(
        ListenerTls(
            certificate=KeyStore(text="chain\nend"),
            key=KeyStore(text="key", password=SECRET),
            trusted=KeyStore(text="ca"),
            # Who logs in by SASL needs no certificate, unless the listener itself says so.
            client_auth=ClientAuth.NONE,
            versions=("TLSv1.2",),
            principal_rules=rules,
            certificate_setting="listener.name.outside.ssl.keystore.certificate.chain",
            trusted_setting="listener.name.outside.ssl.truststore.certificates",
        ),
        sasl,
    )
    assert [inside.security.authenticates, outside.security.authenticates, PLAIN.authenticates] == [
        True,
        True,
        False,
    ]


def test_a_listener_of_sasl_ssl_wants_certificates_if_it_says_so_itself() -> None:
    [listener] = listening(
        {
            "listeners": "SASL_SSL://127.0.0.1:1",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "broker.pem",
            "ssl.key.password": SECRET,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.ssl.client.auth": "requested",
        }
    )
    assert listener.security.tls == ListenerTls(
        certificate=KeyStore(StoreKind.PEM, "broker.pem"),
        key=KeyStore(StoreKind.PEM, "broker.pem", password=SECRET),
        trusted=None,
        client_auth=ClientAuth.REQUESTED,
        versions=("TLSv1.2", "TLSv1.3"),
        principal_rules=PrincipalRules(),
        certificate_setting="ssl.keystore.location",
        trusted_setting="ssl.truststore.location",
    )


def test_no_secret_is_in_the_repr_of_settings_and_listeners_or_among_the_named() -> None:
    settings = BrokerSettings.of(
        {
            "listeners": "SASL_SSL://127.0.0.1:1",
            "ssl.keystore.location": "broker.p12",
            "ssl.keystore.password": SECRET,
            "ssl.truststore.certificates": SECRET,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.ssl.keystore.key": SECRET,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": LOGIN,
        }
    )
    named = settings.named()
    assert SECRET not in repr((settings, settings.listening(), named))
    assert [named[name] for name in ("ssl.keystore.password", "ssl.key.password")] == [
        "[hidden]",
        "",
    ]
    assert named["listener.name.sasl_ssl.plain.sasl.jaas.config"] == "[hidden]"
