"""Runs of the simulator, many seeds as one Spark DataFrame: `apportion sim --spark`.

from apportion.spark.seeds import seeds, summary

played = seeds(spark, 10_000, partitions=12).cache()
played.where("verdict <> 'holds'").show(truncate=False)
summary(played).show(truncate=False)
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import ScenarioRefused
from apportion.sim.play import play
from apportion.sim.seed_pool import Draw, PlayScenario, play_seed

HOLDS = "holds"
SCHEMA = pa.schema(
    [
        ("seed", pa.int64()),
        ("steps", pa.int64()),
        ("simulated_s", pa.float64()),
        ("rebalances", pa.int64()),
        ("slowest_convergence_s", pa.float64()),
        ("longest_unowned_s", pa.float64()),
        ("rows", pa.int64()),
        ("commits", pa.int64()),
        ("crashes", pa.int64()),
        ("digest", pa.string()),
        ("verdict", pa.string()),  # HOLDS, or the name of the law that broke
        ("broken_at_s", pa.float64()),
        ("why", pa.string()),
    ]
)
FIGURES = tuple(SCHEMA.names[1:9])
# Half a minute of work or less: losing an executor costs little, and no task is left running long
# after all others.
SEEDS_PER_TASK = 32

SparkError = (PySparkException, Py4JError)
"""The errors that Spark raises, which the command line reports in one line."""


def seeds(
    spark: SparkSession,
    runs: int,
    first: int = 0,
    *,
    kinds: Iterable[str] | None = None,
    play: PlayScenario = play,
    **sizes: Any,
) -> DataFrame:
    """Return a DataFrame with one row for each of the seeds `first` to `first + runs - 1`.

    The executors simulate when an action runs on it; cache it to use it twice. Their Python must
    have apportion installed.

    kinds: the faults to choose from (None: all; (): none). sizes: fields of `Scenario` that are set
    and not drawn at random, such as `partitions=12, duration_ms=600_000`. play: what simulates one
    scenario. Raises ScenarioRefused for a scenario that cannot be.
    """
    if runs < 1:
        raise ScenarioRefused(f"runs must be at least 1, not {runs}.")
    draw = Draw(None if kinds is None else tuple(kinds), sizes)
    draw.scenario(first)
    tasks = max(min(runs, parallelism(spark) * 4), -(-runs // SEEDS_PER_TASK))
    return spark.range(first, first + runs, numPartitions=tasks).mapInArrow(
        rows_played(lambda seed: _dataframe_row(play_seed(seed, draw, play)), SCHEMA),
        from_arrow_schema(SCHEMA),
    )


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at once."""
    try:
        return spark.sparkContext.defaultParallelism
    except PySparkAttributeError:
        # Spark Connect shows no SparkContext, but a range has as many parts.
        parts = spark.range(1 << 16).select(F.spark_partition_id())
        return parts.distinct().count()


def summary(frame: DataFrame) -> DataFrame:
    """Return a DataFrame with the count, total, median, p99 and maximum of each of `FIGURES`.

    frame: as `seeds` returned it.
    """
    values = frame.select(*(F.col(name).cast("double").alias(name) for name in FIGURES))
    return (
        values.unpivot([], list(FIGURES), "figure", "value")
        .groupBy("figure")
        .agg(
            F.count("value").alias("seeds"),
            F.sum("value").alias("total"),
            F.percentile_approx("value", 0.5).alias("median"),
            F.percentile_approx("value", 0.99).alias("p99"),
            F.max("value").alias("most"),
        )
        .orderBy(F.array_position(F.lit(list(FIGURES)), F.col("figure")))
    )


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Provide a Spark session on that master for the command line; it stops at the end.

    Raises one of SparkError where Spark cannot start.
    """
    spark = (
        SparkSession.builder.master(master)
        .appName("apportion sim")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


def rows_played(
    play_number: Callable[[int], dict[str, Any]], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return mapInArrow's function, which plays each number that it is given to a row."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([play_number(number)], schema)

    return rows


def _dataframe_row(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of one run as a row of `SCHEMA`."""
    broken = outcome.broken
    return {
        "seed": outcome.seed,
        "steps": outcome.steps,
        "simulated_s": outcome.simulated_ms / 1_000,
        "rebalances": outcome.rebalances,
        "slowest_convergence_s": outcome.slowest_convergence_ms / 1_000,
        "longest_unowned_s": outcome.longest_unowned_ms / 1_000,
        "rows": outcome.rows,
        "commits": outcome.commits,
        "crashes": outcome.crashes,
        "digest": outcome.digest,
        "verdict": broken.law if broken else HOLDS,
        "broken_at_s": broken and broken.at_ms / 1_000,
        "why": broken and broken.why,
    }
