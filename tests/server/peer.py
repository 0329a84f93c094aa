"""A client of bare bytes, and one that is as it should be."""

import socket
import struct
import time
from typing import Any, Self

from apportion.client.connection import BrokerConnection
from apportion.client.connection_security import ConnectionSecurity
from apportion.errors import Code
from apportion.security.client_security import ClientSecurity
from apportion.wire.batch import encode_batch
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from apportion.wire.table import decode_response, encode_request


class Peer:
    """A client of bare bytes."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, request: Any, version: int, correlation_id: int = 1) -> None:
        self.send(encode_request(request, version, correlation_id, "test"))

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def frame(self) -> bytes:
        return self.receive(int.from_bytes(self.receive(4), "big"))

    def answer(self, request_class: type[Any], version: int) -> tuple[int, Any]:
        return decode_response(request_class, version, self.frame())

    def ends(self) -> bool:
        """The broker closes the connection, whatever it says before."""
        try:
            while self.socket.recv(4096):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def is_closed_amid(self, data: bytes, pause_s: float) -> bool:
        """The broker closes the connection while the bytes are sent one by one."""
        self.socket.settimeout(pause_s)
        for byte in data:
            try:
                self.send(bytes([byte]))
                if self.is_closed():
                    return True
            except TimeoutError:
                continue
            except OSError:
                return True
        return False

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def addresses_of(line: str) -> dict[str, str]:
    """The addresses that `apportion serve` prints, by the name of the listener."""
    assert line.startswith("listening on "), line
    return dict(
        each.split("://") for each in line.removeprefix("listening on ").strip().split(", ")
    )


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def header(key: int, version: int, correlation_id: int = 1, client_id: bytes = b"test") -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id


def batch(size: int) -> bytes:
    return encode_batch([(None, b"x" * size, ())], timestamp_ms=int(time.time() * 1000))


def produce(topic: str, records: bytes, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )


def serves(bootstrap: str, security: ClientSecurity) -> None:
    """A client that sends nothing wrong gets an answer."""
    host, _, port = bootstrap.rpartition(":")
    connection = BrokerConnection(
        host, int(port), "other", 10_000, security=ConnectionSecurity(security)
    )
    try:
        answer = connection.call(DescribeClusterRequest(), timeout_ms=10_000)
        assert answer.error_code == Code.NONE
    finally:
        connection.close()
