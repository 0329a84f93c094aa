"""One Spark application of the demonstration: flights from Kafka, parsed, into a Delta table.

It runs as a process of its own; at SIGTERM the query finishes its batch and leaves the group.
Version 2 adds a column, `day_part`.
"""

import argparse
import os
import sys
from tempfile import gettempdir

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from apportion.spark import delta, run
from demo.flights import COLUMNS, TEXT
from demo.host import end_with_parent
from demo.node import FAST_START
from demo.standalone import EXECUTOR_MEMORY_MB

FLIGHT = StructType(
    [StructField(name, StringType() if name in TEXT else IntegerType()) for name in COLUMNS]
)
LOCAL = "local[2]"


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


def session(name: str, master: str = LOCAL) -> SparkSession:
    """Return a small Spark: no UI, small heaps, Unix sockets to its Python workers."""
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
    if master != LOCAL:
        settings |= executor_settings()
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def executor_settings() -> dict[str, str]:
    """Return the settings for a cluster on this host, whose Workers know nothing of apportion.

    The application gets two executors of one core, on two Workers as long as there are two.
    """
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": f"{EXECUTOR_MEMORY_MB}m",
        "spark.executor.extraJavaOptions": f"{FAST_START} -Djava.io.tmpdir={gettempdir()}",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }


def main() -> None:
    """Run until SIGTERM, or until the query fails; exit with the code that says which."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--name", "--bootstrap", "--group", "--topic", "--table", "--checkpoint"):
        parser.add_argument(option, required=True)
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--master", default=LOCAL)
    options = parser.parse_args()
    end_with_parent()
    spark = session(options.name, options.master)
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
    sys.exit(run(query))


if __name__ == "__main__":
    main()
