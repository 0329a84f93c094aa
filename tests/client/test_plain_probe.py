"""A listener that closes a handshake of TLS is asked whether it speaks without."""

import socket

import pytest

from apportion.client.connection import BrokerConnection, Disconnected
from apportion.client.connection_security import ConnectionSecurity
from apportion.security.client_security import ClientSecurity, TlsSettings
from apportion.wire.table import api_versions_response, decode_request, encode_response
from tests.client.test_tls import failure
from tests.client.tls_listener import listening


def test_a_listener_that_answers_without_tls_has_none() -> None:
    def serve(accepted: socket.socket) -> None:
        begun = accepted.recv(1 << 16)
        if begun[:2] != b"\x16\x03":  # as the first bytes of a request, too large
            asked = decode_request(begun[4:])
            body = api_versions_response()
            answer = encode_response(asked.api, asked.version, asked.correlation_id, body)
            accepted.sendall(b"".join(answer))

    assert failure(serve, TlsSettings()) == (
        "SSL_HANDSHAKE_FAILED: no TLS with the broker at B: it speaks no TLS: set "
        "security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name a listener of SSL or SASL_SSL"
    )


@pytest.mark.parametrize("answer", [b"\0\0\0\x0a\0\0\0\1", b"\x7f\0\0\0prob", b"\0\0", b""])
def test_another_answer_without_tls_proves_nothing(answer: bytes) -> None:
    def serve(accepted: socket.socket) -> None:
        if accepted.recv(1 << 16)[:2] != b"\x16\x03":
            accepted.sendall(answer)

    assert failure(serve, TlsSettings()).startswith("no TLS handshake with the broker at B: ")


def test_a_listener_that_is_silent_without_tls_proves_nothing() -> None:
    def serve(accepted: socket.socket) -> None:
        if accepted.recv(1 << 16)[:2] != b"\x16\x03":
            accepted.recv(1)

    with listening(serve) as port:
        security = ConnectionSecurity(ClientSecurity(TlsSettings()))
        with pytest.raises(Disconnected, match="this listener may have no TLS"):
            BrokerConnection("127.0.0.1", port, "test", 200, security=security)
