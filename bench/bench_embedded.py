"""Brokers for tests: time to the first answer, ours and Kafka's; and what frequent commits cost."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apportion
from apportion.broker import EmbeddedBroker
from apportion.testing import RealKafka
from apportion.testing.kafka import jars_of

KAFKA_POM = Path(__file__).parent.parent / "tests" / "kafka" / "pom.xml"
STARTS, KAFKA_STARTS = 20, 3
RECORDS = 20_000
COMMITS = 1_000


def run() -> list[dict[str, Any]]:
    """Return the rows: medians of starts, and records a second with many commits."""
    return [
        row("embedded_ready_ms", median_ms(STARTS, embedded), "ms", "lower"),
        row("kafka_ready_ms", median_ms(KAFKA_STARTS, real_kafka), "ms", "lower"),
        *commits(),
    ]


def row(name: str, value: float, unit: str, better: str) -> dict[str, Any]:
    """Return one row of the table, without a target."""
    return {"name": name, "value": value, "unit": unit, "target": None, "better": better}


def median_ms(times: int, start: Callable[[], float]) -> float:
    """Return the median of so many starts."""
    return statistics.median(start() for _ in range(times)) * 1_000


def embedded() -> float:
    """Return the seconds until an embedded broker takes connections."""
    started = time.perf_counter()
    with EmbeddedBroker():
        return time.perf_counter() - started


def real_kafka() -> float:
    """Return the seconds until a real Kafka with new storage answers a request."""
    with tempfile.TemporaryDirectory() as directory:
        kafka = RealKafka(jars_of(KAFKA_POM), Path(directory) / "kafka")
        started = time.perf_counter()
        with kafka:
            return time.perf_counter() - started


def commits() -> list[dict[str, Any]]:
    """Return records a second of Consumers that commit after each record and after each poll."""
    from confluent_kafka import Producer  # of the extra `demo`

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce("t", str(number).encode())
            producer.poll(0)
        producer.flush()
        with apportion.Consumer(
            broker.bootstrap, "each", topics=["t"], auto_offset_reset="earliest"
        ) as consumer:
            records = iter(consumer)
            next(records)
            started = time.perf_counter()
            for _ in range(COMMITS):
                next(records)
                consumer.commit()
            each = COMMITS / (time.perf_counter() - started)
        with apportion.Consumer(
            broker.bootstrap, "poll", topics=["t"], auto_offset_reset="earliest"
        ) as consumer:
            read = 0
            while not read:
                read = len(consumer.poll())
            started, first = time.perf_counter(), read
            while read < RECORDS:
                read += len(consumer.poll())
                consumer.commit()
            polled = (RECORDS - first) / (time.perf_counter() - started)
    return [
        row("consumer_commit_each_per_s", each, "records/s", "higher"),
        row("consumer_commit_poll_per_s", polled, "records/s", "higher"),
    ]
