"""Clients on a real Kafka that is secured: each way in, each way that ends with one sentence, and
no secret in anything that is shown.
"""

import json
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apportion import Consumer, StreamsConsumer
from apportion.client.connection import BrokerConnection
from apportion.client.connection_security import ConnectionSecurity
from apportion.client.security_options import client_security
from apportion.errors import Code, Refused
from apportion.streams.metadata.model import TaskId
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.certificates import Authority
from tests.kafka.conftest import until
from tests.kafka.secured import (
    PASSWORD,
    SHORT_SESSION_MS,
    STORE_PASSWORD,
    TOPIC,
    WRONG,
    Secured,
)
from tests.server.secured import token
from tests.web_server import web_server

ENDS_WITHIN_S = 5.0
"""How soon a client ends that the broker does not let in, as docs/security.md says."""


def read_one(bootstrap: str, group: str, options: dict[str, Any]) -> list[bytes]:
    """The values that a consumer reads first."""
    with Consumer(
        bootstrap, group, topics=TOPIC, auto_offset_reset="earliest", **options
    ) as consumer:
        until_s = time.monotonic() + 30
        while time.monotonic() < until_s:
            if records := consumer.poll(500):
                return [bytes(record.value or b"") for record in records]
    return []


def mtls_pem(secured: Secured) -> dict[str, Any]:
    return secured.options(
        "MTLS",
        ssl_certificate_pem=(secured.directory / "client.pem").read_text(),
        ssl_key_location=str(secured.directory / "client.key"),
        ssl_key_password=STORE_PASSWORD,
    )


def mtls_pkcs12(secured: Secured) -> dict[str, Any]:
    return secured.options(
        "MTLS",
        ssl_keystore_location=str(secured.directory / "client.p12"),
        ssl_keystore_password=STORE_PASSWORD,
    )


WAYS_IN: list[tuple[str, str, Callable[[Secured], dict[str, Any]]]] = [
    ("tls", "TLS", lambda secured: secured.options("TLS")),
    ("plain", "SASL", lambda secured: secured.options()),
    ("scram", "SASL", lambda secured: secured.options(sasl_mechanism="SCRAM-SHA-512")),
    ("bare", "BARE", lambda secured: secured.options("BARE")),
    ("pem", "MTLS", mtls_pem),
    ("pkcs12", "MTLS", mtls_pkcs12),
    (
        "token",
        "SASL",
        lambda secured: {
            "security_protocol": "SASL_SSL",
            "ssl_ca_pem": Path(secured.ca).read_text(),
            "sasl_mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _config: token(500),
        },
    ),
]


def both_protocols(rows: list[Any]) -> list[Any]:
    """The rows, each with one protocol of groups in turn: a connection knows none of them."""
    turns = ("consumer", "classic")
    return [pytest.param(*row, turns[at % 2], id=row[0]) for at, row in enumerate(rows)]


@pytest.mark.parametrize(("name", "listener", "options", "protocol"), both_protocols(WAYS_IN))
def test_a_consumer_reads_from_a_secured_kafka(
    secured: Secured,
    name: str,
    listener: str,
    options: Callable[[Secured], dict[str, Any]],
    protocol: str,
) -> None:
    given = options(secured) | {"group_protocol": protocol}
    address = secured.broker.addresses[listener]
    assert read_one(address, name, given) == [b"a flight"]


def test_a_streams_process_runs_its_task_on_a_secured_kafka(secured: Secured) -> None:
    with StreamsConsumer(
        secured.broker.addresses["SASL"],
        "streams-scram",
        topology=[{"sources": [TOPIC], "changelogs": ["counts"]}],
        auto_offset_reset="earliest",
        **secured.options(sasl_mechanism="SCRAM-SHA-512"),
    ) as process:
        until_s = time.monotonic() + 30
        while not (read := process.poll_tasks(500)):
            assert time.monotonic() < until_s
        assert [(each.task, each.record.value) for each in read] == [(TaskId(0, 0), b"a flight")]


def test_a_consumer_reads_with_one_token_of_an_oauth_server(secured: Secured) -> None:
    answer = json.dumps({"access_token": token(500), "expires_in": 500})
    with web_server(200, answer.encode()) as server:
        options = {
            "security_protocol": "SASL_SSL",
            "ssl_ca_location": secured.ca,
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_method": "oidc",
            "sasl_oauthbearer_token_endpoint_url": f"{server.address}/token",
            "sasl_oauthbearer_client_id": "etl",
            "sasl_oauthbearer_client_secret": WRONG,
        }
        address = secured.broker.addresses["SASL"]
        assert read_one(address, "oidc", options) == [b"a flight"]
        assert len(server.requests) == 1
    with web_server(401, b"") as server, pytest.raises(Refused) as refused:
        options["sasl_oauthbearer_token_endpoint_url"] = f"{server.address}/token"
        read_one(address, "oidc", options)
    assert "gives no token to client 'etl': HTTP status 401" in refused.value.why


TLS, SASL = "no TLS with the broker at B: ", "the broker at B does not accept user 'alice' by "
WRONGS: list[tuple[str, str, dict[str, Any], Code, str]] = [
    (
        "authority",
        "TLS",
        {"ssl_ca_pem": Authority().pem, "ssl_ca_location": None},
        Code.SSL_HANDSHAKE_FAILED,
        TLS + "its certificate, CN=broker, issued by CN=CA of a test, is of no CA that this client "
        "trusts: set ssl_ca_location to the CA of the cluster",
    ),
    (
        "host",
        "ELSEWHERE",
        {},
        Code.SSL_HANDSHAKE_FAILED,
        TLS + "its certificate, CN=broker, is for kafka.example.com, and not for the host "
        "'127.0.0.1': name the broker as its certificate does, or set "
        "ssl_endpoint_identification_algorithm to none",
    ),
    (
        "expired",
        "EXPIRED",
        {},
        Code.SSL_HANDSHAKE_FAILED,
        TLS + "its certificate, CN=broker, has expired: it was valid until T",
    ),
    (
        "certificate",
        "MTLS",
        {},
        Code.SSL_HANDSHAKE_FAILED,
        TLS + "the broker does not accept this client's certificate, or wants one and has got none "
        "(mTLS): set ssl_certificate_location and ssl_key_location, or ssl_keystore_location",
    ),
    (
        "password",
        "SASL",
        {"sasl_password": WRONG},
        Code.SASL_AUTHENTICATION_FAILED,
        SASL + "PLAIN: Authentication failed: Invalid username or password",
    ),
    (
        "scram",
        "SASL",
        {"sasl_password": WRONG, "sasl_mechanism": "SCRAM-SHA-512"},
        Code.SASL_AUTHENTICATION_FAILED,
        SASL + "SCRAM-SHA-512: Authentication failed during authentication due to invalid "
        "credentials with SASL mechanism SCRAM-SHA-512",
    ),
    (
        "mechanism",
        "SASL",
        {"sasl_mechanism": "SCRAM-SHA-256"},
        Code.UNSUPPORTED_SASL_MECHANISM,
        "the broker at B does not offer the SASL mechanism SCRAM-SHA-256; it offers PLAIN, "
        "SCRAM-SHA-512, OAUTHBEARER: set sasl_mechanism to one of these",
    ),
    (
        "plain",
        "TLS",
        {"security_protocol": "PLAINTEXT", "ssl_ca_location": None},
        Code.SSL_HANDSHAKE_FAILED,
        "the listener at B speaks TLS: set security_protocol to SSL, or to SASL_SSL if clients "
        "must authenticate there",
    ),
    (
        "acl",
        "SASL",
        {"sasl_username": "bob"},
        Code.GROUP_AUTHORIZATION_FAILED,
        "this client's principal has no permission for DESCRIBE on the group 'wrong-acl'; "
        "a user who may alter the cluster gives READ, which includes it, by `apportion acls add "
        "--allow-principal User:NAME --operation Read --group wrong-acl`",
    ),
    (
        "tls",
        "BARE",
        {"security_protocol": "SASL_SSL"},
        Code.SSL_HANDSHAKE_FAILED,
        "no TLS with the broker at B: it speaks no TLS: set security_protocol to PLAINTEXT or "
        "SASL_PLAINTEXT, or name a listener of SSL or SASL_SSL",
    ),
    (
        "no-sasl",
        "TLS",
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": PASSWORD,
        },
        Code.ILLEGAL_SASL_STATE,
        "the listener at B has no SASL: set security_protocol to PLAINTEXT or SSL, or name a "
        "listener of SASL_PLAINTEXT or SASL_SSL",
    ),
]


@pytest.mark.parametrize(
    ("name", "listener", "options", "code", "why", "protocol"), both_protocols(WRONGS)
)
def test_a_consumer_that_is_not_let_in_ends_with_one_sentence(
    secured: Secured,
    caplog: pytest.LogCaptureFixture,
    name: str,
    listener: str,
    options: dict[str, Any],
    code: Code,
    why: str,
    protocol: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    address = secured.broker.addresses[listener]
    given = secured.options(listener, group_protocol=protocol) | options
    begun_s = time.monotonic()
    with pytest.raises(Refused) as refused:
        read_one(address, f"wrong-{name}", given)
    assert time.monotonic() - begun_s < ENDS_WITHIN_S
    said = re.sub(r"\bB\b", address, why)
    told = re.sub(r"\d{4}(-\d\d){2} (\d\d:){2}\d\d UTC", "T", refused.value.why)
    assert (refused.value.code, told) == (code, said)
    shown = caplog.text + repr(refused.value) + repr(refused.value.__cause__)
    assert [secret for secret in (WRONG, PASSWORD, "PRIVATE KEY") if secret in shown] == []


def test_a_listener_that_just_closes_is_tried_again_and_explained(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    hint = "this listener may want SASL, or a client certificate"
    with Consumer(secured.broker.addresses["BARE"], "closed", topics=TOPIC) as consumer:
        until(lambda: consumer.poll(100) == [] and hint in caplog.text)


def test_a_session_is_renewed_on_the_same_connection(secured: Secured) -> None:
    host, _, port = secured.broker.addresses["BARE"].rpartition(":")
    security = ConnectionSecurity(client_security(secured.options("BARE")))
    connection = BrokerConnection(host, int(port), "renewed", 10_000, security=security)
    behind_the_record = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1_000)
    asked = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        topics=(FetchTopic(topic=TOPIC, partitions=(behind_the_record,)),),
    )
    try:
        until_s = time.monotonic() + 2.5 * SHORT_SESSION_MS / 1000
        # The broker closes a connection on which a session is over.
        while time.monotonic() < until_s:
            answer = connection.call(asked, timeout_ms=10_000, version=12)
            assert answer.responses[0].partitions[0].error_code == Code.NONE
    finally:
        connection.close()
