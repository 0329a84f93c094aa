"""A program that writes the rows of a batch, and those of files as a stream, to a topic."""

import sys

from tests.spark.application import spark_session


def main(bootstrap: str, topic: str, rows: str, checkpoint: str) -> None:
    """rows: a directory with files of JSON."""
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    spark = spark_session()
    headers = "array(struct('h' AS key, cast('1' AS binary) AS value)) AS headers"
    batch = spark.createDataFrame([("b", "of a batch")], "key string, value string")
    batch = batch.selectExpr("key", "value", headers)
    batch.write.format("apportion").mode("append").options(**options).save()
    stream = spark.readStream.schema("key string, value string, partition int").json(rows)
    query = (
        stream.selectExpr("key", "cast(value AS binary) AS value", "partition", headers)
        .writeStream.format("apportion")
        .options(**options)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"written by Spark {spark.version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
