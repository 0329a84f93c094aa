"""What our reader shows of a real Kafka's transactions: what was committed, and nothing else."""

from uuid import uuid4

import confluent_kafka

from apportion.client.cluster import Cluster
from apportion.testing.kafka import RealKafka
from apportion.topics import partitions_of
from apportion.wire.batch import decode_batch
from apportion.wire.messages.list_offsets import LATEST


def test_aborted_records_and_markers_are_skipped_up_to_the_last_stable_offset(
    kafka: RealKafka,
) -> None:
    cluster = Cluster(kafka.bootstrap)
    partition = partitions_of(cluster.create_topic(f"tx-{uuid4().hex[:8]}", 1))[0]
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": partition.topic}
    )
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
    producer.init_transactions(30)
    for number, commit in enumerate([True, False, True, False, False, True]):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(partition.topic, f"{number}")
        producer.flush(30)
        plain.produce(partition.topic, "plain")
        plain.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(partition.topic, "open")
    producer.flush(30)
    end = cluster.list_offsets([partition], LATEST)[partition]
    assert end == 6 * 5
    values = [
        record.value.decode()  # type: ignore[union-attr]
        for batch in cluster.fetch_range(partition, 0, end)
        for record in decode_batch(batch)
    ]
    assert values == [
        *["0"] * 3,
        "plain",
        "plain",
        *["2"] * 3,
        "plain",
        "plain",
        "plain",
        *["5"] * 3,
        "plain",
    ]
    producer.abort_transaction(30)
    cluster.close()
