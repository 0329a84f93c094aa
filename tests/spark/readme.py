"""README's Spark application as a program, which runs as it is pasted."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery
from apportion.topics import partitions_of
from tests.spark.harness import ROOT, until

GROUP, TOPIC, TABLE = "flights-etl", "flights", "lake/flights"
RECORDS = 200


def program() -> str:
    """Return the first block of Python in README that starts Spark."""
    text = (ROOT / "README.md").read_text()
    blocks: list[str] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if "SparkSession" in block)


def row_count(table: Path) -> int:
    """Return the rows of a table that may not be there yet."""
    try:
        count: int = DeltaTable(str(table)).to_pyarrow_table().num_rows
    except TableNotFoundError:
        return 0
    return count


def compact(table: Path) -> None:
    """Join the table's files, as docs/spark.md says: the fences stay."""
    DeltaTable(str(table)).optimize.compact()


def play(
    directory: Path,
    environment: Mapping[str, str],
    between: Callable[[Path], object] = lambda table: None,
) -> None:
    """Run the application in the directory, twice give it records, and end it by SIGTERM.

    It must write each record, commit all of them, leave the group, and end with code 0.
    between: called with the table when it has the first records.
    """
    script, log, table = directory / "job.py", directory / "log", directory / TABLE
    with EmbeddedBroker(num_partitions=2) as broker, closing(Cluster(broker.bootstrap)) as cluster:
        partitions = partitions_of(cluster.create_topic(TOPIC, 2))
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        script.write_text(program().replace("localhost:9092", broker.bootstrap))
        with log.open("wb") as output:
            job = subprocess.Popen(
                [sys.executable, str(script)],
                cwd=directory,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        def said() -> str:
            return log.read_text(errors="replace")[-4000:]

        def write_records(expected: int) -> None:
            for number in range(RECORDS):
                producer.produce(TOPIC, str(number).encode())
            producer.flush()
            until(lambda: row_count(table) >= expected or job.poll() is not None, what="the rows")
            assert (job.poll(), row_count(table)) == (None, expected), said()

        try:
            write_records(RECORDS)
            between(table)
            write_records(2 * RECORDS)
            job.terminate()
            assert job.wait(60) == 0, said()
        finally:
            job.kill()
        committed = sum(each or 0 for each in cluster.committed(GROUP, partitions).values())
        group = cluster.ask_coordinator(ConsumerGroupDescribeQuery(GROUP))
        assert (committed, group.members) == (2 * RECORDS, ()), said()
