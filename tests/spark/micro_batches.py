"""Micro-batches of a DataFrame without Spark, and of one with it; what a table holds afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from apportion.member.batch.span import Span, sorted_span
from apportion.spark.delta import Writer
from apportion.spark.delta_sink.files import OUTCOME
from apportion.spark.queries.introspection import SourceReading
from apportion.topics import TopicIdPartition

TOPIC_ID = bytes(range(16))
COLUMNS = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("city", "string")
)
ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("city", pa.string()),
    ]
)


class Frame:
    """A DataFrame with these rows, whose jobs run here. meanwhile: called once, when the first job
    has ended.
    """

    def __init__(
        self,
        rows: pa.RecordBatch,
        meanwhile: Callable[[], object] = lambda: None,
        schema: StructType = COLUMNS,
    ) -> None:
        self.schema = schema
        self.columns = self.schema.names
        self.sparkSession = self
        self._rows, self._meanwhile = rows, meanwhile

    def mapInArrow(self, function: Callable[..., Any], schema: StructType) -> Self:
        batches = list(function(iter([self._rows] if self._rows.num_rows else [])))
        self._report = pa.Table.from_batches(batches, OUTCOME)
        return self

    def collect(self) -> list[tuple[Any, ...]]:
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return [tuple(row.values()) for row in self._report.to_pylist()]

    def createDataFrame(self, rows: list[tuple[str]], schema: str) -> "Frame":
        return Frame(
            pa.RecordBatch.from_pydict({"path": [path for (path,) in rows]}),
            schema=StructType().add("path", "string"),
        )


def batch(
    writer: Writer,
    *ranges: tuple[int, int, int],
    meanwhile: Callable[[], object] = lambda: None,
    group: str = "g",
) -> None:
    """One micro-batch: every record of these ranges (partition, start, end), which are the batch's
    span too.
    """
    partitions = {
        TopicIdPartition("t", TOPIC_ID, partition): (start, end) for partition, start, end in ranges
    }
    rows = [
        {
            "topic": "t",
            "partition": topic_partition.partition,
            "offset": offset,
            "city": f"{topic_partition.partition}-{offset}",
        }
        for topic_partition, bounds in partitions.items()
        for offset in range(*bounds)
    ]
    frame: Any = Frame(pa.RecordBatch.from_pylist(rows, schema=ARROW), meanwhile)
    writer.write(frame, [SourceReading(group, sorted_span("a", partitions))])


def stored(path: str) -> list[tuple[int, int]]:
    """(partition, offset) of every row that can be read."""
    table = DeltaTable(path).to_pyarrow_table()
    return sorted(zip(*table.select(["partition", "offset"]).to_pydict().values(), strict=True))


def orphans(path: str) -> list[str]:
    held = {Path(uri).name for uri in DeltaTable(path).file_uris()}
    return sorted(file.name for file in Path(path).glob("*.parquet") if file.name not in held)


def every(*ranges: tuple[int, int, int]) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, start, end in ranges for offset in range(start, end)]


P0 = TopicIdPartition("t", TOPIC_ID, 0)


def nothing_read(writer: Writer, batch: Span, group: str = "g") -> None:
    """The writer is given a batch without rows."""
    frame: Any = Frame(pa.RecordBatch.from_pylist([], schema=ARROW))
    writer.write(frame, [SourceReading(group, batch)])


def rows(spark: SparkSession, *values: str, name: str = "amount") -> DataFrame:
    """A record for each value, as SQL has it, in tasks of their own."""
    selects = (
        f"select 't' topic, 0 partition, {offset}L offset, {value} {name}"
        for offset, value in enumerate(values)
    )
    return spark.sql(" union all ".join(selects))


def write(path: str, frame: DataFrame, group: str = "g") -> None:
    """One micro-batch of ten records, of which `frame` has what became rows."""
    Writer(path).write(frame, [SourceReading(group, sorted_span("a", {P0: (0, 10)}))])
