"""What users see of queries and do with them, on a real Apache Kafka: scenarios of tests/spark."""

from collections.abc import Iterator

import pytest

from apportion.client.cluster import Cluster
from apportion.testing.kafka import RealKafka
from tests.cli.test_doctor import examined
from tests.spark.harness import Pipeline
from tests.spark.queries import rows, source, spark, started
from tests.spark.test_bad_input import (
    test_a_writer_refuses_a_group_of_another_table_before_the_query_begins,
)
from tests.spark.test_batch_read import (
    read,
    test_deleted_records_fail_a_batch_read_and_the_error_says_which,
)
from tests.spark.test_ending_applications import (
    test_an_application_that_is_told_to_end_finishes_its_batch_commits_and_leaves,
)
from tests.spark.test_first_look import test_a_partition_that_does_not_exist_cannot_be_assigned
from tests.spark.test_stopped_queries import (
    gate,
    test_a_batch_that_takes_too_long_is_interrupted_and_read_again,
    test_the_batch_that_runs_is_finished_and_the_group_knows_of_it,
)
from tests.spark.test_stream_options import (
    test_a_batch_waits_for_enough_records_and_has_enough_tasks,
    test_a_pattern_and_divided_ranges_reach_the_table_each_record_once,
    test_assigned_partitions_reach_the_table_and_are_committed,
)


@pytest.fixture
def clients(kafka: RealKafka) -> Iterator[Cluster]:
    cluster = Cluster(kafka.bootstrap)
    yield cluster
    cluster.close()


def test_the_doctor_finds_that_a_query_can_run_on_kafka(pipeline: Pipeline) -> None:
    pipeline.produce(8)
    parts = ("--group", pipeline.group, "--topic", pipeline.topic, "--table", str(pipeline.table))
    code, found = examined("--bootstrap", pipeline.bootstrap, *parts)
    assert code == 0
    assert found["cluster"] == [
        "ok",
        f"{pipeline.bootstrap}: 1 broker, plain, without a login",
        None,
    ]
    assert found[f"topic {pipeline.topic}"][1].startswith("4 partitions, 8 offsets from their")
    assert found["KIP-848"] == ["ok", "the brokers have consumer groups", None]
    assert {state for state, _, _ in found.values()} <= {"ok", "skipped"}
