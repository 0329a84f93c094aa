"""Our broker with the listener of the matrix."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apportion.server.embedded import EmbeddedBroker
from tests.kafka.acl_matrix.group_requests import SESSION_MS
from tests.kafka.acl_matrix.side import AclSide
from tests.kafka.secured import PASSWORD, PLAIN_USERS


@contextmanager
def our_side(directory: Path) -> Iterator[AclSide]:
    """Our broker, with a listener where the users log in by PLAIN."""
    settings: Any = {
        "listeners": "BARE://127.0.0.1:0",
        "listener.security.protocol.map": "BARE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.bare.plain.sasl.jaas.config": PLAIN_USERS,
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:alice",
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.max.session.timeout.ms": SESSION_MS,
        "group.initial.rebalance.delay.ms": 0,
    }
    with EmbeddedBroker(directory, **settings) as broker:
        side = AclSide("apportion", broker.bootstrap, PASSWORD)
        yield side
        side.close()
