"""The most that a Python source of Spark can give: one that reads nothing.

`python bench/constant_source.py` prints the rows a second of full batches into the noop sink: rows
over the time of addBatch, the median of the batches but for the first, on two cores. Each of two
tasks hands out one Arrow batch again and again, with the columns of `format("apportion")` and
values of 100 bytes.
"""

import tempfile
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from apportion.spark.reading.source_columns import source_columns

TASKS, BATCHES, ROWS_A_BATCH, ARROW_ROWS = 2, 6, 1_000_000, 50_000


class ConstantReader(DataSourceStreamReader):
    """Has a batch of as many rows as the last one, whenever it is asked."""

    def __init__(self) -> None:
        self._batch = 0

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first batch."""
        return {"batch": 0}

    def latestOffset(self, _start: dict[str, int], _limit: ReadLimit) -> dict[str, int]:
        """Return the offset of one batch more."""
        self._batch += 1
        return {"batch": self._batch}

    def partitions(self, _start: dict[str, int], _end: dict[str, int]) -> list[InputPartition]:
        """Return the tasks of a batch."""
        return [InputPartition(task) for task in range(TASKS)]

    def read(self, _partition: InputPartition) -> Iterator[Any]:
        """Yield the same Arrow batch again and again."""
        batch = constant_batch()
        for _ in range(ROWS_A_BATCH // TASKS // ARROW_ROWS):
            yield batch


class ConstantSource(DataSource):
    """`format("constant")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "constant"

    def schema(self) -> StructType:
        """Return the columns of apportion's source."""
        return source_columns(include_headers=False)

    def streamReader(self, schema: StructType) -> ConstantReader:  # noqa: ARG002  # by this name
        """Return the reader of a stream."""
        return ConstantReader()


def constant_batch() -> Any:
    """Return an Arrow batch of rows that have keys of 8 bytes and values of 100."""
    import pyarrow as pa

    rows, now_us = ARROW_ROWS, time.time_ns() // 1_000
    columns: dict[str, Any] = {
        "key": pa.array([b"k" * 8] * rows, pa.binary()),
        "value": pa.array([b"v" * 100] * rows, pa.binary()),
        "topic": pa.array(["topic"] * rows, pa.string()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([now_us] * rows, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)


def rows_a_second() -> float:
    """Run a query of a few batches; return the median of its rows a second."""
    spark = SparkSession.builder.master("local[2]").appName("constant").getOrCreate()
    spark.dataSource.register(ConstantSource)
    rows = spark.readStream.format("constant").load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.start()
        while len(query.recentProgress) < BATCHES and not query.exception():
            query.awaitTermination(1)
        took_ms = [each["durationMs"]["addBatch"] for each in query.recentProgress[1:]]
        query.stop()
    spark.stop()
    return float(ROWS_A_BATCH / median(took_ms) * 1_000)


if __name__ == "__main__":
    print(f"{rows_a_second():,.0f} rows/s")
