"""What running queries show to Prometheus and in their progress, against what a real Apache Kafka
says of their group.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.testing.kafka import RealKafka
from tests.spark.harness import Pipeline
from tests.spark.test_observed_queries import (
    listener,
    soon_idle,
    spark,
    started,
    test_prometheus_reads_of_two_queries_what_the_group_says_of_them,
)

__all__ = [
    "listener",
    "soon_idle",
    "spark",
    "started",
    "test_prometheus_reads_of_two_queries_what_the_group_says_of_them",
]

_numbers = itertools.count()


@pytest.fixture
def broker(kafka: RealKafka) -> RealKafka:
    return kafka


@pytest.fixture
def pipeline(kafka: RealKafka, tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, kafka.bootstrap, f"observed-on-kafka-{next(_numbers)}", 4)
    yield made
    made.close()
