"""Members in Python that tell the same lines as those in Java: a thread of this process each, for
groups that Java is in too.
"""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import confluent_kafka
from confluent_kafka import KafkaException

import apportion
from apportion.errors import Refused
from apportion.topics import TopicPartition
from tests.compat.java.history import Actor

SESSION_MS, HEARTBEAT_MS, METADATA_MS = 6000, 250, 500


class EventLog:
    """The lines of one member, and whether it shall end."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.stop = threading.Event()
        self._out = path.open("w", buffering=1)
        self._owned: set[str] = set()

    def say(self, event: str, **what: Any) -> None:
        self._out.write(
            json.dumps({"name": self.name, "at": time.time() * 1000, "event": event, **what}) + "\n"
        )

    def given(self, partitions: list[str]) -> None:
        """These partitions have come."""
        self._owned |= set(partitions)
        self.say("assigned", partitions=sorted(partitions), owned=sorted(self._owned))

    def taken(self, event: str, partitions: list[str]) -> None:
        """These partitions are gone."""
        self._owned -= set(partitions)
        self.say(event, partitions=sorted(partitions), owned=sorted(self._owned))

    def read(self, records: list[tuple[str, int, int]]) -> None:
        """These records have reached the application."""
        if records:
            self.say("read", records=records)

    def close(self) -> None:
        """Nothing more will be told."""
        self._out.close()


def joined(work: Callable[..., None], name: str, directory: Path, *arguments: str) -> Actor:
    """An Actor whose thread does `work(told, *arguments)`."""
    events = EventLog(name, directory / f"{name}.jsonl")

    def run() -> None:
        try:
            work(events, *arguments)
            events.say("closed")
        except Exception as problem:
            events.say("failed", why=repr(problem))
        finally:
            events.close()

    threading.Thread(target=run, name=name, daemon=True).start()
    return Actor(name, directory / f"{name}.jsonl", events.stop.set)


def librdkafka(events: EventLog, bootstrap: str, group: str, topic: str, protocol: str) -> None:
    """A member by confluent-kafka, cooperative-sticky if classic; it commits after every poll and
    before it gives anything up.
    """
    classic = {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": events.name,
            "group.protocol": protocol,
            **(classic if protocol == "classic" else {}),
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    uncommitted: dict[tuple[str, int], int] = {}

    def commit() -> None:
        if uncommitted:
            offsets = [
                confluent_kafka.TopicPartition(*partition, offset)
                for partition, offset in uncommitted.items()
            ]
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as refused:
                events.say("refused", why=str(refused))
            else:
                events.say("committed", offsets=[[*key, at] for key, at in uncommitted.items()])
                uncommitted.clear()

    def assigned(consumer: Any, partitions: list[Any]) -> None:
        consumer.incremental_assign(partitions)
        events.given([f"{each.topic}-{each.partition}" for each in partitions])

    def given_up(event: str) -> Callable[..., None]:
        def give_up(consumer: Any, partitions: list[Any]) -> None:
            if event == "revoked":
                commit()
            for each in partitions:
                uncommitted.pop((each.topic, each.partition), None)
            events.taken(event, [f"{each.topic}-{each.partition}" for each in partitions])
            consumer.incremental_unassign(partitions)

        return give_up

    consumer.subscribe(
        [topic], on_assign=assigned, on_revoke=given_up("revoked"), on_lost=given_up("lost")
    )
    while not events.stop.is_set():
        messages: list[Any] = [each for each in consumer.consume(500, 0.05) if each.error() is None]
        events.read([(each.topic(), each.partition(), each.offset()) for each in messages])
        uncommitted |= {(each.topic(), each.partition()): each.offset() + 1 for each in messages}
        commit()
    consumer.close()


def ours(
    events: EventLog,
    bootstrap: str,
    group: str,
    topic: str,
    protocol: Literal["classic", "consumer"],
) -> None:
    """A member by apportion.Consumer, cooperative-sticky if classic; it commits as `librdkafka`
    does.
    """
    classic: dict[str, Any] = {
        "partition_assignment_strategy": ("cooperative-sticky",),
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "metadata_max_age_ms": METADATA_MS,
    }
    uncommitted: dict[tuple[str, int], int] = {}

    def commit() -> None:
        if uncommitted:
            try:
                consumer.commit(
                    {
                        TopicPartition(*partition): offset
                        for partition, offset in uncommitted.items()
                    }
                )
            except Refused as refused:
                events.say("refused", why=str(refused))
            else:
                events.say(
                    "committed",
                    offsets=[[*partition, offset] for partition, offset in uncommitted.items()],
                )
                uncommitted.clear()

    def given_up(event: str) -> Callable[..., None]:
        def give_up(partitions: tuple[Any, ...]) -> None:
            if event == "revoked":
                commit()
            for each in partitions:
                uncommitted.pop(tuple(each), None)
            events.taken(event, [f"{each.topic}-{each.partition}" for each in partitions])

        return give_up

    consumer = apportion.Consumer(
        bootstrap,
        group,
        topics=[topic],
        client_id=events.name,
        group_protocol=protocol,
        **(classic if protocol == "classic" else {}),
        auto_offset_reset="earliest",
        on_assigned=lambda partitions: events.given(
            [f"{each.topic}-{each.partition}" for each in partitions]
        ),
        on_revoked=given_up("revoked"),
        on_lost=given_up("lost"),
    )
    while not events.stop.is_set():
        records = consumer.poll(timeout_ms=50)
        events.read([(each.topic, each.partition, each.offset) for each in records])
        uncommitted |= {(each.topic, each.partition): each.offset + 1 for each in records}
        commit()
    consumer.close()
