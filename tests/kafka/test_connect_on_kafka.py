"""Queries through Spark Connect, with a server of their own, on a real Apache Kafka."""

from tests.spark.connect_server import address, spark
from tests.spark.queries import rows, source, started

# the same scenarios, on the `pipeline` of this directory
from tests.spark.test_connect import test_a_query_is_stopped_in_order
from tests.spark.test_connect_stories import (
    test_a_named_source_writes_each_record_once_over_a_restart,
    test_a_second_query_takes_over_and_each_record_is_written_once,
    test_rows_are_written_to_a_topic_and_read_as_a_batch,
)
