"""One blocking connection to one broker: one request and its response at a time.

The connection knows frames, correlation ids and timeouts, but no topics, groups or retries. What is
sent before the first request, `member/fresh_connection.py` decides. Every failure on the way closes
the connection: a half-read response cannot be skipped. It is `Disconnected`, or `Refused` where the
same client will fail again: a wrong certificate, a wrong password. A fault of TLS after the first
response is an outage, too.
"""

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, TypeVar

from apportion import __version__
from apportion.client import plain_probe, presented_certificate
from apportion.client.connection_security import ConnectionSecurity, reauthentication_at_s
from apportion.client.tls import handshake_failure_or_none, no_tls, speaks_tls
from apportion.drive.connection_errors import closed_by, connection_fault
from apportion.errors import (
    Code,
    DecodeError,
    EncodeError,
    Refused,
    Unanswerable,
    UnencodableText,
    UnfittingValue,
)
from apportion.member.fresh_connection import (
    SendOnConnection,
    WantedBroker,
    authenticate,
    open_connection,
)
from apportion.readable import MAX_QUOTED, shortened
from apportion.rules import Rule, run_rule
from apportion.security.client_security import OptionNames
from apportion.wire.table import APIS, decode_response, encode_request

FRAME_LIMIT_BYTES = 1 << 30
LONGEST_PROBE_S = 2.0
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""How an alert of TLS and a message of its handshake begin."""
# Why a listener may have closed a connection that it has hardly begun to use.
NO_PLAIN_LISTENER = "; this listener may want TLS: see that {} is that of the listener"
NO_TLS_LISTENER = "; this listener may have no TLS: see that {} is that of the listener"
NO_CERTIFICATE = "; this listener may want a client certificate, or another one"
NO_LOGIN = (
    "; this listener may want SASL, or a client certificate: see that {} is that of the listener"
)
CLOSED_BY_BROKER = closed_by("broker")
V = TypeVar("V")


class Disconnected(ConnectionError, Unanswerable):
    """The broker cannot be reached, closed the connection, or did not answer in time.

    The text names the broker.
    """


class Misdirected(Disconnected):
    """The broker closed the connection, as one of another `security.protocol` does.

    The text says what to see to.
    """

    has_remedy = True


class Misrouted(Disconnected):
    """The address leads to another broker than metadata say (KIP-1242): metadata are outdated."""


class BrokerConnection:
    """A connection with negotiated API versions. Not thread-safe."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_ms: int,
        *,
        security: ConnectionSecurity | None = None,
        wanted: WantedBroker | None = None,
    ) -> None:
        """Connect, negotiate versions and log in.

        wanted: the broker that must be there; None for any.
        Raises Disconnected after `timeout_ms`; Refused if the broker does not let this client in;
        Misrouted if it is another one.
        """
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._security = security or ConnectionSecurity()
        self._hint = NO_CERTIFICATE if self._security.is_encrypted else NO_PLAIN_LISTENER
        self._has_read = False
        self._socket = self._connected(host, port, timeout_ms)
        settings = self._security.settings
        rule = open_connection(self.address, settings, __version__, wanted)
        opened = self._run(rule, timeout_ms)
        self._versions = opened.versions
        self._hint = NO_LOGIN if settings.login is None else ""
        self._renewal_at_s = reauthentication_at_s(opened.lifetime_ms)

    def _connected(self, host: str, port: int, timeout_ms: int) -> socket.socket:
        """Return a socket that is connected to the broker, by TLS if the client has that."""
        try:
            plain = socket.create_connection((host, port), timeout_ms / 1000)
            # Without it Nagle's algorithm holds small requests back until the last one is
            # acknowledged.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            if not is_of_socket(error):
                raise
            raise Disconnected(
                f"no connection to the broker at {self.address}: {_unconnected(error, timeout_ms)}"
            ) from error
        try:
            return self._security.encrypted(plain, host)
        except OSError as error:
            probe_s = min(timeout_ms / 1000, LONGEST_PROBE_S)
            presented = b""
            if isinstance(error, ssl.SSLCertVerificationError):
                presented = self._presented(host, port, probe_s)
            failure = handshake_failure_or_none(error, self.address, presented, self._names)
            if failure is not None:
                raise failure from None
            if not is_of_socket(error):
                raise
            # Not certain of a listener that closes this connection, too.
            if not isinstance(error, TimeoutError) and _probed(
                lambda: plain_probe.answers_without_tls(host, port, probe_s), False
            ):
                raise no_tls(self.address, self._names) from None
            why = _unconnected(error, timeout_ms)
            hint = NO_TLS_LISTENER.format(self._names.protocol)
            raise Misdirected(
                f"no TLS handshake with the broker at {self.address}: {why}{hint}"
            ) from error

    @property
    def _names(self) -> OptionNames:
        return self._security.settings.names

    def _presented(self, host: str, port: int, timeout_s: float) -> bytes:
        """Return the certificate of the listener, which was not accepted; nothing if none came."""
        try:
            context = self._security.trusting_context()
        except ValueError:
            return b""
        return _probed(
            lambda: presented_certificate.presented_certificate(host, port, timeout_s, context), b""
        )

    def _run(self, rule: Rule[V], timeout_ms: int) -> V:
        """Run a rule that opens or renews the session; close the connection if it fails."""

        def answer(query: Any) -> Any:
            if isinstance(query, SendOnConnection):
                return self._exchange(query.request, query.version, timeout_ms)
            return self._security.answer(query)

        try:
            return run_rule(rule, answer)
        except Disconnected:
            raise
        except Unanswerable as error:  # of a server of tokens
            self.close()
            raise Disconnected(str(error)) from error
        except BaseException as error:
            self.close()
            if isinstance(error, Refused) and error.code is Code.REBOOTSTRAP_REQUIRED:
                raise Misrouted(error.why) from None
            raise

    def version_of(self, key: int) -> int:
        """Return the newest version of the API that both sides support.

        Raises Refused(UNSUPPORTED_VERSION).
        """
        version = self._versions.get(key)
        if version is None:
            raise Refused(
                Code.UNSUPPORTED_VERSION,
                f"the broker at {self.address} has no version of {APIS[key].name} that we know",
            )
        return version

    def call(self, request: Any, *, timeout_ms: int, version: int | None = None) -> Any:
        """Send one request to the broker and return its response.

        Raises Disconnected, and closes the connection, after `timeout_ms`; Refused
        (UNSUPPORTED_VERSION) for a request with a field that the broker's version does not have,
        and (INVALID_REQUEST) for a number that does not fit its field, or a text that UTF-8 cannot
        encode.
        """
        if time.monotonic() >= self._renewal_at_s:
            self._renew_session(timeout_ms)
        key = type(request).__key__
        response = self._exchange(
            request, self.version_of(key) if version is None else version, timeout_ms
        )
        self._hint = ""
        return response

    def _renew_session(self, timeout_ms: int) -> None:
        """Log in again, before the broker ends the session (KIP-368)."""
        rule = authenticate(self.address, self._security.settings, self._versions)
        self._renewal_at_s = reauthentication_at_s(self._run(rule, timeout_ms))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exchange(self, request: Any, version: int, timeout_ms: int) -> Any:
        """Send one request and return its response; close the connection on an error.

        Raises Disconnected.
        """
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF  # an int32
        try:
            encoded = encode_request(request, version, self._correlation_id, self._client_id)
        except UnencodableText as error:
            raise Refused(
                Code.INVALID_REQUEST,
                f"'{shortened(error.text, MAX_QUOTED)}' cannot be sent to a broker: "
                "it is not UTF-8",
            ) from None
        except UnfittingValue as error:
            raise Refused(
                Code.INVALID_REQUEST, f"a request cannot be sent to a broker: {error}"
            ) from error
        except EncodeError as error:
            raise Refused(
                Code.UNSUPPORTED_VERSION,
                f"the broker at {self.address} is too old for this request: {error}",
            ) from error
        # Each failure closes the connection: the rest of a late or half-read response would be
        # taken for the next one.
        try:
            self._socket.settimeout(timeout_ms / 1000)
            self._socket.sendall(encoded)
            frame = self._read_frame()
            answered, body = decode_response(type(request), version, frame)
            # A broker answers in order, so another id means that the stream is out of step.
            if answered != self._correlation_id:
                raise DecodeError(
                    f"an answer to request {answered} instead of {self._correlation_id}"
                )
        except BaseException as error:
            self.close()
            # With TLS 1.3 a broker refuses a certificate after the handshake, in place of the first
            # response. A later fault of TLS is one of the way between: an outage.
            if not self._has_read:
                failure = handshake_failure_or_none(error, self.address, names=self._names)
                if failure is not None:
                    raise failure from None
            explained = self._explained_or_none(error, request, timeout_ms)
            if explained is None:
                raise
            raise explained from error
        return body

    def _explained_or_none(
        self, error: BaseException, request: Any, timeout_ms: int
    ) -> Disconnected | None:
        """Return the error that says why the broker has not answered; None for other causes."""
        if isinstance(error, DecodeError):
            return Disconnected(
                f"the broker at {self.address} sent what is no answer to {_name(request)}: {error}"
            )
        if not isinstance(error, OSError) or not is_of_socket(error):
            return None
        if isinstance(error, TimeoutError):
            return Disconnected(
                f"the broker at {self.address} did not answer {_name(request)} within "
                f"{timeout_ms} ms"
            )
        why = connection_fault(error)
        text = f"the connection to the broker at {self.address} broke: {why}"
        if self._hint and (why == CLOSED_BY_BROKER or not isinstance(error, ssl.SSLError)):
            return Misdirected(text + self._hint.format(self._names.protocol))
        return Disconnected(text)

    def _read_frame(self) -> memoryview:
        """Read one response: four bytes of size, then as many bytes."""
        first = self._read(4)
        if not self._has_read and bytes(first[:2]) in TLS_RECORDS:
            raise speaks_tls(self.address, self._names)
        self._has_read = True
        size = int.from_bytes(first, "big", signed=True)
        if not 0 <= size <= FRAME_LIMIT_BYTES:
            raise DecodeError(f"a frame of {size} bytes")
        return self._read(size)

    def _read(self, size: int) -> memoryview:
        """Read exactly `size` bytes from the socket."""
        buffer = bytearray(size)
        view, filled = memoryview(buffer), 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            # recv returns nothing only at the end of the stream.
            if count == 0:
                raise ConnectionResetError(CLOSED_BY_BROKER)
            filled += count
        return view


def _probed(probe: Callable[[], V], otherwise: V) -> V:
    """Return what another connection finds out, or `otherwise` if the system does not allow it."""
    try:
        return probe()
    except OSError as error:
        if not is_of_socket(error):
            raise
        return otherwise


def _unconnected(error: OSError, timeout_ms: int) -> str:
    """Return why there is no connection yet."""
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_ms} ms"
    return connection_fault(error)


def _name(request: Any) -> str:
    return type(request).__name__.removesuffix("Request")


def is_of_socket(error: OSError) -> bool:
    """Return whether a socket of this connection raised the error.

    Otherwise a signal handler of the application has, such as one that raises TimeoutError to set
    a time limit: it runs, and raises, within whatever call the main thread waits in.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    own = (__name__, plain_probe.__name__, presented_certificate.__name__, "socket", "ssl")
    return trace is None or trace.tb_frame.f_globals.get("__name__") in own
