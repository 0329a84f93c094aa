"""Listeners have names, protocols and addresses as in Kafka, and security of their own."""

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

PLAIN = ListenerSecurity()
SECRET = "sesame"
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{SECRET}";'
RULES = "ssl.principal.mapping.rules"
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


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            {"listeners": "here"},
            "listeners must be HOST:PORT, or NAME://HOST:PORT for each listener, with commas "
            "between, not 'here'.",
        ),
        (
            {"listeners": "A B://here:1"},
            "listeners must be HOST:PORT, or NAME://HOST:PORT for each listener, with commas "
            "between, not 'A B://here:1'.",
        ),
        (
            {"listeners": "here:1,there:2"},
            "listeners must name each of its listeners, as in SSL://HOST:PORT.",
        ),
        ({"listeners": "A://here:1,a://there:2"}, "listeners has A twice."),
        ({"listeners": "A://here:1,B://here:1"}, "listeners has here:1 twice."),
        (
            {"listeners": "INSIDE://here:1"},
            "listeners has INSIDE, and listener.security.protocol.map has no protocol for it: add "
            "INSIDE:SSL, or another of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
        ),
        (
            {MAP: "A:TLS"},
            f"{MAP} has 'A:TLS'; the protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
        ),
        ({MAP: "A"}, f"{MAP} must be NAME:PROTOCOL, with commas between, not 'A'."),
        ({MAP: "A:SSL,a:SSL"}, f"{MAP} has A twice."),
        (
            {"advertised.listeners": "SSL://here:1"},
            "advertised.listeners has SSL, which is no listener of listeners; there are PLAINTEXT.",
        ),
        (
            {"advertised.listeners": "0.0.0.0:1"},
            "advertised.listeners has 0.0.0.0:1, to which no client can connect: name a host.",
        ),
        (
            {
                "listeners": "A://here:1,B://here:2",
                MAP: "A:PLAINTEXT,B:PLAINTEXT",
                "advertised.listeners": "here:1",
            },
            "advertised.listeners must name the listener that it is of, as in A://HOST:PORT.",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://here:1"},
            "the listener SASL_PLAINTEXT has SASL and no mechanism: set sasl.enabled.mechanisms, "
            "for example to SCRAM-SHA-512.",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://here:1", "sasl.enabled.mechanisms": "GSSAPI"},
            "sasl.enabled.mechanisms has 'GSSAPI', which is not here; there are PLAIN, "
            "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
        ),
        (
            {"listeners": "SSL://here:1", "ssl.keystore.certificate.chain": "x"},
            "ssl.keystore.certificate.chain needs its key: set ssl.keystore.key, too.",
        ),
        (
            {"ssl.client.auth": "required"},
            "ssl.client.auth says nothing while no listener speaks TLS: name one, as in "
            "SSL://HOST:PORT.",
        ),
        (
            {"connections.max.reauth.ms": 1},
            "connections.max.reauth.ms says nothing while no listener has SASL: name one, as in "
            "SASL_SSL://HOST:PORT.",
        ),
        (
            {"connections.max.reauth.ms": -1},
            "connections.max.reauth.ms must be at least 0, not -1.",
        ),
        (
            {"ssl.client.auth": "yes"},
            "ssl.client.auth must be one of none, requested, required, not 'yes'.",
        ),
        ({"ssl.enabled.protocols": ""}, "ssl.enabled.protocols must have TLSv1.2 or TLSv1.3."),
        (
            {"ssl.enabled.protocols": "TLSv1.1"},
            "ssl.enabled.protocols has 'TLSv1.1', which is not here; there are TLSv1.2, TLSv1.3.",
        ),
        (
            {"ssl_keystore_locaton": "x"},
            "there is no setting 'ssl_keystore_locaton'; did you mean ssl_keystore_location?",
        ),
        (
            {"listener.name.plaintext.ssl.keystore.locaton": "x"},
            "there is no setting 'listener.name.plaintext.ssl.keystore.locaton'; did you mean "
            "listener.name.plaintext.ssl.keystore.location?",
        ),
        (
            {"listener.name.plaintext.plain.sasl.jas.config": SECRET},
            "there is no setting 'listener.name.plaintext.plain.sasl.jas.config'; did you mean "
            "listener.name.plaintext.plain.sasl.jaas.config?",
        ),
        (
            {"listener.name.plaintext.zebra": SECRET},
            "there is no setting 'listener.name.plaintext.zebra'.",
        ),
        (
            {"listener.name.plaintxt.ssl.client.auth": "none"},
            "listener.name.plaintxt names no listener of listeners; did you mean plaintext?",
        ),
        (
            {"listener_name_plaintext_ssl_client_auth": "none"},
            "write the setting 'listener_name_plaintext_ssl_client_auth' with dots.",
        ),
        (
            {"sasl.jaas.config": SECRET},
            "'sasl.jaas.config' cannot be set: give it for a listener and a mechanism, as "
            "listener.name.NAME.MECHANISM.sasl.jaas.config.",
        ),
        (
            {"listeners": "SSL://here:1", "ssl.keystore.location": "x", RULES: "RULE:CN"},
            f"{RULES} must be rules with commas between, each DEFAULT or "
            "RULE:pattern/replacement/ with L or U at its end, not 'RULE:CN'.",
        ),
        (
            {
                "listeners": "SSL://here:1",
                "ssl.keystore.location": "x",
                f"listener.name.ssl.{RULES}": "RULE:(/x/",
            },
            f"listener.name.ssl.{RULES} has the pattern '(', which is wrong: missing ), "
            "unterminated subpattern at position 0.",
        ),
        ({"ssl.key.password": 7}, "ssl.key.password must be a text, not a int."),
    ],
)
def test_a_wrong_listener_is_refused_in_one_sentence(values: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        BrokerSettings.of(values)
    assert str(refused.value) == why


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
