"""Where reads begin and end on a real Apache Kafka, and which records of transactions they have."""

from uuid import uuid4

import confluent_kafka
import pytest

from apportion.testing.kafka import RealKafka
from tests.spark.test_assigned_partitions import (
    partitions,
    stream,
    test_a_group_with_members_takes_no_offsets_of_an_assigned_partition,
    test_an_assigned_partition_is_read_and_committed_without_a_member,
)
from tests.spark.test_reads import (  # the same scenarios, on the `bootstrap` of this module
    clients,
    member,
    reader,
    test_a_batch_read_finds_topics_by_a_pattern_and_partitions_by_assign,
    test_a_batch_read_has_all_records_or_those_of_its_offsets,
    test_a_batch_read_of_times_begins_and_ends_at_the_first_record_of_each,
    test_a_stream_begins_at_a_time_where_its_group_has_no_offset,
    test_a_stream_of_a_pattern_reads_what_is_there_before_it_ends,
    test_tasks_of_at_most_so_many_offsets_read_the_same,
    test_the_range_of_a_group_is_read_without_a_trace_in_it,
    timed,
)


@pytest.fixture(scope="module")
def bootstrap(kafka: RealKafka) -> str:
    return kafka.bootstrap


@pytest.fixture
def transactions(bootstrap: str) -> str:
    """A topic with three records of a committed transaction, three of an aborted one, a plain one,
    and one of a transaction that is open.
    """
    topic = f"reads-tx-{uuid4().hex[:8]}"
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for text, commit in (("kept", True), ("aborted", False)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, text, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, "plain", partition=0)
    plain.flush(30)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush(30)
    return topic


@pytest.mark.parametrize("limits", [{}, {"maxRecordsPerPartition": "2"}], ids=["whole", "divided"])
def test_aborted_and_open_records_and_markers_are_in_no_batch_read(
    bootstrap: str, transactions: str, limits: dict[str, str]
) -> None:
    made = reader(
        bootstrap,
        subscribe=transactions,
        **limits,
        **{"kafka.isolation.level": "read_committed"},
    )
    values = [
        (row["offset"], row["value"])
        for task in made.partitions()
        for batch in made.read(task)
        for row in batch.to_pylist()
    ]
    # The markers of the transactions are at 3 and 7, and the open one begins at 9.
    assert sorted(values) == [(0, b"kept"), (1, b"kept"), (2, b"kept"), (8, b"plain")]
