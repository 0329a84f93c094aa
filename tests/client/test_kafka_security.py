"""Kafka's own options about TLS and SASL, as jobs and tools have them."""

from pathlib import Path

import pytest

from apportion.client.kafka_security import kafka_security
from apportion.client.security_options import client_security
from apportion.security.client_security import (
    KAFKA_NAMES,
    PLAINTEXT,
    ClientCredentials,
    ClientIdentity,
    ClientSecurity,
    OptionNames,
    PasswordLogin,
    TlsSettings,
    TokenFunction,
    TokenLogin,
)
from apportion.security.key_stores import KeyStore, StoreKind
from tests.refusals import sentence, texts
from tests.scripted import check

SECRET = 'a "secret" with = and ;'
QUOTED = SECRET.replace('"', '\\"')
PACKAGE = "org.apache.kafka.common.security"
PLAIN = f'{PACKAGE}.plain.PlainLoginModule required username="alice" password="{QUOTED}";'
SCRAM = f"""{PACKAGE}.scram.ScramLoginModule required
    username='alice'
    password="{QUOTED}" ;
"""
OAUTH = (
    f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required clientId="etl" '
    f'clientSecret="{QUOTED}" scope="kafka" extension_pool="p1";'
)
HANDLER = f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
URL = "https://login.example.com/token"
SASL_SSL = {"security.protocol": "SASL_SSL"}
TOKENS = {**SASL_SSL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH}


@pytest.mark.parametrize(
    ("options", "security"),
    [
        ({"bootstrap.servers": "b:9092", "client.id": "c"}, PLAINTEXT),
        (
            {**SASL_SSL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            ClientSecurity(TlsSettings(), PasswordLogin("PLAIN", "alice", SECRET)),
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": SCRAM.replace("org.", "kafkashaded.org.", 1),
            },
            ClientSecurity(None, PasswordLogin("SCRAM-SHA-256", "alice", SECRET)),
        ),
        (
            {
                **TOKENS,
                "sasl.login.callback.handler.class": HANDLER,
                "sasl.oauthbearer.token.endpoint.url": URL,
                "ssl.truststore.location": "ca.p12",
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.password": SECRET,
            },
            ClientSecurity(
                TlsSettings(KeyStore(StoreKind.PKCS12, "ca.p12", password=SECRET)),
                TokenLogin(
                    ClientCredentials(
                        URL,
                        "etl",
                        SECRET,
                        "kafka",
                        (("pool", "p1"),),
                        KeyStore(StoreKind.PKCS12, "ca.p12", password=SECRET),
                    )
                ),
            ),
        ),
        (
            {
                **SASL_SSL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.client.credentials.client.id": "etl",
                "sasl.oauthbearer.client.credentials.client.secret": SECRET,
                "sasl.oauthbearer.token.endpoint.url": URL,
            },
            ClientSecurity(TlsSettings(), TokenLogin(ClientCredentials(URL, "etl", SECRET))),
        ),
        (
            {**TOKENS, "sasl.login.callback.handler.class": "tokens:fetch"},
            ClientSecurity(TlsSettings(), TokenLogin(TokenFunction("tokens:fetch"))),
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.certificates": "A\\nB",
                "ssl.keystore.certificate.chain": "CHAIN",
                "ssl.keystore.key": SECRET,
                "ssl.key.password": SECRET,
                "ssl.enabled.protocols": "TLSv1.3",
                "ssl.endpoint.identification.algorithm": "",
            },
            ClientSecurity(
                TlsSettings(
                    KeyStore(text="A\nB"),
                    ClientIdentity(KeyStore(text="CHAIN"), KeyStore(text=SECRET, password=SECRET)),
                    checks_host_name=False,
                    versions=("TLSv1.3",),
                )
            ),
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": "me.pem",
                "ssl.keystore.type": "PEM",
                "ssl.key.password": SECRET,
            },
            ClientSecurity(
                TlsSettings(
                    identity=ClientIdentity(
                        KeyStore(location="me.pem"), KeyStore(location="me.pem", password=SECRET)
                    )
                )
            ),
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "me.jks"},
            ClientSecurity(TlsSettings(identity=ClientIdentity(KeyStore(StoreKind.JKS, "me.jks")))),
        ),
    ],
)
@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_options_of_kafka_describe_the_security_of_a_client(
    options: dict[str, str], security: ClientSecurity, prefix: str
) -> None:
    prefixed = {prefix + name: value for name, value in options.items()}
    assert kafka_security(prefixed, prefix) == security


def test_the_truststore_of_an_oauth_server_needs_no_tls_of_brokers() -> None:
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}
    tokens = {**TOKENS, "security.protocol": "SASL_PLAINTEXT"}
    handler = {
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.oauthbearer.token.endpoint.url": URL,
    }
    login = kafka_security({**tokens, **handler, **trusted}).login
    assert login == TokenLogin(
        ClientCredentials(
            URL, "etl", SECRET, "kafka", (("pool", "p1"),), KeyStore(location="ca.pem")
        )
    )
    with pytest.raises(ValueError, match=r"ssl\.truststore\.type says nothing while"):
        kafka_security({**tokens, "sasl.login.callback.handler.class": "tokens:fetch", **trusted})


def test_options_of_kafka_that_cannot_be_had_are_refused_without_a_secret(
    request: pytest.FixtureRequest,
) -> None:
    some = {
        "TOKENS": TOKENS,
        "SASL_SSL": SASL_SSL,
        "BY_PLAIN": {**SASL_SSL, "sasl.mechanism": "PLAIN"},
    }
    values = {"PLAIN": PLAIN, "SCRAM": SCRAM, "HANDLER": HANDLER, "SECRET": SECRET}
    values |= {"PACKAGE": PACKAGE, "PLAIN_MODULE": f"{PACKAGE}.plain.PlainLoginModule"}

    def refused(step: str) -> list[str]:
        given = texts(step.replace("JAAS=", "sasl.jaas.config="), **some, **values)
        options = {f"kafka.{name}": value for name, value in given.items()}
        lines = sentence(lambda: kafka_security(options, "kafka."))
        assert "secret" not in " ".join(lines).replace("clientSecret", "")
        return lines

    check(Path(__file__).parent / "refusals" / "kafka_security.txt", refused, request)


def test_errors_name_the_options_of_each_dialect() -> None:
    assert kafka_security({}).names == KAFKA_NAMES
    assert kafka_security({}, "kafka.").names == OptionNames(
        "kafka.security.protocol",
        "kafka.sasl.mechanism",
        "kafka.ssl.truststore.location",
        "kafka.ssl.endpoint.identification.algorithm",
        "kafka.ssl.keystore.location",
        "kafka.ssl.keystore.certificate.chain",
        "kafka.ssl.keystore.key",
        "kafka.ssl.key.password",
        "kafka.ssl.truststore.type",
        "kafka.ssl.keystore.type",
    )
    assert client_security({"sasl_mechanisms": None}).names == OptionNames(
        "security_protocol",
        "sasl_mechanism",
        "ssl_ca_location",
        "ssl_endpoint_identification_algorithm",
        "ssl_keystore_location",
        "ssl_certificate_location",
        "ssl_key_location",
        "ssl_key_password",
        "",
        "",
    )
