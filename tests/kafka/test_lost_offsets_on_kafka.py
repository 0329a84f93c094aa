"""Records that a foreign commit has skipped or that were deleted, on a real Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.client.cluster import Cluster
from apportion.testing.kafka import RealKafka
from tests.spark.played_query import Query
from tests.spark.test_lost_offsets import (  # the same scenarios, on the `query` of this module
    test_a_partition_new_to_the_table_does_not_begin_at_a_foreign_commit,
    test_records_that_are_gone_are_not_gone_back_to,
    test_skipped_records_that_still_exist_are_read_as_the_error_message_says,
)


@pytest.fixture
def query(kafka: RealKafka, tmp_path: Path) -> Iterator[Query]:
    cluster = Cluster(kafka.bootstrap)
    made = Query(cluster, kafka.bootstrap, tmp_path / "table")
    yield made
    made.stops()
    cluster.close()
