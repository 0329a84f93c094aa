"""One blocking connection to one broker: ApiVersions, then one request and its response at a time.

The connection knows frames, correlation ids and timeouts, but no topics, groups or retries. Every
failure on the way is `Disconnected` and closes the connection: a half-read response cannot be
skipped.
"""

import socket
from typing import Any

from apportion import __version__
from apportion.errors import Code, DecodeError, EncodeError, Refused, Unanswerable
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.table import APIS, decode_response, encode_request

FRAME_LIMIT_BYTES = 1 << 30


class Disconnected(ConnectionError, Unanswerable):
    """The broker cannot be reached, closed the connection, or did not answer in time.

    The text names the broker.
    """


class BrokerConnection:
    """A connection with negotiated API versions. Not thread-safe."""

    def __init__(self, host: str, port: int, client_id: str, timeout_ms: int) -> None:
        """Connect and negotiate versions. Raises Disconnected after `timeout_ms`."""
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_ms / 1000)
            # Without it Nagle's algorithm holds small requests back until the last one is
            # acknowledged.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            if not is_of_socket(error):
                raise
            raise Disconnected(
                f"no connection to the broker at {self.address}: {os_error_text(error)}"
            ) from error
        self._versions = self._negotiate_versions(timeout_ms)

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
        (UNSUPPORTED_VERSION) for a request with a field that the broker's version does not have.
        """
        key = type(request).__key__
        return self._exchange(
            request, self.version_of(key) if version is None else version, timeout_ms
        )

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _negotiate_versions(self, timeout_ms: int) -> dict[int, int]:
        """Return the newest version of each API that both sides support, by API key (KIP-35)."""
        request = ApiVersionsRequest(
            client_software_name="apportion", client_software_version=__version__
        )
        # Version 3 carries the client's name and version (KIP-511); a broker without it answers
        # UNSUPPORTED_VERSION and is refused.
        response = self._exchange(request, 3, timeout_ms)
        if response.error_code != Code.NONE:
            self.close()
            raise Refused(
                Code.of(response.error_code),
                f"the broker at {self.address} does not say which API versions it supports",
            )
        agreed = {}
        for theirs in response.api_keys:
            ours = APIS.get(theirs.api_key)
            if ours is not None and max(theirs.min_version, ours.versions[0]) <= min(
                theirs.max_version, ours.versions[-1]
            ):
                # The newest common version (KIP-35).
                agreed[theirs.api_key] = min(theirs.max_version, ours.versions[-1])
        return agreed

    def _exchange(self, request: Any, version: int, timeout_ms: int) -> Any:
        """Send one request and return its response; close the connection on an error.

        Raises Disconnected.
        """
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF  # an int32
        try:
            encoded = encode_request(request, version, self._correlation_id, self._client_id)
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
            why = self._explain_or_none(error, request, timeout_ms)
            if why is None:
                raise
            raise Disconnected(why) from error
        return body

    def _explain_or_none(self, error: BaseException, request: Any, timeout_ms: int) -> str | None:
        """Return why the broker has not answered; None for an error of other causes."""
        if isinstance(error, DecodeError):
            return (
                f"the broker at {self.address} sent what is no answer to {_name(request)}: {error}"
            )
        if not isinstance(error, OSError) or not is_of_socket(error):
            return None
        if isinstance(error, TimeoutError):
            return (
                f"the broker at {self.address} did not answer {_name(request)} within "
                f"{timeout_ms} ms"
            )
        return f"the connection to the broker at {self.address} broke: {os_error_text(error)}"

    def _read_frame(self) -> memoryview:
        """Read one response: four bytes of size, then as many bytes."""
        size = int.from_bytes(self._read(4), "big", signed=True)
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
                raise ConnectionResetError("closed by the broker")
            filled += count
        return view


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
    return trace is None or trace.tb_frame.f_globals.get("__name__") in (__name__, "socket")


def os_error_text(error: OSError) -> str:
    """Return the operating system's words for the error."""
    return error.strerror or str(error) or type(error).__name__
