"""Rehearsals of upgrades spread over Spark, a row a play.

from apportion.sim.streams.matrix import matrix_runs
from apportion.spark.rehearsals import rehearsals

rehearsals(spark, matrix_runs()).where("why <> ''").show(truncate=False)
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from apportion.sim.streams.matrix import MatrixRun, play_run

SCHEMA = pa.schema(
    [
        ("from_", pa.string()),
        ("to", pa.string()),
        ("leader", pa.string()),
        ("crash", pa.string()),
        ("seed", pa.int64()),
        ("bounces", pa.int32()),
        ("upgrade_from", pa.string()),
        ("versions", pa.list_(pa.int32())),
        ("longest_unowned_ms", pa.int64()),
        ("allowed_ms", pa.int64()),
        ("rebalances", pa.int32()),
        ("why", pa.string()),  # "" where every law held
    ]
)


def rehearsals(spark: SparkSession, plays: Sequence[MatrixRun]) -> DataFrame:
    """A row for each play, played when the frame is used: cache it to use it twice. The executors'
    Python must have apportion.
    """
    tasks = min(len(plays), spark.sparkContext.defaultParallelism * 4)
    return spark.range(0, len(plays), numPartitions=tasks).mapInArrow(
        _player(tuple(plays)), from_arrow_schema(SCHEMA)
    )


def _player(
    plays: tuple[MatrixRun, ...],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function by which an executor plays its part of the matrix."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([play_run(plays[number])._asdict()], SCHEMA)

    return rows
