"""kafka-python as a driven client."""

from typing import TYPE_CHECKING, Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from apportion.adapters import kafka_python as adapted
from kafka import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from tests.compat.clients.lines import READ_S, Share, play
else:  # a script: its own directory is on the path
    from lines import READ_S, play

JOIN_S = 5
"""How long a poll may last while it joins. What a join brings when its poll has ended, 3.0.12
forgets, and joins again or never.
"""

ASSIGNORS: dict[str, tuple[Any, Any]] = {
    **{
        kind.name: (KafkaConsumer, kind)
        for kind in (
            RangePartitionAssignor,
            RoundRobinPartitionAssignor,
            StickyPartitionAssignor,
            CooperativeStickyAssignor,
        )
    },
    "apportion sticky": (adapted.KafkaConsumer, adapted.KafkaPythonSticky),
    "apportion cooperative-sticky": (adapted.KafkaConsumer, adapted.KafkaPythonCooperativeSticky),
}


class Client(ConsumerRebalanceListener):  # type: ignore[misc]
    """A producer, and a member once it has joined."""

    def __init__(self, options: dict[str, Any], share: "Share") -> None:
        self.options, self.share = options, share
        self.consumer: Any = None

    def produce(self, partitions: list[int]) -> list[tuple[int, int]]:
        producer = KafkaProducer(bootstrap_servers=self.options["bootstrap"])
        waits = [
            producer.send(self.options["topic"], b"x", partition=partition)
            for partition in partitions
        ]
        producer.flush(20)
        sent: list[tuple[int, int]] = [
            (done.partition, done.offset) for done in (each.get(20) for each in waits)
        ]
        producer.close()
        return sent

    def join(self) -> None:
        kind, assignor = ASSIGNORS[self.options["strategy"]]
        self.consumer = kind(
            bootstrap_servers=self.options["bootstrap"],
            group_id=self.options["group"],
            group_instance_id=self.options["instance"],
            client_id=self.options["name"],
            partition_assignment_strategy=[assignor],
            session_timeout_ms=self.options["session_ms"],
            heartbeat_interval_ms=self.options["heartbeat_ms"],
            reconnect_backoff_max_ms=1000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self.consumer.subscribe([self.options["topic"]], listener=self)
        # a leader that does not know it yet would soon join again
        self.consumer.partitions_for_topic(self.options["topic"])

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.share.given(partition.partition for partition in assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.share.taken(partition.partition for partition in revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self.share.taken(partition.partition for partition in lost)

    def read(self) -> list[tuple[int, int]]:
        polled = self.consumer.poll(timeout_ms=1000 * (READ_S if self.share.positions else JOIN_S))
        return [
            (record.partition, record.offset) for records in polled.values() for record in records
        ]

    def commit(self, offsets: dict[int, int]) -> None:
        topic = self.options["topic"]
        self.consumer.commit(
            {
                TopicPartition(topic, each): OffsetAndMetadata(offset, "", -1)
                for each, offset in offsets.items()
            }
        )

    def leave(self) -> None:
        self.consumer.close()


play(Client)
