"""A topic and a group of their own on a broker, for one test."""

import itertools
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.compat.java.history import Actor, until
from tests.compat.java.jvm import Jvm

NUMBERS = itertools.count(1)


class GroupUnderTest:
    """A topic and its group; `shared_jvm` is the JVM of the producers, `sent` what was produced by
    `produce`.
    """

    def __init__(self, bootstrap: str, shared_jvm: Jvm, partitions: int) -> None:
        number = next(NUMBERS)
        self.topic, self.group = f"t{number}", f"g{number}"
        self.partitions = [f"{self.topic}-{each}" for each in range(partitions)]
        # Without recovery: what librdkafka 2.16 was asked while it bootstraps anew may wait for
        # ever.
        self.admin = AdminClient(
            {"bootstrap.servers": bootstrap, "metadata.recovery.strategy": "none"}
        )
        self.admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(20)
        self.sent: list[tuple[str, int, int]] = []
        self._bootstrap, self._shared_jvm = bootstrap, shared_jvm

    def join(self, jvm: Jvm, name: str, config: dict[str, int | str]) -> Actor:
        """A member of the group in `jvm`."""
        return jvm.join(f"{self.group} {name}", self._bootstrap, self.group, [self.topic], config)

    def produce(self, count: int) -> None:
        """Java's producer has sent so many records more."""
        name = f"{self.group} writer {len(self.sent)}"
        writer = self._shared_jvm.produce(name, self._bootstrap, self.topic, count)
        until(lambda: writer.events_of("closed"), "the producer is done")
        assert len(writer.records) == count
        self.sent += writer.records

    def flow(self, pause_ms: int) -> Actor:
        """A producer that goes on until it is told to leave; then it has `records`."""
        return self._shared_jvm.produce(
            f"{self.group} flow", self._bootstrap, self.topic, -1, pause_ms
        )

    def remove(self, instance: str) -> None:
        """Java's admin has taken the static member out of the group."""
        admin = self._shared_jvm.remove(
            f"{self.group} remover of {instance}", self._bootstrap, self.group, instance
        )
        until(lambda: admin.events_of("closed"), f"{instance} is removed")

    def grow(self, partitions: int) -> None:
        """The topic has so many partitions."""
        self.admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(20)
        self.partitions = [f"{self.topic}-{each}" for each in range(partitions)]

    def described(self) -> tuple[Any, str, int]:
        """What an admin is told of the group: its type, its state and how many members it has."""
        description = self.admin.describe_consumer_groups([self.group])[self.group].result(20)
        return description.type, description.state.name, len(description.members)
