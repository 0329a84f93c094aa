"""The requests of one connection, of which one that repeats the last is not decoded again.

A member at rest sends the same heartbeat again and again, and an idle consumer the same Fetch: the
bytes differ in the correlation id alone. What a request says follows from its bytes, so the request
that was decoded last stands for the next one with equal bytes; nothing else can make it wrong.
"""

from apportion.wire.frames import CORRELATION_END, CORRELATION_START, request_header
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.fetch import FetchRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.table import DecodedRequest, api_of, decode_request

REPEATED_KEYS = frozenset(
    api_of(request).key.to_bytes(2, "big")
    for request in (ConsumerGroupHeartbeatRequest, FetchRequest, HeartbeatRequest)
)
"""The keys of APIs whose requests are repeated, as a frame begins with them."""
LONGEST_BYTES = 1024
"""A longer request is not kept: one may be for each connection."""


class RequestDecoder:
    """Decodes the requests of one connection, in their order."""

    __slots__ = ("_before", "_behind", "_last")

    def __init__(self) -> None:
        # The last request of these APIs, and its bytes before and behind its correlation id.
        self._last: DecodedRequest | None = None
        self._before = self._behind = b""

    def decode(self, frame: bytes) -> DecodedRequest:
        """Decode a client's request frame, as `decode_request` does.

        Errors: DecodeError.
        """
        if frame[:2] not in REPEATED_KEYS or len(frame) > LONGEST_BYTES:
            return decode_request(frame)
        before, behind = frame[:CORRELATION_START], frame[CORRELATION_END:]
        last = self._last
        if last is not None and behind == self._behind and before == self._before:
            api, version, _, client_id, body = last
            return DecodedRequest(api, version, request_header(frame)[2], client_id, body)
        self._last = last = decode_request(frame)
        self._before, self._behind = before, behind
        return last
