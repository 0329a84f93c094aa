"""Options of a Consumer about TLS and SASL: what they mean, and what is refused."""

import pickle
from typing import Any

import pytest

from apportion import Consumer
from apportion.client.security_options import SecurityOptions, client_security
from apportion.security.client_security import (
    PLAINTEXT,
    ClientCredentials,
    ClientIdentity,
    ClientSecurity,
    PasswordLogin,
    TlsSettings,
    TokenFunction,
    TokenLogin,
)
from apportion.security.key_stores import KeyStore, StoreKind
from apportion.settings import declared

SECRET = "a-secret-that-nobody-may-see"
ALICE = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": SECRET}
OIDC = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_method": "oidc",
    "sasl_oauthbearer_client_id": "etl",
    "sasl_oauthbearer_client_secret": SECRET,
    "sasl_oauthbearer_token_endpoint_url": "https://login.example.com/token",
}
SECURED = [
    ({}, PLAINTEXT),
    ({"client_id": "c", "ssl_ca_location": None}, PLAINTEXT),
    ({"security_protocol": "ssl"}, ClientSecurity(TlsSettings())),
    (
        {
            "security_protocol": "SSL",
            "ssl_ca_location": "ca.pem",
            "ssl_certificate_location": "me.pem",
            "ssl_key_pem": SECRET,
            "ssl_key_password": SECRET,
            "ssl_endpoint_identification_algorithm": "none",
        },
        ClientSecurity(
            TlsSettings(
                KeyStore(location="ca.pem"),
                ClientIdentity(KeyStore(location="me.pem"), KeyStore(text=SECRET, password=SECRET)),
                checks_host_name=False,
            )
        ),
    ),
    (
        {
            "security_protocol": "SSL",
            "ssl_keystore_location": "me.p12",
            "ssl_keystore_password": SECRET,
            "enable_ssl_certificate_verification": False,
        },
        ClientSecurity(
            TlsSettings(
                identity=ClientIdentity(KeyStore(StoreKind.PKCS12, "me.p12", password=SECRET)),
                checks_certificate=False,
            )
        ),
    ),
    (
        {"security_protocol": "SASL_PLAINTEXT", **ALICE},
        ClientSecurity(login=PasswordLogin("PLAIN", "alice", SECRET)),
    ),
    (
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanisms": "scram-sha-512",
            "sasl_username": "alice",
            "sasl_password": SECRET,
        },
        ClientSecurity(TlsSettings(), PasswordLogin("SCRAM-SHA-512", "alice", SECRET)),
    ),
    (
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "oauth_cb": "tokens:fetch",
            "sasl_oauthbearer_config": SECRET,
        },
        ClientSecurity(login=TokenLogin(TokenFunction("tokens:fetch", SECRET))),
    ),
    (
        {
            **OIDC,
            "sasl_oauthbearer_scope": "kafka",
            "sasl_oauthbearer_extensions": "pool=p1, cluster=c=1",
        },
        ClientSecurity(
            TlsSettings(),
            TokenLogin(
                ClientCredentials(
                    "https://login.example.com/token",
                    "etl",
                    SECRET,
                    "kafka",
                    (("pool", "p1"), ("cluster", "c=1")),
                )
            ),
        ),
    ),
]


@pytest.mark.parametrize(("options", "security"), SECURED)
def test_options_describe_the_security_of_a_client(
    options: dict[str, Any], security: ClientSecurity
) -> None:
    assert client_security(options) == security


@pytest.mark.parametrize(("options", "security"), SECURED)
def test_a_security_is_pickled_whole_and_shows_no_secret(
    options: dict[str, Any], security: ClientSecurity
) -> None:
    assert pickle.loads(pickle.dumps(security)) == security
    assert hash(security) == hash(pickle.loads(pickle.dumps(security)))
    assert SECRET not in repr(security) + str(security) + security.protocol.value


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"security_protocol": "TLS"},
            "security_protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'",
        ),
        (
            ALICE,
            "sasl_mechanism says nothing while security_protocol is PLAINTEXT: set "
            "security_protocol to SASL_SSL (with TLS) or SASL_PLAINTEXT, or leave sasl_mechanism "
            "out",
        ),
        (
            {"security_protocol": "SSL", "sasl_password": SECRET},
            "sasl_password says nothing while security_protocol is SSL: set security_protocol to "
            "SASL_SSL, or leave sasl_password out",
        ),
        (
            {"ssl_ca_location": "ca.pem"},
            "ssl_ca_location says nothing while security_protocol is PLAINTEXT: set "
            "security_protocol to SSL or SASL_SSL, or leave ssl_ca_location out",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", **ALICE, "ssl_certificate_pem": SECRET},
            "ssl_certificate_pem says nothing while security_protocol is SASL_PLAINTEXT: set "
            "security_protocol to SASL_SSL, or leave ssl_certificate_pem out",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_username": "alice"},
            "sasl_mechanism is missing: it is needed with security_protocol",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanisms": "GSSAPI"},
            "sasl_mechanisms must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER: "
            "GSSAPI (Kerberos) is not here",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "a"},
            "sasl_password is missing: it is needed for the mechanism PLAIN",
        ),
        (
            {"security_protocol": "SASL_SSL", **ALICE, "sasl_password": SECRET.encode()},
            "sasl_password must be a text, not a bytes",
        ),
        (
            {"security_protocol": "SASL_SSL", **ALICE, "sasl_password": f"{SECRET}\0"},
            "sasl_password has a password with NUL or a lone surrogate in it",
        ),
        (
            {"security_protocol": "SSL", "ssl_ca_location": "a", "ssl_ca_pem": "b"},
            "ssl_ca_pem and ssl_ca_location: give one",
        ),
        (
            {"security_protocol": "SSL", "ssl_key_pem": SECRET},
            "ssl_certificate_location is missing: the key is of a certificate",
        ),
        (
            {"security_protocol": "SSL", "ssl_keystore_location": "a", "ssl_key_pem": SECRET},
            "ssl_keystore_location has certificate and key: give no others",
        ),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "dns"},
            "ssl_endpoint_identification_algorithm must be https or none, not 'dns'",
        ),
        (
            {"security_protocol": "SSL", "ssl_ca_location": "no-such-file.pem"},
            "CA certificates: the file 'no-such-file.pem' cannot be read: No such file or "
            "directory",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "oauth_cb is missing: OAUTHBEARER needs a token; or set sasl_oauthbearer_method to "
            "oidc, to get tokens from an OAuth server",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "oauth_cb": 7},
            'oauth_cb must be a Python function as "module:function", which returns a token',
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "oauth_cb": "no_such_module:token",
            },
            "the token function no_such_module:token cannot be loaded: ModuleNotFoundError: No "
            "module named 'no_such_module'",
        ),
        (
            {**OIDC, "sasl_oauthbearer_client_secret": None},
            "sasl_oauthbearer_client_secret is missing: it is needed to get tokens from an OAuth "
            "server",
        ),
        (
            {**OIDC, "sasl_oauthbearer_token_endpoint_url": "http://login.example.com"},
            "sasl_oauthbearer_token_endpoint_url must begin with https://, as the client's secret "
            "is sent there",
        ),
        (
            {**OIDC, "sasl_oauthbearer_token_endpoint_url": "login.example.com"},
            "sasl_oauthbearer_token_endpoint_url must be an address such as "
            "https://login.example.com/oauth2/token",
        ),
        (
            {**OIDC, "sasl_oauthbearer_extensions": "pool"},
            "sasl_oauthbearer_extensions must be key=value,key=value",
        ),
        (
            {**OIDC, "sasl_oauthbearer_extensions": "auth=x"},
            "sasl_oauthbearer_extensions cannot be sent: the extension 'auth' must have a name of "
            "letters, which is not 'auth', and a value of ASCII characters",
        ),
    ],
)
def test_security_that_cannot_be_had_is_refused_before_anything_is_connected(
    options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as refused:
        Consumer("localhost:1", "g", **options)
    assert str(refused.value) == sentence
    assert SECRET not in sentence


def test_a_consumer_takes_words_in_any_case() -> None:
    words: dict[str, Any] = {
        "security_protocol": "sasl_plaintext",
        "sasl_mechanism": "scram-sha-256",
    }
    Consumer("localhost:1", "g", **{**ALICE, **words}).close()


SOME_VALUES = {
    "enable_ssl_certificate_verification": False,
    "ssl_endpoint_identification_algorithm": "none",
    "sasl_oauthbearer_method": "oidc",
    "oauth_cb": lambda _: "token",
}
OF_TLS = [name for name in declared(SecurityOptions) if "ssl_" in name]
OF_LOGINS = [
    name for name in declared(SecurityOptions) if "ssl_" not in name and name != "security_protocol"
]


@pytest.mark.parametrize(
    ("option", "others"),
    [
        *((name, {}) for name in (*OF_TLS, *OF_LOGINS)),
        *((name, {"security_protocol": "SASL_PLAINTEXT", **ALICE}) for name in OF_TLS),
        *((name, {"security_protocol": "SSL"}) for name in OF_LOGINS),
    ],
)
def test_an_option_that_the_protocol_does_not_use_is_refused(
    option: str, others: dict[str, Any]
) -> None:
    with pytest.raises(ValueError) as refused:
        client_security({**others, option: SOME_VALUES.get(option, "x")})
    protocol = others.get("security_protocol", "PLAINTEXT")
    assert str(refused.value).startswith(
        f"{option} says nothing while security_protocol is {protocol}: set security_protocol to "
    )
