"""A request whose parts would take many times its size in memory is refused before it is read."""

import logging
import socket

import pytest

from apportion.server.connection import MAX_BYTES_WITHOUT_RECORDS
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.table import encode_request


def test_a_swollen_request_without_records_closes_its_connection_unread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="apportion.server")
    topic = MetadataRequestTopic(name="")
    frame = encode_request(
        MetadataRequest(topics=(topic,) * (MAX_BYTES_WITHOUT_RECORDS // 2 + 1)), 4, 1, "test"
    )
    with EmbeddedBroker() as broker:
        host, port = broker.bootstrap.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as peer:
            peer.sendall(frame)
            assert peer.recv(1) == b""
        with socket.create_connection((host, int(port)), timeout=30) as other:
            other.sendall(encode_request(ApiVersionsRequest(), 0, 1, "test"))
            assert other.recv(1) != b""
    (line,) = caplog.messages
    assert (
        f"a request of API 3 has {len(frame) - 4} bytes; {MAX_BYTES_WITHOUT_RECORDS} are "
        "allowed without records" in line
    )
