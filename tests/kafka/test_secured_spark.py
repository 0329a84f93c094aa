"""Spark queries on a real Kafka that is secured, with the options that people have for Spark's own
source; no secret is in any file of a run.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.secured import PASSWORD, SCRAM, WRONG, Secured
from tests.spark.harness import PATIENCE_S, Pipeline
from tests.spark.secrets import files_with, settings

__all__ = ["settings"]


def source(secured: Secured, password: str) -> dict[str, str]:
    """The options of a Spark source, as people have them for Spark's own."""
    return {
        "kafka.bootstrap.servers": secured.broker.addresses["SASL"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": secured.ca,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM} username="alice" password="{password}";',
    }


@pytest.fixture
def pipeline(secured: Secured, tmp_path: Path) -> Iterator[Pipeline]:
    group = f"spark-secured-{tmp_path.name}"
    made = Pipeline(tmp_path, secured.broker.bootstrap, group, 2)
    yield made
    made.close()


@pytest.mark.timeout(600)
def test_a_spark_query_reads_from_a_secured_kafka_and_leaves_no_secret(
    secured: Secured, pipeline: Pipeline, settings: dict[str, str], tmp_path: Path
) -> None:
    pipeline.produce(100)
    pipeline.start(
        "once", trigger="available now", spark=settings, source=source(secured, PASSWORD)
    ).wait_for_end()
    assert pipeline.rows() == pipeline.expected()
    # The event log can be read, and has the query's plan.
    assert files_with(tmp_path / "events", "MicroBatchScan")
    assert files_with(tmp_path, PASSWORD) == []


@pytest.mark.timeout(600)
def test_a_spark_query_that_is_not_let_in_ends_at_once(
    secured: Secured, pipeline: Pipeline, settings: dict[str, str], tmp_path: Path
) -> None:
    application = pipeline.start("wrong", spark=settings, source=source(secured, WRONG))
    assert application.process.wait(PATIENCE_S) != 0
    address = secured.broker.addresses["SASL"]
    assert files_with(
        tmp_path,
        f"group {pipeline.group} at {address}: SASL_AUTHENTICATION_FAILED: the broker at {address} "
        "does not accept user 'alice' by SCRAM-SHA-512: Authentication failed",
    )
    assert files_with(tmp_path, WRONG) == []
