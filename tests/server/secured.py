"""A broker whose second listener has SASL, and what its clients need."""

import base64
import json
import logging
import queue
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.server.closed_connections import ClosedConnectionLog
from apportion.wire.messages.describe_user_scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from tests.node.scram_requests import with_password

PASSWORD = "pässwörd ª"
NAME = "listener.name.sasl"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def plain_users(**passwords: str) -> str:
    """`sasl.jaas.config` of a broker where these users log in by PLAIN."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"


SETTINGS: dict[str, Any] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    f"{NAME}.plain.sasl.jaas.config": plain_users(alice=PASSWORD, bob="b"),
    "apportion.oauthbearer.unsecured": "true",
    "apportion.authentication.timeout.ms": 1_000,
    "connection.failed.authentication.delay.ms": 1,
}


class Secured:
    """A broker whose second listener has SASL; alice has a password for each mechanism."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.plain = broker.bootstrap
        assert broker._server is not None
        self.server = broker._server
        self.sasl = broker.addresses["SASL"]

    def add_users(self) -> None:
        """Give alice her password, for SCRAM."""
        cluster = Cluster(self.plain)
        for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
            cluster.call(with_password(PASSWORD, mechanism, "alice"))
        cluster.close()

    def forget_closings(self) -> None:
        """Have the log begin anew: it has a line for the first few closings of a host alone."""
        self.server._closed_log = ClosedConnectionLog()


class Log(logging.Handler):
    """The lines of the broker's log, from its own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: queue.Queue[str] = queue.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.put(record.getMessage())

    def closing(self) -> str:
        """Why the broker has closed a connection, by the next line."""
        line = self.messages.get(timeout=10)
        start, _, why = line.partition(": ")
        assert start.startswith("closed the connection of 127.0.0.1:")
        return why


@contextmanager
def running(settings: Mapping[str, Any]) -> Iterator[Secured]:
    """Run a broker that has the users."""
    with EmbeddedBroker(**settings) as broker:
        secured = Secured(broker)
        secured.add_users()
        yield secured


@contextmanager
def logged(secured: Secured) -> Iterator[Log]:
    """Listen to the broker's log, as if nobody had been closed before."""
    secured.forget_closings()
    with listened() as log:
        yield log


@contextmanager
def listened() -> Iterator[Log]:
    """Listen to the log of all brokers."""
    handler = Log()
    logger = logging.getLogger("apportion")
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)


def token(lifetime_s: float = 600, user: str = "alice") -> str:
    """A token without a signature."""
    now_s = time.time()
    claims = {"sub": user, "iat": now_s - 5, "exp": now_s + lifetime_s}
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    )
    return f"{head}.{body}."


def with_token(text: str) -> bytes:
    """The message of OAUTHBEARER that has this token."""
    return f"n,,\1auth=Bearer {text}\1\1".encode()
