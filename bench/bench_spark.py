"""The Spark source on two cores: into the noop sink, and JSON flights into a Delta table.

The broker runs in this process; Spark in another, which prints what its batches took. Rows a second
are rows over the time of `addBatch`, the median of the full batches but for the first.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from demo.flights import flights, message

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 4
ROWS_A_BATCH = 1_000_000
BATCHES = 4


def run() -> list[dict[str, Any]]:
    """Return the rows spark_noop_mrows_s and spark_delta_mrows_s."""
    with (
        tempfile.TemporaryDirectory(prefix="apportion-bench-") as directory,
        EmbeddedBroker() as broker,
    ):
        cluster = Cluster(broker.bootstrap)
        plain = [
            encode_batch(
                [(b"%08d" % n, os.urandom(50) * 2, ()) for n in range(1_000)], timestamp_ms=1
            )
        ]
        _fill(cluster, "plain", plain, BATCHES * ROWS_A_BATCH // 1_000)
        sample = list(flights(100_000))
        events = [
            encode_batch(
                [(*message(flight), ()) for flight in sample[at : at + 1_000]],
                timestamp_ms=1,
                compression=3,
            )
            for at in range(0, len(sample), 1_000)
        ]
        _fill(cluster, "events", events, 8 * len(events))
        cluster.close()
        noop = _rows_per_second(broker.bootstrap, "plain", "noop", ROWS_A_BATCH, directory)
        delta = _rows_per_second(broker.bootstrap, "events", "delta", 200_000, directory)
    return [
        {
            "name": "spark_noop_mrows_s",
            "value": noop / 1e6,
            "unit": "Mrows/s",
            "target": 1.2,
            "better": "higher",
        },
        {
            "name": "spark_delta_mrows_s",
            "value": delta / 1e6,
            "unit": "Mrows/s",
            "target": None,
            "better": "higher",
        },
    ]


def _fill(cluster: Cluster, name: str, batches: list[bytes], count: int) -> None:
    """Create a topic and produce `count` batches, spread over its partitions."""
    partitions = partitions_of(cluster.create_topic(name, PARTITIONS))
    for number in range(count):
        cluster.produce(partitions[number % PARTITIONS], batches[number % len(batches)])


def _rows_per_second(
    bootstrap: str, topic: str, sink: str, max_offsets: int, directory: str
) -> float:
    """Return rows a second of a query: the median of its full batches after the first."""
    command = [
        sys.executable,
        str(Path(__file__)),
        bootstrap,
        topic,
        sink,
        str(max_offsets),
        f"{directory}/{sink}",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the Spark query failed:\n{done.stderr[-2000:]}")
    batches = json.loads(done.stdout.splitlines()[-1])
    rates = [rows / (took_ms / 1000) for rows, took_ms in batches if rows == max_offsets][1:]
    return float(median(rates))


def query(bootstrap: str, topic: str, sink: str, max_offsets: str, path: str) -> None:
    """Run one query to its end, and print rows and milliseconds of its batches as JSON."""
    from apportion.spark import delta
    from demo.pipeline import pipeline, session

    reader = (
        session(f"bench-{sink}")
        .readStream.format("apportion")
        .option("kafka.bootstrap.servers", bootstrap)
    )
    reader = (
        reader.option("kafka.group.id", sink)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    source = reader.option("maxOffsetsPerTrigger", max_offsets).load()
    if sink == "noop":
        writer = source.writeStream.format("noop")
    else:
        writer = pipeline(source, 2).writeStream.foreachBatch(delta.Writer(f"{path}/table"))
    running = (
        writer.option("checkpointLocation", f"{path}/checkpoint").trigger(availableNow=True).start()
    )
    running.awaitTermination()
    print(
        json.dumps(
            [
                (progress["numInputRows"], progress["durationMs"]["addBatch"])
                for progress in running.recentProgress
                if progress["numInputRows"]
            ]
        )
    )


if __name__ == "__main__":
    query(*sys.argv[1:6])
