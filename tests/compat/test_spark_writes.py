"""Rows written to topics on the releases of Spark that .venv does not have: 4.0 gives the rows of a
stream one by one, and the others give Arrow.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from apportion.client.cluster import Cluster
from tests.compat.spark_releases import environment, release
from tests.spark.harness import PATIENCE_S
from tests.spark.test_topic_producer import read

__all__ = ["environment", "release"]

ROOT = Path(__file__).parents[2]


def test_a_batch_and_a_stream_are_written_to_a_topic(
    bootstrap: str, release: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    topic = f"written-{uuid4().hex[:8]}"
    cluster = Cluster(bootstrap)
    cluster.create_topic(topic, 2)
    cluster.close()
    (tmp_path / "rows").mkdir()
    row = {"key": "s", "value": "of a stream", "partition": 1}
    (tmp_path / "rows" / "one.json").write_text(json.dumps(row))
    words = [bootstrap, topic, str(tmp_path / "rows"), str(tmp_path / "checkpoint")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.compat.write_rows", *words],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert f"written by Spark {release}." in done.stdout, done.stdout + done.stderr
    found = read({"bootstrap.servers": bootstrap}, topic, 2)
    assert sorted((key, value, headers) for _, key, value, headers in found) == [
        (b"b", b"of a batch", [("h", b"1")]),
        (b"s", b"of a stream", [("h", b"1")]),
    ]
    assert {key: partition for partition, key, _, _ in found}[b"s"] == 1
