"""The fixture itself: a foreign client on a foreign broker, so that whatever fails elsewhere is
ours.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import confluent_kafka
import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from apportion.client.cluster import Cluster
from apportion.testing.kafka import KafkaMissing, RealKafka
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.list_offsets import EARLIEST
from tests.kafka.conftest import until


def test_a_consumer_of_the_new_protocol_reads_what_was_produced(kafka: RealKafka) -> None:
    print(f"Apache Kafka {kafka.version}, confluent-kafka {confluent_kafka.__version__}")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic("birds", 3, 1)])["birds"].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
    sent = {(b"%d" % number, b"bird %d" % number) for number in range(30)}
    for key, value in sent:
        producer.produce("birds", value, key)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "watchers",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["birds"])
    seen: set[tuple[bytes | None, bytes | None]] = set()
    while len(seen) < len(sent):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen.add((message.key(), message.value()))
    consumer.close()
    group = admin.describe_consumer_groups(["watchers"])["watchers"].result(30)
    assert seen == sent
    assert (group.type, group.state) == (
        confluent_kafka.ConsumerGroupType.CONSUMER,
        confluent_kafka.ConsumerGroupState.EMPTY,
    )


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"advertised.listeners": "nonsense"},
            "storage tool failed:(.|\n)*Unable to parse nonsense",
        ),
        (
            {"remote.log.storage.system.enable": "true"},
            "before it was ready:(.|\n)*RemoteLogManager",
        ),
    ],
)
def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(
    jars: Path, tmp_path: Path, settings: dict[str, str], why: str
) -> None:
    with pytest.raises(KafkaMissing, match=why):
        RealKafka(jars, tmp_path, settings).start()
    # a process that ends meanwhile, anybody's, has no command line
    alive = psutil.process_iter(["cmdline"])
    assert [
        process.pid for process in alive if str(tmp_path) in " ".join(process.info["cmdline"] or ())
    ] == []


def test_records_of_any_age_stay_unless_their_topic_says_otherwise(
    standing: Callable[[str], RealKafka],
) -> None:
    with closing(Cluster(standing("expiring").bootstrap)) as us:
        kept = us.create_topic("of-any-age", 1)
        aged = us.create_topic("of-1-ms", 1, config={"retention.ms": "1"})
        (old,), (gone,) = partitions_of(kept), partitions_of(aged)
        batch = encode_batch([(None, b"of 1970", ())], timestamp_ms=1)
        us.produce(old, batch)
        # The second deletion is of another check, so the first check has seen both topics.
        for deleted in (1, 2):
            us.produce(gone, batch)
            until(lambda start=deleted: us.list_offsets([gone], EARLIEST)[gone] >= start)
        assert us.list_offsets([old], EARLIEST)[old] == 0


def test_a_directory_is_named_from_here_and_not_from_that_of_kafkas_process(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broker = RealKafka(jars, Path("kafka"))
    assert (broker.directory, broker.log) == (tmp_path / "kafka", tmp_path / "kafka" / "kafka.log")
