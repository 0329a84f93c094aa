"""The Spark source and the exactly-once writer, end to end on a real Apache Kafka."""

import itertools

import pytest

from tests.spark.harness import Stage, until

_numbers = itertools.count()


@pytest.fixture
def stage(kafka, tmp_path):
    made = Stage(tmp_path, kafka.bootstrap, f"spark-on-kafka-{next(_numbers)}", 4)
    yield made
    made.close()


def test_two_applications_share_a_topic_and_one_is_lost(stage):
    first, second = stage.start("first"), stage.start("second")
    stage.until_owned_by("first", "second")
    stage.produce(400)
    stage.until_written()
    second.lose()
    stage.produce(400)
    stage.until_owned_by("first")
    stage.until_written()
    until(lambda: stage.total_committed() == 800, also=[first], what="the group's offsets")
    assert stage.rows() == stage.expected()


def test_killed_after_the_delta_commit_and_before_sparks(stage):
    stage.produce(200)
    doomed = stage.start("doomed")
    doomed.close_gate("written")
    doomed.wait_at("written")
    doomed.lose()
    stage.start("again", checkpoint="doomed")
    stage.produce(200)
    stage.until_written()
    assert stage.rows() == stage.expected()


def test_available_now_reads_what_is_there_and_ends(stage):
    stage.produce(400)
    stage.start("once", trigger="available now", source={"maxOffsetsPerTrigger": "100"}).wait_for_end()
    assert stage.rows() == stage.expected()
