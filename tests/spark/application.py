"""A Spark application for the failure tests: the group's records into one Delta table, with gates
where a test may hold it.

A gate is a directory. While `<gate>/closed` exists, whoever comes to the gate leaves
`<gate>/entered-<pid>` and waits. The gate `reading` stands in the executors, after the writer has
read its fences; the gate `written` in the driver, after the Delta commit and before Spark's own;
the gate `planning`, of an application with `--planning gated`, before the source is asked for the
next span. Each answer of such a source adds one byte to `planning/answered`.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from apportion.spark import delta, run
from apportion.spark.options.stream import SourceOptions
from apportion.spark.reading.admission_control import ReadLimit, suited_to_spark
from apportion.spark.source import GroupSource, GroupStreamReader

# a JVM that lives for a minute starts with a third less work
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
POLL_S: Any = 0.2  # PySpark's annotation wants an int, its code takes a float


def pass_gate(gate: Path) -> None:
    """Returns once the gate is open."""
    while (gate / "closed").exists():
        (gate / f"entered-{os.getpid()}").touch()
        time.sleep(0.05)


def gated(gate: Path) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for mapInArrow that stops at the gate and changes nothing."""

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            pass_gate(gate)
            yield batch

    return rows


def gated_source(gate: Path) -> type[GroupSource]:
    """The source under the name of `gated`, which stops at the gate when it is asked for the next
    span, and counts its answers there.
    """

    class Reader(GroupStreamReader):
        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            pass_gate(gate)
            following = super().latestOffset(start, limit)
            with (gate / "answered").open("ab") as answered:
                answered.write(b".")
            return following

    class Source(GroupSource):
        @classmethod
        def name(cls) -> str:
            return "gated"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return suited_to_spark(Reader(SourceOptions.parse(self.options)))

    return Source


def spark_session(master: str = "local[2]", **settings: str) -> SparkSession:
    """Return the session that lives in this process, or a new one. settings: of a context of its
    own, for which the living one ends.
    """
    if settings and (living := SparkSession.getActiveSession()):
        living.stop()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("apportion-test")
    fixed = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.enabled": "false",
    }
    for key, value in {**fixed, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("bootstrap", "group", "topic", "table", "checkpoint", "gates"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--starting", default="earliest")
    parser.add_argument(
        "--trigger", default="500 milliseconds", help='an interval, or "available now"'
    )
    parser.add_argument("--planning", default="free", choices=["free", "gated"])
    parser.add_argument(
        "--ending", default="stop", choices=["stop", "run"], help="query.stop(), or run(query)"
    )
    parser.add_argument("--where", help="a SQL filter")
    parser.add_argument(
        "--option", action="append", default=[], help="one more option of the source: name=value"
    )
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting: name=value")
    args = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    spark = spark_session(args.master, **dict(pair.split("=", 1) for pair in args.conf))
    name = "apportion"
    if args.planning == "gated":
        name = "gated"
        spark.dataSource.register(gated_source(Path(args.gates) / "planning"))
    source = spark.readStream.format(name).option("kafka.bootstrap.servers", args.bootstrap)
    source = (
        source.option("kafka.group.id", args.group)
        .option("subscribe", args.topic)
        .option("startingOffsets", args.starting)
    )
    for pair in args.option:
        source = source.option(*pair.split("=", 1))
    rows = source.load().selectExpr(
        "topic", "partition", "offset", "cast(value as string) as value"
    )
    rows = rows.mapInArrow(gated(Path(args.gates) / "reading"), rows.schema)
    if args.where:
        rows = rows.where(args.where)
    writer = delta.Writer(args.table)

    def write(frame: DataFrame, batch_id: int) -> None:
        writer(frame, batch_id)
        # the first batch of a checkpoint only asks the writer which table it writes to
        if batch_id > 0:
            pass_gate(Path(args.gates) / "written")

    stream = rows.writeStream.foreachBatch(write).option("checkpointLocation", args.checkpoint)
    available_now = args.trigger == "available now"
    query = (
        stream.trigger(availableNow=True)
        if available_now
        else stream.trigger(processingTime=args.trigger)
    ).start()
    print(f"started on Spark {spark.version}", flush=True)
    if args.ending == "run":
        sys.exit(run(query))
    interrupt_on(stop, query, may_end=available_now)


def interrupt_on(stop: threading.Event, query: StreamingQuery, *, may_end: bool) -> None:
    """Stops the query as Spark does, whose batch is thrown away, once the event is set."""
    while not stop.is_set():
        if query.awaitTermination(POLL_S):
            error = query.exception()
            sys.exit(f"the query failed: {error}" if error or not may_end else 0)
    query.stop()
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
