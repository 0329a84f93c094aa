"""Simulated rolling upgrades of Kafka Streams applications, many of them as one Spark DataFrame.

from apportion.sim.streams.matrix import matrix_runs
from apportion.spark.rehearsals import rehearsals

rehearsals(spark, matrix_runs()).where("why <> ''").show(truncate=False)
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from apportion.sim.streams.matrix import MatrixRun, play_run
from apportion.spark.seeds import parallelism, rows_played

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


def rehearsals(spark: SparkSession, runs: Sequence[MatrixRun]) -> DataFrame:
    """Return a DataFrame with one row for each simulated upgrade, by `SCHEMA`.

    The executors simulate when an action runs on it; cache it to use it twice. Their Python must
    have apportion installed.
    """
    every = tuple(runs)
    tasks = min(len(runs), parallelism(spark) * 4)
    return spark.range(0, len(runs), numPartitions=tasks).mapInArrow(
        rows_played(lambda number: play_run(every[number])._asdict(), SCHEMA),
        from_arrow_schema(SCHEMA),
    )
