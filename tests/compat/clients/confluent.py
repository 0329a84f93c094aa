"""confluent-kafka as a driven client."""

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from tests.compat.clients.lines import READ_S, Share, play
else:  # a script: its own directory is on the path
    from lines import READ_S, play

INCREMENTAL = ("cooperative-sticky", "consumer")


class Client:
    """A producer, and a member once it has joined."""

    def __init__(self, options: dict[str, Any], share: "Share") -> None:
        self.options, self.share = options, share
        self.consumer: Any = None

    def produce(self, partitions: list[int]) -> list[tuple[int, int]]:
        sent: list[Any] = []
        producer = Producer({"bootstrap.servers": self.options["bootstrap"]})
        for partition in partitions:
            producer.produce(
                self.options["topic"],
                b"x",
                partition=partition,
                on_delivery=lambda error, message: sent.append(
                    (message.partition(), message.offset())
                ),
            )
        assert producer.flush(20) == 0
        return sent

    def join(self) -> None:
        config = {
            "bootstrap.servers": self.options["bootstrap"],
            "group.id": self.options["group"],
            "client.id": self.options["name"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if self.options["instance"]:
            config["group.instance.id"] = self.options["instance"]
        if self.options["strategy"] == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config["partition.assignment.strategy"] = self.options["strategy"]
            config["session.timeout.ms"] = self.options["session_ms"]
            config["heartbeat.interval.ms"] = self.options["heartbeat_ms"]
        self.consumer = Consumer(config)
        self.consumer.subscribe(
            [self.options["topic"]], on_assign=self.assigned, on_revoke=self.revoked
        )

    def assigned(self, consumer: Any, partitions: Any) -> None:
        (
            consumer.incremental_assign
            if self.options["strategy"] in INCREMENTAL
            else consumer.assign
        )(partitions)
        self.share.given(partition.partition for partition in partitions)

    def revoked(self, consumer: Any, partitions: Any) -> None:
        if self.options["strategy"] in INCREMENTAL:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        self.share.taken(partition.partition for partition in partitions)

    def read(self) -> list[tuple[int, int]]:
        messages = self.consumer.consume(100, READ_S)
        assert [message.error() for message in messages if message.error()] == []
        return [(message.partition(), message.offset()) for message in messages]

    def commit(self, next_offsets: dict[int, int]) -> None:
        offsets = [
            TopicPartition(self.options["topic"], partition, offset)
            for partition, offset in next_offsets.items()
        ]
        done = self.consumer.commit(offsets=offsets, asynchronous=False)
        assert [committed.error for committed in done if committed.error] == []

    def leave(self) -> None:
        self.consumer.close()


play(Client)
