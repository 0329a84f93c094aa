"""One Spark application of the demonstration: flights from Kafka, parsed, into a Delta table.

It runs as a process of its own; SIGTERM stops the query, which leaves the group. Version 2 adds a
column, `day_part`.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from tempfile import gettempdir
from time import monotonic, sleep

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from apportion.spark import delta
from demo.flights import COLUMNS, TEXT

FLIGHT = StructType(
    [StructField(name, StringType() if name in TEXT else IntegerType()) for name in COLUMNS]
)
BATCH_TIMEOUT_S = 10.0
# For a JVM that lives two minutes: less compilation, and a third less processor time at the start.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pipeline(source: DataFrame, version: int) -> DataFrame:
    """Return the rows of the table, as they follow from the source's rows.

    They are the columns of the flight, the topic, partition and offset of its record, its delay
    class and route, and the version.
    """
    flights = source.select(
        "topic",
        "partition",
        "offset",
        F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight"),
    )
    rows = flights.select("flight.*", "topic", "partition", "offset").select(
        "*",
        delay_class().alias("delay_class"),
        F.concat_ws("-", "origin", "dest").alias("route"),
        F.lit(version).alias("pipeline_version"),
    )
    return rows if version < 2 else rows.withColumn("day_part", day_part())


def delay_class() -> Column:
    """Return the column that says how late a flight left, in words."""
    delay = F.col("dep_delay")
    return (
        F.when(delay.isNull(), "unknown")
        .when(delay <= 0, "on time")
        .when(delay <= 15, "minor")
        .when(delay <= 60, "late")
    ).otherwise("very late")


def day_part() -> Column:
    """Return the column that says in which part of the day a flight was to leave."""
    hour = F.col("hour")
    return (
        F.when(hour < 6, "night")
        .when(hour < 12, "morning")
        .when(hour < 18, "afternoon")
        .otherwise("evening")
    )


def session(name: str) -> SparkSession:
    """Return a small local Spark: no UI, a small heap, Unix sockets to its Python workers."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"{FAST_START} -Djava.io.tmpdir={gettempdir()}",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def warm_up(spark: SparkSession, version: int) -> None:
    """Run the pipeline once on one empty record, before the query joins the group.

    The first job of a JVM takes long; the query's partitions would wait for it.
    """

    def import_modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import apportion.columns.read
        import apportion.spark.files  # noqa: F401  Spark reuses its Python workers

        return batches

    record = spark.createDataFrame(
        [(b"{}", "", 0, 0)], "value binary, topic string, partition int, offset long"
    )
    rows = pipeline(record.repartition(2), version)
    rows.mapInArrow(import_modules, rows.schema).write.format("noop").mode("overwrite").save()


def wait_for_batch(query: StreamingQuery) -> None:
    """Wait until the running batch is written, BATCH_TIMEOUT_S at most.

    A batch that is interrupted must be read again by the next owner of its partitions.
    """
    deadline_s = monotonic() + BATCH_TIMEOUT_S
    while query.isActive and query.status["isTriggerActive"] and monotonic() < deadline_s:
        sleep(0.02)


def main() -> None:
    """Run until SIGTERM, or until the query fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--name", "--bootstrap", "--group", "--topic", "--table", "--checkpoint"):
        parser.add_argument(option, required=True)
    parser.add_argument("--version", type=int, required=True)
    options = parser.parse_args()
    stop, parent = threading.Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent stops us in order
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = session(options.name)
    warm_up(spark, options.version)
    source = (
        spark.readStream.format("apportion")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("kafka.group.id", options.group)
        .option("kafka.client.id", options.name)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        pipeline(source, options.version)
        .writeStream.foreachBatch(delta.Writer(options.table))
        .option("checkpointLocation", options.checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    print("started", flush=True)
    while not stop.is_set() and os.getppid() == parent:  # without a parent it ends, too
        if query.awaitTermination(0.2):  # type: ignore[arg-type]  # it takes fractions of a second
            sys.exit(f"the query ended by itself: {query.exception()}")
    wait_for_batch(query)
    query.stop()
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
