"""Executors in processes of their own (`local-cluster`): they read from the broker and write the
files, the driver only commits.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.spark.harness import Pipeline

if TYPE_CHECKING:
    from tests.spark.conftest import Broker


@pytest.fixture(scope="module")
def pipeline(broker: "Broker", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A pipeline with 20 MB that hardly compress, and a driver that may collect 1 MB in all."""
    made = Pipeline(tmp_path_factory.mktemp("cluster"), broker.bootstrap, "cluster", 4)
    try:
        made.produce(20_000, tail_bytes=1_000)
        small = {"spark.driver.maxResultSize": "1m", "spark.executor.memory": "512m"}
        limit = {"maxOffsetsPerTrigger": "10000"}
        application = made.start(
            "c",
            master="local-cluster[2,1,1024]",
            trigger="available now",
            source=limit,
            spark=small,
        )
        application.wait_for_end(180)
        assert len(application.batches()) >= 3  # the first has no rows
        yield made
    finally:
        made.close()


def test_no_row_passes_through_the_driver(pipeline: Pipeline) -> None:
    assert pipeline.rows() == pipeline.expected()


def test_one_file_holds_one_kafka_partition(pipeline: Pipeline) -> None:
    files = [
        pq.read_table(path, columns=["partition"])
        for path in DeltaTable(str(pipeline.table)).file_uris()
    ]
    assert sorted(file["partition"].unique().to_pylist() for file in files) == sorted(
        [[0], [1], [2], [3]] * 2
    )
