"""Requests that repeat the last one of their connection: as if each was decoded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import DecodeError
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.fetch import FetchRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.repeated_requests import LONGEST_BYTES, RequestDecoder
from apportion.wire.table import decode_request, encode_request


def frame_of(
    request: Any, correlation_id: int, client_id: str | None = "client", version: int = 1
) -> bytes:
    return encode_request(request, version, correlation_id, client_id)[4:]


HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="group", member_id="member", member_epoch=7)
FRAMES = st.sampled_from(
    [
        frame_of(request, correlation_id, client_id, version)
        for request in (
            HEARTBEAT,
            ConsumerGroupHeartbeatRequest(group_id="group", member_id="member", member_epoch=8),
            HeartbeatRequest(group_id="group", generation_id=7, member_id="member"),
        )
        for correlation_id in (0, 1, -1)
        for client_id in ("client", "other")
        for version in (0, 1)
    ]
    + [
        frame_of(
            FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=()), correlation_id, version=12
        )
        for wait_ms in (0, 500)
        for correlation_id in (1, 2)
    ]
)


@given(st.lists(FRAMES, max_size=12))
def test_a_repeated_request_is_what_its_bytes_say(frames: list[bytes]) -> None:
    decoder = RequestDecoder()
    for frame in frames:
        assert decoder.decode(frame) == decode_request(frame)


def test_a_request_that_differs_in_its_correlation_id_alone_is_not_decoded_again() -> None:
    decoder = RequestDecoder()
    first = decoder.decode(frame_of(HEARTBEAT, 1))
    second = decoder.decode(frame_of(HEARTBEAT, 2))
    assert second.correlation_id == 2
    assert second.body is first.body


def test_a_long_request_and_a_login_are_not_kept() -> None:
    decoder = RequestDecoder()
    member = "m" * LONGEST_BYTES
    long = HeartbeatRequest(group_id="group", generation_id=7, member_id=member)
    for frame in (
        frame_of(long, 1),
        frame_of(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 1),
    ):
        assert decoder.decode(frame).body is not decoder.decode(frame).body


def test_a_wrong_request_is_no_repetition_of_the_last() -> None:
    decoder = RequestDecoder()
    decoder.decode(frame_of(HEARTBEAT, 1))
    cut = frame_of(HEARTBEAT, 1)[:-3]
    for _ in range(2):
        with pytest.raises(DecodeError):
            decoder.decode(cut)
    assert decoder.decode(frame_of(HEARTBEAT, 3)).body == HEARTBEAT
