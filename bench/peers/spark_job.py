"""One Spark session that does some jobs with one source, and prints a figure for each as JSON."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

LIMIT_S: Any = 240  # PySpark's annotation wants an int
LOOK_S = 0.05  # a look takes processor time of the two cores, so that no time is read by looking
ROWS_A_BATCH, FLIGHTS_A_BATCH = 1_000_000, 200_000
WARM_RECORDS, RECORDS = 5, 15


class Source(NamedTuple):
    """What is read and where a job may write. format: "apportion", or "kafka" for the connector."""

    spark: SparkSession
    format: str
    bootstrap: str
    directory: Path

    def rows(self, topic: str, job: str, max_offsets: int | None = None) -> DataFrame:
        """Return the stream of a topic, from its beginning."""
        reader = (
            self.spark.readStream.format(self.format)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
        )
        if self.format == "apportion":
            reader = reader.option("kafka.group.id", f"{job}-{self.directory.name}")
        if max_offsets:
            reader = reader.option("maxOffsetsPerTrigger", max_offsets)
        return reader.load()

    def started(self, writer: DataStreamWriter, job: str) -> StreamingQuery:
        """Start a query with a checkpoint of its own."""
        return writer.option(
            "checkpointLocation", str(self.directory / f"checkpoint-{job}")
        ).start()


def first_batch(source: Source) -> float:
    """Return the seconds until the first batch of a query is done."""
    begun = time.time()
    rows = source.rows("few", "first")
    query = source.started(rows.writeStream.format("noop"), "first")
    took = end_of_rows(query, 1) - begun
    query.stop()
    return took


def one_row(source: Source) -> float:
    """Return the seconds from a record's acknowledgement to the end of its batch, a median."""
    rows = records_of(source, "single")
    query = source.started(source.rows("single", "one-row").writeStream.format("noop"), "one-row")
    producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 0})
    took = []
    for number in range(-WARM_RECORDS, RECORDS):
        end_of_rows(query, rows)
        producer.produce("single", b"x" * 100)
        producer.flush()
        begun, rows = time.time(), rows + 1
        ended = end_of_rows(query, rows)
        if number >= 0:
            took.append(ended - begun)
    query.stop()
    return median(took)


def records_of(source: Source, topic: str) -> int:
    """Return how many records a topic has."""
    consumer = Consumer({"bootstrap.servers": source.bootstrap, "group.id": "nobody"})
    partitions = consumer.list_topics(topic, LIMIT_S).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, each)) for each in partitions]
    consumer.close()
    return sum(end for _, end in ends)


def end_of_rows(query: StreamingQuery, rows: int) -> float:
    """Wait until the query's batches have had so many rows; return when the last of them ended.

    In seconds since the epoch, by Spark's own clock. Ends the process if the rows do not come.
    """
    deadline = time.perf_counter() + LIMIT_S
    while True:
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
        if sum(batch["numInputRows"] for batch in batches) >= rows:
            return end_of_batch(batches[-1])
        if query.exception() or time.perf_counter() > deadline:
            sys.exit(f"the query had no {rows} rows within {LIMIT_S} s: {query.exception()}")
        time.sleep(LOOK_S)


def end_of_batch(progress: Mapping[str, Any]) -> float:
    """Return when a batch ended, in seconds since the epoch: its start and how long it took."""
    started = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return started + float(progress["durationMs"]["triggerExecution"]) / 1_000


def available_now(topic: str, source: Source) -> float:
    """Return the seconds of a whole query over all rows of a topic."""
    begun = time.perf_counter()
    rows = source.rows(topic, "available")
    writer = rows.writeStream.format("noop").trigger(availableNow=True)
    wait_for_end(source.started(writer, "available"))
    return time.perf_counter() - begun


def noop(topic: str, source: Source) -> float:
    """Return the rows a second of full batches into the noop sink."""
    rows = source.rows(topic, f"noop-{topic}", ROWS_A_BATCH)
    writer = rows.writeStream.format("noop").trigger(availableNow=True)
    return rows_a_second(source.started(writer, f"noop-{topic}"), ROWS_A_BATCH)


def delta_table(source: Source) -> float:
    """Return the rows a second of full batches of parsed flights into a Delta table."""
    from apportion.spark import delta
    from demo.pipeline import pipeline

    table = str(source.directory / "table")
    writer = pipeline(source.rows("flights", "delta", FLIGHTS_A_BATCH), 2).writeStream
    if source.format == "apportion":
        writer = writer.foreachBatch(delta.Writer(table))
    else:
        writer = writer.format("delta").option("path", table)
    query = source.started(writer.trigger(availableNow=True), "delta")
    return rows_a_second(query, FLIGHTS_A_BATCH)


def rows_a_second(query: StreamingQuery, rows: int) -> float:
    """Return the median of the full batches after the first, over the time of addBatch."""
    wait_for_end(query)
    took_ms = [
        progress["durationMs"]["addBatch"]
        for progress in query.recentProgress
        if progress["numInputRows"] == rows
    ]
    if len(took_ms) < 2:
        sys.exit(f"the query had {len(took_ms)} batches of {rows:,} rows; it needs 2 or more")
    return rows / float(median(took_ms[1:])) * 1_000


def wait_for_end(query: StreamingQuery) -> None:
    """Wait for the end of the query; end the process if it does not come."""
    if not query.awaitTermination(LIMIT_S):
        sys.exit(f"the query did not end within {LIMIT_S} s: {query.status}")


JOBS: dict[str, Callable[[Source], float]] = {
    "spark_first_batch": first_batch,
    "spark_one_row": one_row,
    "spark_noop_plain": partial(noop, "plain"),
    "spark_noop_lz4": partial(noop, "lz4"),
    "spark_available_now_0": partial(available_now, "none"),
    "spark_available_now_10k": partial(available_now, "few"),
    "spark_available_now_3m": partial(available_now, "plain"),
    "spark_delta": delta_table,
}


def session(settings: dict[str, str]) -> SparkSession:
    """Return a session on two cores, with Spark's own settings but for a quiet console."""
    builder = SparkSession.builder.master("local[2]").appName("peers")
    shared = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "2g",
    }
    for name, value in (shared | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    """Do the jobs of the command line, in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--format", "--bootstrap", "--directory"):
        parser.add_argument(option, required=True)
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("jobs", nargs="+", choices=JOBS)
    options = parser.parse_args()
    spark = session(options.settings)
    source = Source(spark, options.format, options.bootstrap, Path(options.directory))
    print(json.dumps({name: JOBS[name](source) for name in options.jobs}), flush=True)


if __name__ == "__main__":
    main()
