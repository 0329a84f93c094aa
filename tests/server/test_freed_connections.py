"""A closed connection goes with its last reference: no garbage collection is needed."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.peer import Peer
from tests.server.tls_peer import LOOPS, TLS, TlsPeer, WatchedServer, address, with_server

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SETTINGS = TLS | {
    "listeners": ",".join(f"{protocol}://127.0.0.1:0" for protocol in PROTOCOLS),
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


@pytest.fixture
def no_collections() -> Iterator[Callable[[], Counter[str]]]:
    """Collect no garbage; `no_collections()` counts what is there of the server's connections."""

    def counted() -> Counter[str]:
        names = Counter(type(each).__qualname__ for each in gc.get_objects())
        return Counter({name: names[name] for name in names if name in KINDS})

    gc.collect()
    gc.disable()
    yield counted
    gc.enable()


KINDS = {"ServerConnection", "TlsConnection", "SaslConnection", "SaslGate", "Reading"}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_a_client_has_closed_is_freed(
    tmp_path: Path, loop: str, no_collections: Callable[[], Counter[str]]
) -> None:
    def script(server: WatchedServer) -> None:
        for protocol in PROTOCOLS:
            for said in (b"", b"\xff" * 8):
                with Peer(address(server, protocol)) as peer:
                    peer.send(said)
            kind = TlsPeer if protocol.endswith("SSL") else Peer
            with kind(address(server, protocol)) as peer:
                peer.ask(ApiVersionsRequest(), 0)
                peer.answer(ApiVersionsRequest, 0)
                if protocol.startswith("SASL"):
                    peer.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
                    peer.answer(SaslHandshakeRequest, 1)

    before = no_collections()
    with_server(tmp_path, SETTINGS, script, loop)
    assert no_collections() == before
