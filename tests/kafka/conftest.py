"""One real Apache Kafka for the whole run of the tests in this directory."""

from pathlib import Path

import pytest

from apportion.testing.kafka import KafkaMissing, RealKafka, jars_of


@pytest.fixture(scope="session")
def jars(lane_missing):
    """The jars of Apache Kafka; without Maven the lane is missing."""
    try:
        return jars_of(Path(__file__).with_name("pom.xml"))
    except KafkaMissing as problem:
        lane_missing(str(problem))


@pytest.fixture(scope="session")
def kafka(jars, tmp_path_factory, lane_missing):
    """A running RealKafka; without Java the lane is missing. Each test makes topics and groups of its own."""
    try:
        broker = RealKafka(jars, tmp_path_factory.mktemp("kafka"), {"group.min.session.timeout.ms": "100"})
        broker.start()
    except KafkaMissing as problem:
        lane_missing(str(problem))
    try:
        yield broker
    finally:
        broker.kill()
