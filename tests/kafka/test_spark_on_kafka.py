"""The Spark source and the exactly-once writer, end to end on a real Apache Kafka, by KIP-848 and
by the classic protocol.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from apportion.testing.kafka import RealKafka
from tests.spark.harness import Pipeline
from tests.spark.test_takeover import (  # the same scenarios, on the `pipeline` of this module
    test_killed_after_the_delta_commit_and_before_sparks,
    test_two_applications_share_a_topic_and_one_is_lost,
)

CLASSIC = {
    "kafka.group.protocol": "classic",
    "kafka.session.timeout.ms": "6000",
    "kafka.heartbeat.interval.ms": "500",
    "kafka.metadata.max.age.ms": "2000",
}


@pytest.fixture(params=[{}, CLASSIC], ids=["consumer", "classic"])
def pipeline(
    kafka: RealKafka, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Pipeline]:
    made = Pipeline(
        tmp_path, kafka.bootstrap, f"spark-on-kafka-{uuid4().hex[:8]}", 4, request.param
    )
    yield made
    made.close()


def test_available_now_reads_what_is_there_and_ends(pipeline: Pipeline) -> None:
    pipeline.produce(400)
    pipeline.start(
        "once", trigger="available now", source={"maxOffsetsPerTrigger": "100"}
    ).wait_for_end()
    assert pipeline.rows() == pipeline.expected()
