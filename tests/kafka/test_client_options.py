"""Every option that Kafka's Java clients list is taken by the Spark source and writer, or refused
with its reason: none is met as if it did not exist.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from apportion.spark.options.batch_read import BatchOptions
from apportion.spark.options.stream import SourceOptions
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.testing.kafka import java_program

BROKERS = {"kafka.bootstrap.servers": "h:9092"}
TOPIC = {**BROKERS, "subscribe": "t"}


def listed(jars: Path, client: str) -> tuple[str, ...]:
    """The names that the configuration class of a client prints, as for Kafka's documentation."""
    command = (java_program(), "-cp", f"{jars}/*", f"org.apache.kafka.clients.{client}")
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return tuple(sorted(set(re.findall(r'<a id="([a-z0-9.]+)"', printed.stdout))))


@pytest.mark.parametrize(
    ("client", "options", "given"),
    [
        ("consumer.ConsumerConfig", SourceOptions, {**TOPIC, "kafka.group.id": "g"}),
        ("consumer.ConsumerConfig", BatchOptions, TOPIC),
        ("producer.ProducerConfig", TopicWriterOptions, {**BROKERS, "topic": "t"}),
    ],
    ids=["stream", "batch read", "write"],
)
def test_each_option_of_a_java_client_is_taken_or_refused_with_its_reason(
    jars: Path, client: str, options: Any, given: dict[str, str]
) -> None:
    names = listed(jars, client)
    assert len(names) > 80
    strange = {}
    for name in names:
        try:
            options.parse({**given, f"kafka.{name}": "1"})
        except ValueError as error:
            if "unknown" in str(error) or "not known" in str(error):
                strange[name] = str(error)
    assert strange == {}
