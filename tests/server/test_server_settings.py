"""Settings that sockets obey: where clients are sent, and how much may be under way on one
connection.
"""

import socket
from contextlib import ExitStack
from typing import Any

import pytest

from apportion.node.listeners import Address
from apportion.node.settings import BrokerSettings
from apportion.server.embedded import EmbeddedBroker
from apportion.server.sockets import bind_listeners
from apportion.wire.batch import encode_batch
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from apportion.wire.table import decode_response, encode_request

WAIT_MS = 300


def test_clients_are_told_the_address_that_is_advertised() -> None:
    with ExitStack() as undo:
        for advertised, told in (("elsewhere:1234", "elsewhere"), ("", "127.0.0.1")):
            settings = BrokerSettings.of(
                {"listeners": "127.0.0.1:0", "advertised.listeners": advertised}
            )
            [bound] = bind_listeners(settings.listening(), undo)
            port = 1234 if advertised else bound.socket.getsockname()[1]
            assert bound.advertised == Address(told, port)


def exchanged(
    broker: EmbeddedBroker, *requests: CreateTopicsRequest | FetchRequest | ProduceRequest
) -> list[Any]:
    """Send all requests of version 7, one right after the other on one connection; return the
    answers.
    """
    host, _, port = broker.bootstrap.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(b"".join(encode_request(request, 7, 1, "test") for request in requests))
        frames = [answers.read(int.from_bytes(answers.read(4), "big")) for _ in requests]
        return [
            decode_response(type(request), 7, frame)[1]
            for request, frame in zip(requests, frames, strict=True)
        ]


@pytest.mark.parametrize(
    ("settings", "is_read"),
    [
        ({}, True),
        ({"apportion.connection.max.inflight.requests": 1}, False),
        ({"apportion.connection.max.inflight.bytes": 100}, False),
    ],
)
def test_a_connection_with_enough_under_way_is_not_read_for_300_ms(
    settings: dict[str, Any], is_read: bool
) -> None:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    waits = FetchRequest(
        max_wait_ms=WAIT_MS, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(partition,)),)
    )
    data = PartitionProduceData(index=0, records=encode_batch([(b"k", b"v", ())], timestamp_ms=1))
    ends_the_wait = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(name="t", partition_data=(data,)),)
    )
    with EmbeddedBroker(**settings) as broker:
        exchanged(
            broker,
            CreateTopicsRequest(
                topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),)
            ),
        )
        fetched, _ = exchanged(broker, waits, ends_the_wait)
        assert (len(fetched.responses[0].partitions[0].records or b"") > 0) is is_read
