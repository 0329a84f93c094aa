"""README's Spark application runs as it is pasted, also while its table is compacted."""

import os
import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from apportion.broker import EmbeddedBroker
from tests.spark.harness import until

README = Path(__file__).parents[2] / "README.md"
RECORDS = 200


def rows(table: Path) -> int:
    """The rows of a table that may not be there yet."""
    try:
        count: int = DeltaTable(str(table)).to_pyarrow_table().num_rows
    except TableNotFoundError:
        return 0
    return count


def test_the_application_writes_the_topic_into_its_table(tmp_path: Path) -> None:
    code = next(
        block
        for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        if "SparkSession" in block
    )
    with EmbeddedBroker(num_partitions=2) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

        def produce() -> None:
            for number in range(RECORDS):
                producer.produce("flights", str(number).encode())
            producer.flush()

        produce()
        script = tmp_path / "job.py"
        script.write_text(code.replace("localhost:9092", broker.bootstrap))
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        with (tmp_path / "log").open("wb") as log:
            job = subprocess.Popen(
                [sys.executable, str(script)],
                cwd=tmp_path,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            table = tmp_path / "lake" / "flights"
            until(lambda: rows(table) >= RECORDS or job.poll() is not None, what="the rows")
            assert (job.poll(), rows(table)) == (None, RECORDS), (tmp_path / "log").read_text()[
                -4000:
            ]
            # as docs/spark.md says: files are joined, fences stay
            DeltaTable(str(table)).optimize.compact()
            produce()
            until(lambda: rows(table) >= 2 * RECORDS or job.poll() is not None, what="more rows")
            assert (job.poll(), rows(table)) == (None, 2 * RECORDS), (tmp_path / "log").read_text()[
                -4000:
            ]
            job.terminate()
            assert job.wait(60) == 0, (tmp_path / "log").read_text()[-4000:]
        finally:
            job.kill()
