"""The most that a Python source of Spark can give: one that reads nothing.

`python bench/constant_source.py` prints the rows a second of full batches into the noop sink: rows
over the time of addBatch, the median of the batches but for the first, on two cores. Each of two
tasks hands out one Arrow batch again and again, with the columns of `format("apportion")`, or some,
and values of 100 bytes.
"""

import argparse
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

TASKS, BATCHES, ROWS_A_BATCH = 2, 6, 1_000_000


class Rows(InputPartition):
    """How many rows a task hands out, and of how many rows each Arrow batch is."""

    def __init__(self, rows: int, arrow_rows: int) -> None:
        self.rows, self.arrow_rows = rows, arrow_rows


class ConstantReader(DataSourceStreamReader):
    """Has a batch of as many rows as the last one, whenever it is asked."""

    def __init__(self, columns: list[str], arrow_rows: int) -> None:
        self._columns, self._arrow_rows, self._batch = columns, arrow_rows, 0

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first batch."""
        return {"batch": 0}

    def latestOffset(self, _start: dict[str, int], _limit: ReadLimit) -> dict[str, int]:
        """Return the offset of one batch more."""
        self._batch += 1
        return {"batch": self._batch}

    def partitions(self, _start: dict[str, int], _end: dict[str, int]) -> list[Rows]:
        """Return the tasks of a batch."""
        return [Rows(ROWS_A_BATCH // TASKS, self._arrow_rows)] * TASKS

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield the same Arrow batch again and again."""
        batch = constant_batch(self._columns, partition.arrow_rows)
        for _ in range(partition.rows // partition.arrow_rows):
            yield batch


class ConstantSource(DataSource):
    """`format("constant")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "constant"

    def schema(self) -> StructType:
        """Return the chosen columns."""
        return columns_of(self._columns)

    def streamReader(self, schema: StructType) -> ConstantReader:  # noqa: ARG002  # by this name
        """Return the reader of a stream."""
        return ConstantReader(self._columns, int(self.options["arrowRows"]))

    @property
    def _columns(self) -> list[str]:
        return self.options["columns"].split(",")


def columns_of(names: list[str]) -> StructType:
    """Return these columns of apportion's source."""
    every = source_columns(include_headers=False)
    return StructType([every[name] for name in names])


def constant_batch(names: list[str], rows: int) -> Any:
    """Return an Arrow batch of rows that have keys of 8 bytes and values of 100."""
    import pyarrow as pa

    now_us = time.time_ns() // 1_000
    values: dict[str, Any] = {
        "key": pa.array([b"k" * 8] * rows, pa.binary()),
        "value": pa.array([b"v" * 100] * rows, pa.binary()),
        "topic": pa.array(["topic"] * rows, pa.string()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([now_us] * rows, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_pydict({name: values[name] for name in names})


def rows_a_second(columns: str, arrow_rows: int) -> float:
    """Run a query of a few batches; return the median of its rows a second."""
    spark = SparkSession.builder.master("local[2]").appName("constant").getOrCreate()
    spark.dataSource.register(ConstantSource)
    reader = spark.readStream.format("constant").option("columns", columns)
    rows = reader.option("arrowRows", str(arrow_rows)).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.start()
        while len(query.recentProgress) < BATCHES and not query.exception():
            query.awaitTermination(1)
        took_ms = [each["durationMs"]["addBatch"] for each in query.recentProgress[1:]]
        query.stop()
    spark.stop()
    return float(ROWS_A_BATCH / median(took_ms) * 1_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = source_columns(include_headers=False).names
    parser.add_argument("--columns", default=",".join(every), metavar="NAMES")
    parser.add_argument("--arrow-rows", type=int, default=50_000, metavar="N")
    options = parser.parse_args()
    print(f"{rows_a_second(options.columns, options.arrow_rows):,.0f} rows/s")


if __name__ == "__main__":
    main()
