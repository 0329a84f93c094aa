"""aiokafka as a driven client; its loop runs while it reads, which is nearly always."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from lines import READ_S, play

from apportion.adapters import aiokafka as adapted

ASSIGNORS = {
    **{
        kind.name: (AIOKafkaConsumer, lambda kind=kind: kind)
        for kind in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
    },
    "apportion sticky": (adapted.AIOKafkaConsumer, adapted.AiokafkaSticky),
    "apportion cooperative-sticky": (adapted.AIOKafkaConsumer, adapted.AiokafkaCooperativeSticky),
}


class Client(ConsumerRebalanceListener):
    """A producer, and a member once it has joined."""

    def __init__(self, wish, share):
        self.wish, self.share = wish, share
        self.consumer = None
        self.run = asyncio.new_event_loop().run_until_complete

    def produce(self, partitions):
        async def send():
            async with AIOKafkaProducer(bootstrap_servers=self.wish["bootstrap"]) as producer:
                waits = [
                    await producer.send(self.wish["topic"], b"x", partition=partition)
                    for partition in partitions
                ]
                return [(done.partition, done.offset) for done in [await each for each in waits]]

        return self.run(send())

    def join(self):
        async def start():
            kind, assignor = ASSIGNORS[self.wish["strategy"]]
            consumer = kind(
                bootstrap_servers=self.wish["bootstrap"],
                group_id=self.wish["group"],
                group_instance_id=self.wish["instance"],
                client_id=self.wish["name"],
                partition_assignment_strategy=(assignor(),),
                session_timeout_ms=self.wish["session_ms"],
                heartbeat_interval_ms=self.wish["heartbeat_ms"],
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            consumer.subscribe([self.wish["topic"]], listener=self)
            await consumer.start()
            return consumer

        self.consumer = self.run(start())

    def on_partitions_assigned(self, assigned):
        self.share.given(place.partition for place in assigned)

    def on_partitions_revoked(self, revoked):
        self.share.taken(place.partition for place in revoked)

    def read(self):
        found = self.run(self.consumer.getmany(timeout_ms=READ_S * 1000))
        return [
            (record.partition, record.offset) for records in found.values() for record in records
        ]

    def commit(self, places):
        self.run(
            self.consumer.commit(
                {
                    TopicPartition(self.wish["topic"], each): offset
                    for each, offset in places.items()
                }
            )
        )

    def leave(self):
        self.run(self.consumer.stop())


play(Client)
