"""One Spark application of the demonstration: flights from the group, parsed and classed, into one
Delta table, each once.

Run as a process of its own; SIGTERM stops the query, which leaves the group. Version 2 has one more
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
DRAIN_S = 10.0
# a JVM that lives for two minutes starts with a third less work so
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pipeline(source: DataFrame, version: int) -> DataFrame:
    """Rows of the table: the flight's columns, where its record came from, its delay class and
    route, and the version.
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
    """How late the flight left."""
    delay = F.col("dep_delay")
    return (
        F.when(delay.isNull(), "unknown")
        .when(delay <= 0, "on time")
        .when(delay <= 15, "minor")
        .when(delay <= 60, "late")
    ).otherwise("very late")


def day_part() -> Column:
    """When on its day the flight was to leave."""
    hour = F.col("hour")
    return (
        F.when(hour < 6, "night")
        .when(hour < 12, "morning")
        .when(hour < 18, "afternoon")
        .otherwise("evening")
    )


def session(name: str) -> SparkSession:
    """A small local Spark: no UI, small heap, Unix-domain sockets to its Python workers."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"{QUICK} -Djava.io.tmpdir={gettempdir()}",
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


def warm(spark: SparkSession, version: int) -> None:
    """Spark has run the pipeline once, on nothing, before it is given partitions: the first job of
    a JVM takes long.
    """

    def loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import apportion.columns.read
        import apportion.spark.files  # noqa: F401  a Python worker keeps what it has imported

        return batches

    record = spark.createDataFrame(
        [(b"{}", "", 0, 0)], "value binary, topic string, partition int, offset long"
    )
    rows = pipeline(record.repartition(2), version)
    rows.mapInArrow(loaded, rows.schema).write.format("noop").mode("overwrite").save()


def drain(query: StreamingQuery) -> None:
    """The batch that ran is written, or DRAIN_S are over: what is cut short must be read again by
    the next owner.
    """
    until_s = monotonic() + DRAIN_S
    while query.isActive and query.status["isTriggerActive"] and monotonic() < until_s:
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the director's: it stops us in order
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = session(options.name)
    warm(spark, options.version)
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
    while not stop.is_set() and os.getppid() == parent:  # nobody's application ends too
        if query.awaitTermination(0.2):  # type: ignore[arg-type]  # it takes fractions of a second
            sys.exit(f"the query ended by itself: {query.exception()}")
    drain(query)
    query.stop()
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
