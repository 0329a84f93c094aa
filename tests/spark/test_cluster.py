"""Executors in processes of their own (`local-cluster`): they read from the broker and write the files, the driver only commits."""

import pyarrow.parquet as pq
from deltalake import DeltaTable


def test_no_row_passes_through_the_driver(stage):
    """20 MB of letters that do not compress reach the table through a driver that may collect 1 MB in all."""
    stage.produce(20_000, size=1_000)
    application = stage.start(
        "cluster",
        master="local-cluster[2,1,1024]",
        trigger="available now",
        source={"maxOffsetsPerTrigger": "10000"},
        spark={"spark.driver.maxResultSize": "1m", "spark.executor.memory": "512m"},
    )
    application.wait_for_end(180)
    assert stage.rows() == stage.expected()
    assert len(application.batches()) >= 2


def test_one_file_holds_one_kafka_partition(stage):
    stage.produce(4_000)
    stage.start(
        "cluster", master="local-cluster[2,1,1024]", trigger="available now", spark={"spark.executor.memory": "512m"}
    ).wait_for_end(180)
    files = [pq.read_table(path, columns=["partition"]) for path in DeltaTable(str(stage.table)).file_uris()]
    assert sorted(file["partition"].unique().to_pylist() for file in files) == [[0], [1], [2], [3]]
