"""Frames of a connection: a length of four bytes, a request or response header, and the body.

Before a flexible message the header has tagged fields: request header version 2 instead of 1,
response header version 1 instead of 0.
"""

from struct import Struct, error

from apportion.errors import DecodeError, UnencodableText
from apportion.wire.codec import JOIN_BELOW_BYTES, Buffer, FramePart, join_short_parts
from apportion.wire.codec_builder import Malformed
from apportion.wire.reading import skip_tags

_SIZE = Struct(">i")
_REQUEST = Struct(">hhih")  # API key, version, correlation id, length of the client id
CORRELATION_START, CORRELATION_END = 4, 8
"""Where the correlation id is in a request frame."""
_CORRELATION = Struct(">i")
_RESPONSE = Struct(">ii")  # size, correlation id


class FrameSplitter:
    """Splits the bytes received on a connection into frames of at most `limit` bytes."""

    __slots__ = ("_rest", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the request frames that a client's `data` completes; keep the rest.

        The frames come without their lengths. Errors: DecodeError for a negative length or one
        above the limit, before any of that frame is kept.
        """
        rest = self._rest
        if rest:
            rest += data
            # A slice of the bytearray would be a copy more of each frame, and large ones come so.
            with memoryview(rest) as view:
                frames, end = self._split(view)
            del rest[:end]
            return frames
        # As it is with most clients: one request, and all of it.
        if len(data) >= 4 and len(data) - 4 == _SIZE.unpack_from(data)[0] <= self.limit:
            return [data[4:]]
        frames, end = self._split(data)
        rest += data[end:]
        return frames

    def _split(self, received: bytes | memoryview) -> tuple[list[bytes], int]:
        """Return the whole frames of a client's bytes, and where the last of them ends.

        Errors: DecodeError.
        """
        frames = []
        position, end = 0, len(received)
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(received, position)
            # At once: whoever sends it must not make the broker keep up to 2 GiB (Kafka:
            # `socket.request.max.bytes`).
            if not 0 <= size <= self.limit:
                raise DecodeError(
                    f"a frame says that it has {size} bytes, and {self.limit} are allowed"
                )
            if end - position - 4 < size:
                break
            frames.append(bytes(received[position + 4 : position + 4 + size]))
            position += 4 + size
        return frames, position


def request_header(frame: Buffer) -> tuple[int, int, int, int]:
    """Return API key, version, correlation id and client id length of a request frame."""
    try:
        return _REQUEST.unpack_from(frame)
    except error:
        raise DecodeError(f"a request of {len(frame)} bytes is shorter than its header") from None


def request_caller(frame: Buffer, size: int, flexible: bool) -> tuple[str, int]:
    """Return the client id of a request frame ("" for null), and where its body begins.

    size: that of the client id, by the header.
    """
    end = _REQUEST.size + size if size > 0 else _REQUEST.size
    if size < -1 or end > len(frame):
        raise DecodeError(f"a request's header says that its client id has {size} bytes")
    try:
        # In flexible headers, too, its length is an int16: older brokers must be able to read the
        # header of an ApiVersions request of any version.
        client_id = str(frame[_REQUEST.size : end], "utf-8")
    except UnicodeDecodeError:
        raise DecodeError("a request's client id is not UTF-8") from None
    return client_id, skip_header_tags(frame, end) if flexible else end


def skip_header_tags(frame: Buffer, position: int) -> int:
    """Return where a request's or response's body begins, behind the header's tagged fields.

    Kafka defines no such fields.
    """
    try:
        count = frame[position]
        return skip_tags(frame, position + 1, len(frame), count) if count else position + 1
    except IndexError:
        raise DecodeError("a header's tagged fields end too soon") from None
    except Malformed as fault:
        raise DecodeError(f"a header's tagged fields are wrong: {fault}") from None


def frame_request(
    key: int,
    version: int,
    correlation_id: int,
    client_id: str | None,
    *,
    flexible: bool,
    body: bytes,
) -> bytes:
    """Return a client's request frame: length, header and encoded body.

    Errors: UnencodableText for the client id.
    """
    try:
        client_bytes = b"" if client_id is None else client_id.encode()
    except UnicodeEncodeError as fault:
        raise UnencodableText(fault.object) from None
    client_size = -1 if client_id is None else len(client_bytes)
    header = _REQUEST.pack(key, version, correlation_id, client_size)
    # No tagged fields; Kafka defines none for a request header.
    tags = b"\0" if flexible else b""
    size = len(header) + len(client_bytes) + len(tags) + len(body)
    return b"".join((_SIZE.pack(size), header, client_bytes, tags, body))


def frame_response(correlation_id: int, flexible: bool, parts: list[FramePart]) -> list[FramePart]:
    """Return a broker's response frame in parts: length, header and the encoded body.

    The first of `parts` must be empty, and becomes length and header.
    """
    size = sum(map(len, parts)) + 4 + flexible
    header = _RESPONSE.pack(size, correlation_id)
    parts[0] = header + b"\0" if flexible else header
    return [b"".join(parts)] if size < JOIN_BELOW_BYTES else join_short_parts(parts)


def response_body(frame: Buffer, flexible: bool) -> tuple[int, int]:
    """Return the correlation id of a response and where its body begins."""
    if len(frame) < _CORRELATION.size:
        raise DecodeError(f"a response of {len(frame)} bytes is shorter than its header")
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    return correlation_id, skip_header_tags(frame, 4) if flexible else 4
