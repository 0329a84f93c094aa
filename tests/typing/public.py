"""The public face as a type checker sees it: what is right passes, and each line marked `E:` has
that mypy error.
"""

from collections.abc import Generator, Mapping
from typing import Any, assert_type

import apportion
from apportion.assignors import (
    Assignor,
    CooperativeSticky,
    Given,
    ListEndOffsets,
    Subscription,
    TopicShape,
    Unanswerable,
    by_topic,
)
from apportion.broker import EmbeddedBroker
from apportion.errors import Code, Refused
from apportion.streams import TaskId, Topology, topology_of


class First(Assignor):
    """Everything for the first member."""

    name = "first"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        """Give the first member all partitions."""
        first, *rest = sorted(members)
        everything = [
            (topic, number)
            for topic, shape in cluster.items()
            for number in range(shape.partitions)
        ]
        return {first: Given(by_topic(everything)), **{member: Given() for member in rest}}


class Asking(Assignor):
    """Everything for the first member, if the cluster answers a query."""

    name = "asking"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Generator[Any, Any, dict[str, Given]]:
        """Ask for the end of a partition first."""
        try:
            yield ListEndOffsets((apportion.TopicPartition("t", 0),))
        except Unanswerable as error:
            assert_type(error, Unanswerable)
            return {}
        return First().assign(cluster, members)


def consume() -> None:
    """Read, commit and close."""
    with EmbeddedBroker(num_partitions=3, group_consumer_session_timeout_ms=6_000) as broker:
        assert_type(broker.bootstrap, str)
        with apportion.Consumer(
            broker.bootstrap, "g", topics=["t"], auto_offset_reset="earliest"
        ) as consumer:
            for record in consumer:
                assert_type(record.value, bytes | None)
                assert_type(record, apportion.ConsumerRecord)
                print(record.valu)  # E: "ConsumerRecord" has no attribute "valu"
            assert_type(consumer.poll(), list[apportion.ConsumerRecord])
            consumer.commmit()  # E: "Consumer" has no attribute "commmit"
        # E: Unexpected keyword argument "auto_ofset_reset"
        apportion.Consumer(broker.bootstrap, "g", auto_ofset_reset="earliest")
        apportion.Consumer(broker.bootstrap, "g", max_poll_records="ten")  # E: expected "int"
        # E: expected "Literal['consumer', 'classic']"
        apportion.Consumer(broker.bootstrap, "g", group_protocol="classical")
        apportion.Consumer(
            broker.bootstrap,
            "g",
            group_protocol="classic",
            partition_assignment_strategy=[First(), "range"],
        )
        apportion.Consumer(
            broker.bootstrap,
            "g",
            group_protocol="classic",
            partition_assignment_strategy=CooperativeSticky(),
        )
    EmbeddedBroker(num_partions=3)  # E: Unexpected keyword argument "num_partions"
    EmbeddedBroker(num_partitions="three")  # E: expected "int"


def stream(topology: Topology) -> None:
    """Read the records of tasks."""
    assert_type(topology_of([]), Topology)
    with apportion.StreamsConsumer(
        "localhost:9092", "word-count", topology=topology, num_standby_replicas=1
    ) as process:
        for task, record in process.poll_tasks():
            assert_type(task, TaskId)
            assert_type(record, apportion.ConsumerRecord)
    # E: Unexpected keyword
    apportion.StreamsConsumer(
        "localhost:9092", "a", topology=topology, group_remote_assignor="range"
    )
    # E: Unexpected keyword
    apportion.StreamsConsumer("localhost:9092", "a", topology=topology, num_stanby_replicas=1)


def refuse() -> None:
    """Read why a request was refused."""
    try:
        consume()
    except Refused as refusal:
        assert_type(refusal.code, Code)
    print(apportion.Consumr)  # E: Module has no attribute "Consumr"
