"""aiokafka as a driven client; its loop runs while it reads, which is nearly always."""

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from apportion.adapters import aiokafka as adapted

if TYPE_CHECKING:
    from tests.compat.clients.lines import READ_S, Share, play
else:  # a script: its own directory is on the path
    from lines import READ_S, play

ASSIGNORS: dict[str, tuple[Any, Any]] = {
    **{
        kind.name: (AIOKafkaConsumer, lambda kind=kind: kind)
        for kind in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
    },
    "apportion sticky": (adapted.AIOKafkaConsumer, adapted.AiokafkaSticky),
    "apportion cooperative-sticky": (adapted.AIOKafkaConsumer, adapted.AiokafkaCooperativeSticky),
}


class Client(ConsumerRebalanceListener):  # type: ignore[misc]
    """A producer, and a member once it has joined."""

    def __init__(self, options: dict[str, Any], share: "Share") -> None:
        self.options, self.share = options, share
        self.consumer: Any = None
        self.run: Any = asyncio.new_event_loop().run_until_complete

    def produce(self, partitions: list[int]) -> Any:
        async def send() -> list[tuple[int, int]]:
            async with AIOKafkaProducer(bootstrap_servers=self.options["bootstrap"]) as producer:
                waits = [
                    await producer.send(self.options["topic"], b"x", partition=partition)
                    for partition in partitions
                ]
                return [(done.partition, done.offset) for done in [await each for each in waits]]

        return self.run(send())

    def join(self) -> None:
        async def start() -> Any:
            kind, assignor = ASSIGNORS[self.options["strategy"]]
            consumer = kind(
                bootstrap_servers=self.options["bootstrap"],
                group_id=self.options["group"],
                group_instance_id=self.options["instance"],
                client_id=self.options["name"],
                partition_assignment_strategy=(assignor(),),
                session_timeout_ms=self.options["session_ms"],
                heartbeat_interval_ms=self.options["heartbeat_ms"],
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            consumer.subscribe([self.options["topic"]], listener=self)
            await consumer.start()
            return consumer

        self.consumer = self.run(start())

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.share.given(partition.partition for partition in assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.share.taken(partition.partition for partition in revoked)

    def read(self) -> list[tuple[int, int]]:
        polled = self.run(self.consumer.getmany(timeout_ms=READ_S * 1000))
        return [
            (record.partition, record.offset) for records in polled.values() for record in records
        ]

    def commit(self, offsets: dict[int, int]) -> None:
        self.run(
            self.consumer.commit(
                {
                    TopicPartition(self.options["topic"], each): offset
                    for each, offset in offsets.items()
                }
            )
        )

    def leave(self) -> None:
        self.run(self.consumer.stop())


play(Client)
