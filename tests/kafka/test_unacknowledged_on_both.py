"""Produce without acknowledgement (acks 0), on a real Kafka and on our broker: who is refused has
no answer, and finds the connection closed.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.testing.kafka import RealKafka
from apportion.topics import Topic, TopicIdPartition, partitions_of
from apportion.wire.fields import replaced
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.list_offsets import LATEST
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from apportion.wire.table import encode_request
from tests.kafka.conftest import until
from tests.kafka.differential.wrong import GOOD, Case, batch, produce
from tests.kafka.differential.wrong_records import RECORD_CASES
from tests.server.peer import Peer

BEFORE, AFTER = 7, 9
ANSWERED_OTHERWISE = (
    "produce null",  # a Kafka never answers
    *("produce a batch and a byte", "idempotent: no epoch"),  # it stores what is refused here
)
"""docs/differences.md names them."""
TOPIC = "unacknowledged"
"""Stands for the topic `good` of the cases, whose offsets another test of this Kafka knows."""
HUNG_UP = TopicProduceData(
    name="hung-up", partition_data=(PartitionProduceData(index=0, records=batch()),)
)
Sides = tuple[tuple[str, bytes], tuple[str, bytes]]
"""The address of our broker, and of a real Kafka, each with the id of TOPIC."""


@pytest.fixture(scope="module")
def sides(kafka: RealKafka) -> Iterator[Sides]:
    with EmbeddedBroker(auto_create_topics_enable=False) as broker:
        ids = []
        for address in (broker.bootstrap, kafka.bootstrap):
            cluster = Cluster(address)
            ids.append(led(cluster, TOPIC, 3).id)
            cluster.close()
        yield (broker.bootstrap, ids[0]), (kafka.bootstrap, ids[1])


def led(cluster: Cluster, name: str, partitions: int) -> Topic:
    """A new topic with a record in each partition: a Kafka leads them a moment after the answer."""
    topic = cluster.create_topic(name, partitions)
    for partition in partitions_of(topic):
        cluster.produce(partition, batch())
    return topic


def outcome(address: str, request: Any, version: int) -> list[Any]:
    """What comes back of requests for the versions, before and behind a Produce, sent at once."""
    seen: list[Any] = []
    with Peer(address) as peer:
        peer.send(
            encode_request(ApiVersionsRequest(), 0, BEFORE, "test")
            + encode_request(request, version, 8, "test")
            + encode_request(ApiVersionsRequest(), 0, AFTER, "test")
        )
        try:
            for _ in range(2):
                seen.append(peer.answer(ApiVersionsRequest, 0)[0])
        except (EOFError, ConnectionError):
            seen.append("closed")
    return seen


def without_acknowledgement(case: Case, topic_id: bytes) -> Any:
    """The request of a case with acks 0, to TOPIC instead of `good`."""
    request = case.request(topic_id)
    topics = tuple(
        replaced(topic, name=TOPIC) if topic.name == GOOD else topic
        for topic in request.topic_data or ()
    )
    return replaced(request, acks=0, topic_data=topics)


def parts(*wanted: tuple[int, bytes]) -> Callable[[bytes], Any]:
    """A batch for each of these partitions."""
    data = TopicProduceData(
        name=GOOD,
        partition_data=tuple(
            PartitionProduceData(index=index, records=records) for index, records in wanted
        ),
    )
    return lambda _id: ProduceRequest(acks=0, timeout_ms=1000, topic_data=(data,))


CASES = [
    Case("produce", 12, produce(batch())),
    Case("produce by id", 13, produce(batch())),
    Case("produce without topics", 12, lambda _id: ProduceRequest(acks=0, timeout_ms=1000)),
    Case("produce without partitions", 12, parts()),
    Case("produce good and bad", 12, parts((0, batch()), (1, batch()[:-1] + b"\xff"))),
    Case("produce good and nowhere", 12, parts((0, batch()), (99, batch()))),
    *(
        case
        for case in RECORD_CASES
        if case.name.startswith(("produce ", "idempotent: "))
        and case.name not in ANSWERED_OTHERWISE
    ),
]


def test_a_producer_that_is_refused_finds_its_connection_closed(sides: Sides) -> None:
    shown: list[dict[str, list[Any]]] = [{}, {}]
    for case in CASES:
        for (address, topic_id), seen in zip(sides, shown, strict=True):
            request = without_acknowledgement(case, topic_id)
            seen[f"{case.name} ({case.version})"] = outcome(address, request, case.version)
    ours, theirs = shown
    assert ours == theirs
    assert {str(seen) for seen in ours.values()} == {"[7, 9]", "[7, 'closed']"}


def test_the_good_partitions_of_a_refused_request_are_stored(sides: Sides) -> None:
    stored = []
    for address, _ in sides:
        cluster = Cluster(address)
        topic = led(cluster, "partly", 2)
        data = TopicProduceData(
            name="partly",
            partition_data=tuple(
                PartitionProduceData(index=index, records=batch()) for index in (0, 99, 1)
            ),
        )
        request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=(data,))
        assert outcome(address, request, 12) == [BEFORE, "closed"]
        stored.append([cluster.produce(each, batch()) for each in partitions_of(topic)])
        cluster.close()
    assert stored == [[2, 2], [2, 2]]


def test_the_records_of_a_producer_that_hangs_up_are_stored_to_the_last(sides: Sides) -> None:
    count, request = 3000, ProduceRequest(acks=0, timeout_ms=1000, topic_data=(HUNG_UP,))
    for address, _ in sides:
        with closing(Cluster(address)) as cluster:
            topic = partitions_of(led(cluster, HUNG_UP.name, 1))
            with Peer(address) as peer:
                peer.send(encode_request(request, 12, 1, "test") * count)
            end = dict.fromkeys(topic, count + 1)
            until(partial(is_at, cluster, end))


def is_at(cluster: Cluster, end: dict[TopicIdPartition, int]) -> bool:
    """Whether the partitions end there."""
    return cluster.list_offsets(tuple(end), LATEST) == end
