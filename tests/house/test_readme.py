"""README's Python is right for a type checker, and its broker and its consumer run as they stand
there.
"""

import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.topics import partitions_of
from apportion.wire.messages.list_offsets import LATEST

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
BROKER, PRODUCER, SPARK, CONSUMER = BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=["broker", "producer", "spark", "consumer"])
def test_an_example_is_right_for_a_type_checker(block: str, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(block)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_broker_says_where_clients_connect() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKER], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.stdout)


def test_the_producer_sends_to_the_topic_that_the_spark_job_and_the_consumer_read() -> None:
    with EmbeddedBroker(num_partitions=2) as broker, closing(Cluster(broker.bootstrap)) as cluster:
        code = PRODUCER.replace("localhost:9092", broker.bootstrap)
        subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
        topic = cluster.topics(["flights"]).named("flights")
        assert topic is not None
        partitions = partitions_of(topic)
        assert sum(cluster.list_offsets(partitions, LATEST).values()) == 1000
    assert '.option("subscribe", "flights")' in SPARK
    assert 'topics=["flights"]' in CONSUMER


def test_the_consumer_prints_what_was_produced() -> None:
    with EmbeddedBroker(num_partitions=1) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for value in (b"one", b"two"):
            producer.produce("flights", value)
        producer.flush()
        code = CONSUMER.replace("localhost:9092", broker.bootstrap)
        reader = subprocess.Popen(
            [sys.executable, "-u", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell starts background jobs with SIGINT ignored, and the tests may be one.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            assert reader.stdout is not None
            assert [reader.stdout.readline() for _ in range(2)] == [
                "flights 0 0 b'one'\n",
                "flights 0 1 b'two'\n",
            ]
            reader.send_signal(signal.SIGINT)
            _, errors = reader.communicate(timeout=60)
            assert (reader.returncode, errors) == (0, "")
        finally:
            reader.kill()
            reader.communicate()
