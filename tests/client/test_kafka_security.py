"""Kafka's own options about TLS and SASL, as jobs and tools have them."""

import pytest

from apportion.client.kafka_security import FIELDS, kafka_security
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


def with_jaas(text: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {**SASL_SSL, "sasl.mechanism": mechanism, "sasl.jaas.config": text}


OF_TLS = [name for name in FIELDS if name.startswith("ssl.")]
OF_LOGINS = [name for name in FIELDS if name.startswith("sasl.")]
BY_PASSWORD = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}


@pytest.mark.parametrize(
    ("option", "others"),
    [
        *((name, {}) for name in (*OF_TLS, *OF_LOGINS)),
        *((name, {"security.protocol": "SASL_PLAINTEXT", **BY_PASSWORD}) for name in OF_TLS),
        *((name, {"security.protocol": "SSL"}) for name in OF_LOGINS),
    ],
)
def test_an_option_that_the_protocol_does_not_use_is_refused(
    option: str, others: dict[str, str]
) -> None:
    value = "PEM" if option.endswith(".type") else "x"
    with pytest.raises(ValueError) as refused:
        kafka_security({**others, option: value})
    protocol = others.get("security.protocol", "PLAINTEXT")
    assert str(refused.value).startswith(
        f"{option} says nothing while security.protocol is {protocol}: set security.protocol to "
    )


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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ssl.truststore.lokation": "x"}, "is not known: did you mean kafka.ssl.truststore.l"),
        ({"ssl.cipher.suites": "x"}, "kafka.ssl.cipher.suites cannot be used here: OpenSSL's own"),
        ({"sasl.client.callback.handler.class": "x"}, "names a class of Java, which cannot be"),
        ({**SASL_SSL, "sasl.jaas.config": PLAIN}, "kafka.sasl.mechanism is missing"),
        ({**SASL_SSL, "sasl.mechanism": "PLAIN"}, "kafka.sasl.jaas.config is missing: it is ne"),
        ({**SASL_SSL, "sasl.mechanism": "GSSAPI"}, "OAUTHBEARER: GSSAPI (Kerberos) is not here"),
        (
            with_jaas(SCRAM),
            "kafka.sasl.jaas.config has a login module for SCRAM-SHA-256 and SCRAM-SHA-512, and "
            "kafka.sasl.mechanism is PLAIN",
        ),
        (
            with_jaas("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"),
            "names a login module of Kerberos, which is not here: use PlainLoginModule, "
            "ScramLoginModule, OAuthBearerLoginModule",
        ),
        (
            with_jaas(f'com.example.{SECRET.split()[0]}Module required password="{QUOTED}";'),
            "names a login module that only Java has: use PlainLoginModule, ScramLoginModule",
        ),
        (with_jaas(PLAIN[:-1]), "must be: a login module, required, its options as name="),
        (with_jaas(PLAIN[:-3]), "has a quotation mark without its partner"),
        (with_jaas(PLAIN + PLAIN), "must have one login module alone, with one ; at its end"),
        (with_jaas(PLAIN.replace("required", "needed")), "must have the word required after"),
        (with_jaas(PLAIN.replace("username=", "username ")), "must have each option of the login"),
        (with_jaas(PLAIN.replace("username=", "user=")), 'must have username="..." after the'),
        (with_jaas(SCRAM.replace(" ;", " tokenauth=true;"), "SCRAM-SHA-512"), "a delegation token"),
        (TOKENS, "kafka.sasl.login.callback.handler.class must be OAuthBearerLoginCallbackHandler"),
        (
            {**TOKENS, "sasl.login.callback.handler.class": HANDLER},
            "kafka.sasl.oauthbearer.token.endpoint.url is missing: it is needed to get tokens",
        ),
        (
            {
                **with_jaas(f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;"),
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": HANDLER,
            },
            'must have clientId="..." and clientSecret="..." after the login module',
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "PKCS11"},
            "kafka.ssl.keystore.type must be one of PEM, PKCS12, JKS, not 'PKCS11'",
        ),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"},
            "kafka.ssl.enabled.protocols must have TLSv1.2 or TLSv1.3, with a comma between",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.certificate.chain": "x"},
            "kafka.ssl.keystore.key is missing: it is needed with kafka.ssl.keystore.certificate",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": SECRET},
            "kafka.ssl.keystore.certificate.chain is missing: it is needed with kafka.ssl.keystore",
        ),
    ],
)
def test_options_of_kafka_that_cannot_be_had_are_refused_without_a_secret(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError) as refused:
        kafka_security({f"kafka.{name}": value for name, value in options.items()}, "kafka.")
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value).replace("clientSecret", "")


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
