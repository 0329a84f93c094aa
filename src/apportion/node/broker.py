"""The context that request handlers share: settings, address, flush gate, topics, partitions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from apportion.deadlines import Deadlines
from apportion.machine import Arrived, Instant
from apportion.node.delayed_fetches import DelayedFetches
from apportion.node.flush_gate import FlushGate
from apportion.node.partitions import Partition, Partitions
from apportion.node.settings import BrokerSettings
from apportion.node.topics import TopicService


class Address(NamedTuple):
    """Host and port at which clients reach this broker."""

    host: str
    port: int


class Answer(NamedTuple):
    """A response, and the flush that must succeed before it may be sent."""

    body: Any
    flush_seq: int = 0


@dataclass(slots=True)
class BrokerContext:
    """The state that the handlers of data requests read and write.

    Groups are in the coordinators instead.
    """

    settings: BrokerSettings
    address: Address
    flush_gate: FlushGate
    topic_service: TopicService
    partitions: Partitions
    delayed_fetches: DelayedFetches
    deadlines: Deadlines

    def partition_or_none(self, name: str, index: int) -> Partition | None:
        """Return the partition of that topic name and index; None if there is none."""
        topic = self.topic_service.topics.named(name)
        return (
            None
            if topic is None or not 0 <= index < topic.partitions
            else self.partitions.of(topic, index)
        )

    def partition_by_id_or_none(self, topic_id: bytes, index: int) -> Partition | None:
        """Return the partition of that topic id and index; None if there is none.

        For Produce and Fetch from version 13 on.
        """
        topic = self.topic_service.topics.with_id(topic_id)
        return (
            None
            if topic is None or not 0 <= index < topic.partitions
            else self.partitions.of(topic, index)
        )


BrokerHandler = Callable[[BrokerContext, Arrived, Instant], Answer | None]
"""Answers a request, or parks it and returns None."""
