"""The question whether a listener that has closed a handshake of TLS speaks no TLS.

A listener without TLS takes the handshake for a request that is too large, and closes. So does a
broker that stops, or the proxy of one that is down, and that is to be waited for. A listener that
answers Kafka's first request on a plain connection is certain. The request has no secret in it.
"""

import socket

from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.table import encode_request

VERSION = 0
"""Every broker has it, and answers it before any login."""
CORRELATION_ID = 0x70726F62
MOST_BYTES = 1 << 20


def answers_without_tls(host: str, port: int, timeout_s: float) -> bool:
    """Return whether a listener answers ApiVersions on a plain connection. Raises OSError."""
    request = encode_request(ApiVersionsRequest(), VERSION, CORRELATION_ID, "apportion")
    with socket.create_connection((host, port), timeout_s) as plain:
        plain.sendall(request)
        answer = b""
        while len(answer) < 8 and (some := plain.recv(8 - len(answer))):
            answer += some
    size, correlation_id = int.from_bytes(answer[:4], "big"), int.from_bytes(answer[4:], "big")
    return len(answer) == 8 and size <= MOST_BYTES and correlation_id == CORRELATION_ID
