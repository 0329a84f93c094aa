"""Options of a Consumer about TLS and SASL: what they mean, and what is refused."""

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion import Consumer
from apportion.client.kafka_security import FIELDS, kafka_security
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
from tests.refusals import arguments, sentence
from tests.scripted import check

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


def test_security_that_cannot_be_had_is_refused_without_a_secret(
    request: pytest.FixtureRequest,
) -> None:
    def refused(step: str) -> list[str]:
        options = arguments(step, ALICE=ALICE, OIDC=OIDC, SECRET=SECRET)
        lines = sentence(lambda: Consumer("localhost:1", "g", **options))
        assert SECRET not in " ".join(lines)
        return lines

    check(Path(__file__).parent / "refusals" / "security.txt", refused, request)


def test_a_consumer_takes_words_in_any_case() -> None:
    words: dict[str, Any] = {
        "security_protocol": "sasl_plaintext",
        "sasl_mechanism": "scram-sha-256",
    }
    Consumer("localhost:1", "g", **{**ALICE, **words}).close()


PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="alice" password="{SECRET}";'
)
OF_KAFKA = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_LOGIN}
SOME_VALUES = {
    "enable_ssl_certificate_verification": False,
    "ssl_endpoint_identification_algorithm": "none",
    "sasl_oauthbearer_method": "oidc",
    "oauth_cb": lambda _: "token",
}


def unused(options: Iterable[str], alice: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each option with others whose security protocol does not use it."""
    protocol = next(name for name in options if name.startswith("security"))
    for name in options:
        if name == protocol:
            continue
        yield name, {}
        yield name, {protocol: "SASL_PLAINTEXT", **alice} if "ssl" in name else {protocol: "SSL"}


@pytest.mark.parametrize(
    ("parse", "option", "others"),
    [
        *((client_security, *each) for each in unused(declared(SecurityOptions), ALICE)),
        *((kafka_security, *each) for each in unused(("security.protocol", *FIELDS), OF_KAFKA)),
    ],
)
def test_an_option_that_the_protocol_does_not_use_is_refused(
    parse: Any, option: str, others: dict[str, str]
) -> None:
    value = "PEM" if option.endswith(".type") else SOME_VALUES.get(option, "x")
    with pytest.raises(ValueError) as refused:
        parse({**others, option: value})
    protocol = [*others.values(), "PLAINTEXT"][0]
    name = "security.protocol" if "." in option else "security_protocol"
    assert str(refused.value).startswith(
        f"{option} says nothing while {name} is {protocol}: set {name} to "
    )
