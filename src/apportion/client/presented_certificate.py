"""The certificate that a listener presents, for the sentence of a client that did not accept it.

OpenSSL shows a client no certificate that it has not verified. So the client connects once more,
trusts whatever comes, and sends nothing: no login, no request. It shows its own certificate again:
without one, the log of the broker would say that it has none.
"""

import socket
import ssl


def presented_certificate(host: str, port: int, timeout_s: float, context: ssl.SSLContext) -> bytes:
    """Return the certificate of a listener in DER; nothing if there is none. Raises OSError.

    context: one that verifies nothing.
    """
    with (
        socket.create_connection((host, port), timeout_s) as plain,
        context.wrap_socket(plain, server_hostname=host) as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True) or b""
