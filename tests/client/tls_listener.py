"""A listener that speaks TLS, or answers a client otherwise, and its address."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.certificates import Issued, written

Serve = Callable[[socket.socket], object]


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """The port of a listener that serves each connection with this function, then closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            with accepted, suppress(OSError):
                accepted.settimeout(10)
                serve(accepted)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def server_context(directory: Path, issued: Issued) -> ssl.SSLContext:
    """The TLS of a listener with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    chain = written(directory, f"{id(issued)}.pem", issued.key_pem() + issued.chain_pem())
    context.load_cert_chain(chain)
    return context


def tls_server(
    directory: Path, issued: Issued, client_ca: str = "", newest: str = "TLSv1_3"
) -> Serve:
    """Serve TLS with this certificate, and close after the first bytes of the client.

    client_ca: a PEM text; clients must have a certificate of it.
    """
    context = server_context(directory, issued)
    context.maximum_version = ssl.TLSVersion[newest]
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca)

    def serve(accepted: socket.socket) -> None:
        with context.wrap_socket(
            accepted, server_side=True, do_handshake_on_connect=False
        ) as secured:
            try:
                secured.do_handshake()
                secured.recv(1)
            except ssl.SSLError:
                # The alert would be lost if the socket were closed with bytes in it.
                secured.shutdown(socket.SHUT_WR)
                while secured.recv(1 << 16):
                    pass

    return serve
