"""Queries on our secured broker, with the options that people have for Spark's own source and the
ACLs that they need: executors get the password, and nobody else.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.broker import BrokerSecurity, ResourceType
from tests.node.acl_requests import acl
from tests.spark.harness import Pipeline
from tests.spark.secrets import executors, files_with, processes_with, settings
from tests.spark.secured_pipeline import pipeline_of_alice

__all__ = ["settings"]

PASSWORD = "a-password-of-alice-alone"
NAME = "secured"
NEEDED = (acl(f"{NAME}-topic"), acl(f"{NAME}-group", resource_type=ResourceType.GROUP))
"""To read the topic, and to read the group: all that a query needs."""


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    security = BrokerSecurity(
        users={"admin": "a-password-of-the-admin", "alice": PASSWORD},
        super_users=["User:admin"],
        acls=NEEDED,
    )
    with pipeline_of_alice(security, tmp_path, NAME, 4) as (_, made):
        yield made


def test_a_query_that_is_killed_goes_on_in_other_executors_and_leaves_no_password(
    pipeline: Pipeline, settings: dict[str, str], tmp_path: Path
) -> None:
    assert pipeline.source["kafka.security.protocol"] == "SASL_SSL"
    assert PASSWORD in pipeline.source["kafka.sasl.jaas.config"]
    pipeline.produce(100)
    first = pipeline.start("first", spark=settings)
    pipeline.until_committed()
    first.close_gate("written")
    pipeline.produce(100)
    first.wait_at("written")  # the rows are in the table, and Spark does not know it
    assert processes_with(first, PASSWORD) == []
    first.lose()
    assert files_with(tmp_path, PASSWORD) == []
    pipeline.produce(100)
    # Executors in processes of their own log in.
    second = pipeline.start(
        "second",
        checkpoint="first",
        master="local-cluster[2,1,1024]",
        spark={"spark.executor.memory": "512m"} | settings,
    )
    second.close_gate("reading")
    second.wait_at("reading")
    assert processes_with(second, PASSWORD) == []
    second.open_gate("reading")
    pipeline.until_written()
    assert len(executors(tmp_path)) == 2
    second.stop()
    assert pipeline.rows() == pipeline.expected()
    # The event log and the log of an executor can be read, and have the query's plan.
    assert files_with(tmp_path / "events", "MicroBatchScan")
    assert all(files_with(directory, "Executor") for directory in executors(tmp_path))
    for directory in (tmp_path, *executors(tmp_path)):
        assert files_with(directory, PASSWORD) == []
