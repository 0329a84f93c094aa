"""The way from options to a cluster, on a listener that only reads."""

import socket
from typing import NamedTuple

import pytest

from apportion.client.connection import Disconnected
from apportion.security.client_security import PLAINTEXT, ClientSecurity
from apportion.spark.connections.clusters import cluster_of
from tests.client.tls_listener import listening


class Given(NamedTuple):
    """What an option of a source says, a batch read, or a write."""

    bootstrap: str
    client_id: str = "etl"
    request_timeout_ms: int = 200
    security: ClientSecurity = PLAINTEXT


@pytest.mark.parametrize(("own", "name"), [("", b"etl"), ("a-member", b"a-member")])
def test_a_cluster_is_reached_as_the_options_say(own: str, name: bytes) -> None:
    received = []

    def serve(accepted: socket.socket) -> None:
        received.append(accepted.recv(1 << 16))

    with listening(serve) as port:
        given = Given(f"127.0.0.1:{port}")
        cluster = cluster_of(given, client_id=own)
        assert cluster.timeout_ms == given.request_timeout_ms
        with pytest.raises(Disconnected):
            cluster.nodes()
        cluster.close()
    # ApiVersions, with the name behind its length.
    assert len(name).to_bytes(2) + name in received[0]
