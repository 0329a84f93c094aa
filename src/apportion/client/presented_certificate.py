"""The certificate that a listener presents, for the sentence of a client that did not accept it.

OpenSSL shows a client no certificate that it has not verified. So the client connects once more,
trusts whatever comes, and sends nothing: no login, no request.
"""

import socket
import ssl

LONGEST_S = 2.0


def presented_certificate(host: str, port: int, timeout_s: float) -> bytes:
    """Return the certificate of a listener in DER; nothing if there is none. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), min(timeout_s, LONGEST_S)) as plain,
        context.wrap_socket(plain, server_hostname=host) as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True) or b""
