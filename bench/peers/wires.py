"""One blocking connection that sends requests of our own encoder to any broker."""

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from bench.peers.rows import PeerMissing

from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from apportion.wire.table import decode_response, encode_request

LIMIT_S = 60
CLIENT_ID = "peers"
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
TOPIC_EXISTS = 36
RETRIABLE = (14, 15, 16)  # the coordinator is loading, not available, or has just moved here


class Wire:
    """A connection to a broker; a context manager."""

    def __init__(self, bootstrap: str) -> None:
        """Connect."""
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), LIMIT_S)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def call(self, request: Any, version: int) -> Any:
        """Return the response to one request."""
        self.send(request, version)
        return self.receive(type(request), version)

    def call_until(self, request: Any, version: int, is_done: Callable[[Any], bool]) -> Any:
        """Repeat a request until its response is as wanted; return that, or the last in LIMIT_S."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            body = self.call(request, version)
            if is_done(body) or time.monotonic() > deadline:
                return body
            time.sleep(0.1)

    def send(self, request: Any, version: int) -> None:
        """Send one request."""
        self._socket.sendall(frame(request, version))

    def receive(self, request_type: type, version: int) -> Any:
        """Return the response to the oldest request that has none yet, which is of this type."""
        (length,) = struct.unpack(">i", self._receive(4))
        return decode_response(request_type, version, self._receive(length))[1]

    def alter(self, resource_type: int, resource: str, name: str, value: str) -> None:
        """Set one setting of a topic or a group. Raises PeerMissing."""
        setting = IncrementalAlterableConfig(name=name, config_operation=SET, value=value)
        altered = IncrementalAlterConfigsResource(
            resource_type=resource_type, resource_name=resource, configs=(setting,)
        )
        (done,) = self.call(IncrementalAlterConfigsRequest(resources=(altered,)), 1).responses
        if done.error_code:
            raise PeerMissing(f"{name} of {resource} could not be set: {done.error_message}")

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, unless there is one of this name. Raises PeerMissing."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        (created,) = self.call(CreateTopicsRequest(topics=(topic,)), 7).topics
        if created.error_code not in (0, TOPIC_EXISTS):
            raise PeerMissing(f"the topic {name} could not be created: error {created.error_code}")

    def wait_for_coordinator(self, group: str) -> None:
        """Wait until the group has a coordinator. Raises PeerMissing."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
        found = self.call_until(
            request, 4, lambda body: body.coordinators[0].error_code not in RETRIABLE
        )
        if code := found.coordinators[0].error_code:
            raise PeerMissing(f"the group {group} has no coordinator: error {code}")

    def _receive(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._socket.recv(size)
            if not part:
                raise PeerMissing("the broker has closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def frame(request: Any, version: int) -> bytes:
    """Return the bytes of a request, with its length and a correlation id of 1."""
    encoded: bytes = encode_request(request, version, 1, CLIENT_ID)
    return encoded
