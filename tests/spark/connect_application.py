"""A program as users have it, through Spark Connect: `remote("local[2]")` to one Delta table."""

import sys

from pyspark.sql import SparkSession

from apportion.spark import delta, guard
from tests.spark.connect_server import start_patiently


def main() -> None:
    bootstrap, group, topic, table, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    events = (
        spark.readStream.format("apportion")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.group.id", group)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = guard(
        events.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
    )
    query = start_patiently(
        rows.writeStream.foreachBatch(delta.Writer(table))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
