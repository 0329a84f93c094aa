"""What running queries show to Prometheus and in their progress, against what a real Apache Kafka
says of their group.
"""

import pytest

from apportion.testing.kafka import RealKafka
from tests.spark.queries import spark
from tests.spark.test_observed_queries import (
    listener,
    soon_idle,
    started,
    test_prometheus_reads_of_two_queries_what_the_group_says_of_them,
)


@pytest.fixture
def broker(kafka: RealKafka) -> RealKafka:
    return kafka
