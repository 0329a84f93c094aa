"""The same reads and writes by Spark's own Kafka source and sink and by ours, in one Spark session
with its jars.

Prints, as JSON by the name of a read and the format, the rows in order. The writes are read back by
the test.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.spark.application import spark_session

FORMATS = ("kafka", "apportion")
JARS = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
COLUMNS = (
    "topic",
    "partition",
    "offset",
    "hex(key) as key",
    "hex(value) as value",
    "unix_millis(timestamp) as timestamp",
    "timestampType",
    "transform(headers, each -> struct(each.key, hex(each.value) as value)) as headers",
)
WRITTEN = (
    "key",
    "value",
    "partition",
    "if(header is null, null, array("
    "struct('h' AS key, cast(header AS binary) AS value), "
    "struct('n' AS key, cast(null AS binary) AS value))) AS headers",
)


def reads(topic: str) -> dict[str, dict[str, str]]:
    """The options of each read, by its name."""
    bounds = {
        "startingOffsets": f'{{"{topic}":{{"0":2,"1":-2}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":5,"1":-1}}}}',
    }
    by_partition = f'{{"{topic}":{{"0":2000,"1":1000}}}}'
    return {
        "everything": {"subscribe": topic},
        "offsets": {"subscribe": topic, **bounds},
        "times": {"subscribe": topic, "startingTimestamp": "1500", "endingTimestamp": "3000"},
        "times by partition": {"subscribe": topic, "startingOffsetsByTimestamp": by_partition},
        "no such time": {
            "subscribe": topic,
            "startingTimestamp": "4000",
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "a pattern": {"subscribePattern": f"{topic}|none"},
        "one partition": {"assign": f'{{"{topic}":[1]}}'},
        "more tasks": {"subscribe": topic, "minPartitions": "5"},
        "small tasks": {"subscribe": topic, "maxRecordsPerPartition": "2"},
    }


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    rows = [row.asDict(recursive=True) for row in frame.selectExpr(*COLUMNS).collect()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def stream_of(spark: SparkSession, format: str, options: dict[str, str], path: Path) -> DataFrame:
    """What a stream reads until it has all that is there, from a table of Parquet files."""
    query = (
        spark.readStream.format(format)
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(path / "table"))
    )
    assert query.awaitTermination(300), query.status
    return spark.read.parquet(str(path / "table"))


def write(spark: SparkSession, format: str, topic: str, bootstrap: str, path: Path) -> None:
    """Write the rows of the files in `path` to two topics, as a batch and as a stream."""
    columns = "key string, value string, partition int, header string"
    options = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.read.schema(columns).json(str(path)).coalesce(1).selectExpr(*WRITTEN)
    batch = rows.write.format(format).mode("append").options(**options)
    batch.option("topic", f"{topic}-batch-{format}").save()
    stream = spark.readStream.schema(columns).json(str(path)).coalesce(1).selectExpr(*WRITTEN)
    query = (
        stream.writeStream.format(format)
        .options(**options)
        .option("topic", f"{topic}-stream-{format}")
        .option("checkpointLocation", str(path.with_name(f"writes-{format}")))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300), query.status


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("bootstrap", "topic", "jars", "directory", "rows"):
        parser.add_argument(f"--{option}", required=True)
    args = parser.parse_args()
    jars = [str(jar) for jar in Path(args.jars).iterdir() if jar.name.startswith(JARS)]
    spark = spark_session(**{"spark.jars": ",".join(jars)})
    shared = {
        "kafka.bootstrap.servers": args.bootstrap,
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
    }
    found: dict[str, dict[str, Any]] = {}
    for name, options in reads(args.topic).items():
        found[name] = {
            format: rows_of(spark.read.format(format).options(**shared, **options).load())
            for format in FORMATS
        }
    stream = {**shared, "subscribe": args.topic, "startingOffsets": "earliest"}
    found["a stream"] = {
        format: rows_of(
            stream_of(
                spark,
                format,
                stream | ({"kafka.group.id": args.topic} if format == "apportion" else {}),
                Path(args.directory) / format,
            )
        )
        for format in FORMATS
    }
    for format in FORMATS:
        write(spark, format, args.topic, args.bootstrap, Path(args.rows))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
