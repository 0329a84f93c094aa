"""A sink in the offset metadata of a real Apache Kafka, and the members that its group refuses."""

import pytest

from apportion.testing.kafka import RealKafka
from tests.spark.batch_members import batch_member_of, protocol
from tests.spark.test_group_sink import (  # the same scenarios, on the `broker` of this module
    test_a_consumer_that_joined_before_the_sink_is_refused_at_its_next_partition,
    test_a_member_with_a_second_sink_for_its_group_is_refused_and_takes_nothing,
    test_a_newcomer_waits_a_session_for_a_consumer_without_commit_and_is_refused,
    test_a_query_whose_table_was_moved_leaves_its_group_to_adopt_it_and_goes_on,
    test_a_static_query_of_a_moved_table_gives_up_its_place_to_adopt_the_group,
)


@pytest.fixture(scope="module")
def broker(kafka: RealKafka) -> RealKafka:
    return kafka
