"""Why a connection failed: by kinds and numbers, since the words of `ssl` change with Python."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apportion.drive.connection_errors import certificate_fault, connection_fault
from apportion.drive.fetching import NotFetched, fetched, opener_of
from tests.certificates import Authority
from tests.client.tls_listener import listening, tls_server

NO_CA = "its certificate is of no CA that this host trusts"


def reset(_path: Path) -> Callable[[socket.socket], object]:
    """A listener that closes amid the handshake."""
    return lambda accepted: accepted.recv(1 << 16)


def of_unknown_ca(path: Path) -> Callable[[socket.socket], object]:
    return tls_server(path, Authority().issue("server", ("127.0.0.1",)))


def of_openssl(reason: Any) -> ssl.SSLError:
    error = ssl.SSLError(1, f"{reason} (_ssl.c:992)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:1006)"), "closed"),
        (ssl.SSLZeroReturnError(6, "connection has been closed (EOF) (_ssl.c:992)"), "closed"),
        (of_openssl("RECORD_TOO_SMALL"), "OpenSSL says RECORD_TOO_SMALL"),
        (of_openssl(None), "OpenSSL says no reason"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (ConnectionResetError("said by us"), "said by us"),
        (OSError(), "OSError"),
    ],
)
def test_a_fault_of_a_connection_has_no_words_of_pythons_ssl(error: OSError, why: str) -> None:
    assert connection_fault(error, "server") == why.replace("closed", "closed by the server")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (9, "its certificate is not valid yet: see that the clock of this host is right"),
        (10, "its certificate has expired"),
        *((code, NO_CA) for code in (2, 7, 18, 19, 20, 21)),
        (62, "its certificate is of another host"),
        (64, "its certificate is of another host"),
        (1, "its certificate cannot be verified: words of OpenSSL"),
    ],
)
def test_a_fault_of_a_certificate_is_told_by_openssls_number(code: int, why: str) -> None:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "words of OpenSSL"
    assert certificate_fault(error) == why


@pytest.mark.parametrize(
    ("serve", "failure"),
    [(of_unknown_ca, (NO_CA, "NoneType")), (reset, ("", "closed by the server"))],
)
def test_a_failed_fetch_has_the_same_reason_on_any_python(
    tmp_path: Path,
    serve: Callable[[Path], Callable[[socket.socket], object]],
    failure: tuple[str, str],
) -> None:
    with listening(serve(tmp_path)) as port, pytest.raises(NotFetched) as raised:
        fetched(opener_of(), f"https://127.0.0.1:{port}/keys", 10, 1)
    assert (raised.value.certificate_fault, raised.value.error_name) == failure
