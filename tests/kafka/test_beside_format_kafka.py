"""The same reads and writes by Spark's own Kafka source and sink and by ours have the same rows and
records, on a real Kafka. One Spark session makes all of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from apportion.testing.kafka import KafkaMissing, RealKafka, jars_of
from tests.spark.test_topic_producer import read

JOBS, FORMATS = ("batch", "stream"), ("kafka", "apportion")
ROOT = Path(__file__).parents[2]
LIMIT_S = 840  # Spark alone takes two minutes to start where others use the cores
# By partition: the offsets of the committed records. Markers of transactions and aborted records
# stand between them.
EVERYTHING = [*((0, offset) for offset in (0, 1, 2, 7, 8)), *((1, offset) for offset in (0, 1))]
EXPECTED = {
    "everything": EVERYTHING,
    "offsets": [(0, 2), (1, 0), (1, 1)],
    "times": [(0, 1), (1, 1)],
    "times by partition": [(0, 1), (0, 2), (0, 7), (0, 8), (1, 0), (1, 1)],
    "no such time": [(0, 7), (0, 8)],
    "a pattern": EVERYTHING,
    "one partition": [(1, 0), (1, 1)],
    "more tasks": EVERYTHING,
    "small tasks": EVERYTHING,
    "a stream": EVERYTHING,
}
ROWS: list[dict[str, Any]] = [
    *({"key": f"key {number}", "value": f"value {number}"} for number in range(8)),
    {"key": "", "value": ""},
    {"key": "gone", "value": None},
    {"value": "without a key", "partition": 1},
    {"key": "key 0", "value": "by hand", "partition": 1, "header": "x"},
]
WRITTEN = [
    (
        None if row.get("key") is None else row["key"].encode(),
        None if row["value"] is None else row["value"].encode(),
        [("h", b"x"), ("n", None)] if "header" in row else None,
    )
    for row in ROWS
]
"""Key, value and headers of the records that the rows become."""


@pytest.fixture
def topic(kafka: RealKafka) -> str:
    """Two partitions of records with the times 1, 2... s; three are of an aborted transaction."""
    name = f"beside-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": name}
    )
    producer.init_transactions(30)

    def transaction(partition: int, *seconds: int, commit: bool = True) -> None:
        producer.begin_transaction()
        for second in seconds:
            producer.produce(
                name,
                f"value {second}" if second != 2 else None,
                key=f"key {second}" if second != 3 else None,
                partition=partition,
                timestamp=second * 1_000,
                headers=[("h", b"x"), ("h", None)] if second == 1 else None,
            )
            producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    transaction(0, 1, 2, 3)  # offsets 0 to 2, and the marker at 3
    transaction(0, 4, 4, commit=False)  # 4 and 5, and 6
    transaction(0, 4, 5)  # 7 and 8, and 9
    transaction(1, 1, 2)
    return name


@pytest.fixture
def found(
    kafka: RealKafka, topic: str, tmp_path: Path, lane_missing: Callable[[str], NoReturn]
) -> dict[str, dict[str, Any]]:
    """The rows of each read by its name and the format; the writes are done."""
    try:
        jars = jars_of(Path(__file__).with_name("pom-spark.xml"))
    except KafkaMissing as problem:
        lane_missing(str(problem))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    written = [NewTopic(f"{topic}-{job}-{format}", 2, 1) for job in JOBS for format in FORMATS]
    for created in admin.create_topics(written).values():
        created.result()
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "all.json").write_text("\n".join(map(json.dumps, ROWS)))
    options = {
        "bootstrap": kafka.bootstrap,
        "topic": topic,
        "jars": str(jars),
        "directory": str(tmp_path),
        "rows": str(rows),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.same_job", *words],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    printed: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return printed


def test_the_same_job_has_the_same_rows_and_records_as_with_sparks_own(
    found: dict[str, dict[str, Any]], kafka: RealKafka, topic: str
) -> None:
    assert {name: rows["apportion"] for name, rows in found.items()} == {
        name: rows["kafka"] for name, rows in found.items()
    }
    assert {
        name: [(row["partition"], row["offset"]) for row in rows["apportion"]]
        for name, rows in found.items()
    } == EXPECTED
    config = {"bootstrap.servers": kafka.bootstrap}
    for job in JOBS:
        # By partition, in the order of the offsets.
        sparks, ours = (read(config, f"{topic}-{job}-{format}", 2) for format in FORMATS)
        assert ours == sparks
        assert sorted(map(repr, (record[1:] for record in ours))) == sorted(map(repr, WRITTEN))
