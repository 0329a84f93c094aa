"""Spark: apportion's source and Spark's own Kafka source read the same topics of one broker."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from bench.peers.brokers import Brokers
from bench.peers.bulk import PARTITIONS, shared_settings
from bench.peers.downloads import jars, python_packages
from bench.peers.rounds import Samples, Say, interleaved
from bench.peers.rows import OURS, SPARK_4_2, PeerMissing
from bench.peers.spark_home import UNWRITTEN, compile_own, installed_packages, spark_home
from confluent_kafka.admin import AdminClient

from apportion.client.cluster import Cluster
from apportion.testing.kafka import last_lines
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from demo.flights import flights, message

ROOT = Path(__file__).parents[2]
CONNECTOR_JARS = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
DELTA_JARS = ("delta-", "unitycatalog-")  # Spark has the others
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
RECORDS_A_BATCH = 1_000
ROWS, FEW, FLIGHTS, DIFFERENT_FLIGHTS = 3_000_000, 10_000, 800_000, 100_000
LZ4 = 3
LIMIT_S = 600
FORMATS = {OURS: "apportion", "connector": "kafka"}
TOPICS = {
    "spark_first_batch": "few",
    "spark_one_row": "single",
    "spark_noop_plain": "plain",
    "spark_noop_lz4": "lz4",
    "spark_available_now_0": "none",
    "spark_available_now_10k": "few",
    "spark_available_now_3m": "plain",
    "spark_delta": "flights",
}
"""The topic of each job."""

WARM_UP = "none: each round is a new Spark; only where a row says so its first batch is left out"


def measure(jobs: Sequence[str], brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Measure the rows of these names, which one session of each round has in this order."""
    bootstrap = brokers.get(OURS).bootstrap
    fill_topics(bootstrap, jobs)

    def play(side: str) -> dict[str, float]:
        compile_own(ROOT / "src")  # in the round, where a failure ends no other measurement
        settings, environment = needs(side, with_delta="spark_delta" in jobs)
        with tempfile.TemporaryDirectory(prefix="peers-spark-") as directory:
            command = [sys.executable, "-m", "bench.peers.spark_job", *jobs]
            command += ["--format", FORMATS[side], "--bootstrap", bootstrap]
            command += ["--directory", directory, "--settings", json.dumps(settings)]
            return figures_of(command, environment)

    return interleaved({side: partial(play, side) for side in FORMATS}, rounds, say)


def needs(side: str, *, with_delta: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of Spark and the environment of one side. Raises PeerMissing."""
    path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    settings: dict[str, str] = {}
    found = []
    packages = installed_packages()
    if side == "connector":
        found += jars_of(jars("pom-spark.xml"), CONNECTOR_JARS)
    if with_delta:  # both on the release that Delta's own writer supports
        packages = python_packages(SPARK_4_2)
        path.insert(0, str(packages))
        if side == "connector":
            found += jars_of(jars("pom-delta.xml"), DELTA_JARS)
            settings |= DELTA_SETTINGS
    if found:
        settings["spark.jars"] = ",".join(found)
    environment = {name: value for name, value in os.environ.items() if name != UNWRITTEN}
    environment |= {
        "SPARK_HOME": str(spark_home(packages / "pyspark")),  # both, as README has it installed
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PYSPARK_PYTHON": sys.executable,
    }
    return settings, environment


def jars_of(directory: Path, names: tuple[str, ...]) -> list[str]:
    """Return the jars whose names begin so."""
    return sorted(str(jar) for jar in directory.iterdir() if jar.name.startswith(names))


def figures_of(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Return what the job prints. Raises PeerMissing with its last lines if it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        raise PeerMissing(f"the Spark job failed: {last_lines(done.stderr, 8)}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def fill_topics(bootstrap: str, jobs: Sequence[str]) -> None:
    """Create and fill the topics that the jobs read, unless they are there."""
    contents: dict[str, tuple[Callable[[], list[bytes]], int]] = {
        "plain": (partial(hundred_bytes, 0), ROWS),
        "lz4": (partial(hundred_bytes, LZ4), ROWS),
        "none": (partial(hundred_bytes, 0), 0),
        "few": (partial(hundred_bytes, 0), FEW),
        "single": (partial(hundred_bytes, 0), RECORDS_A_BATCH),
        "flights": (flight_batches, FLIGHTS),
    }
    there = AdminClient({**shared_settings(bootstrap)}).list_topics(timeout=LIMIT_S).topics
    cluster = Cluster(bootstrap)
    for topic in sorted({TOPICS[job] for job in jobs} - set(there)):
        batches, rows = contents[topic]
        partitions = partitions_of(cluster.create_topic(topic, PARTITIONS))
        for number, batch in enumerate(islice(cycle(batches()), rows // RECORDS_A_BATCH)):
            cluster.produce(partitions[number % PARTITIONS], batch)
    cluster.close()


def hundred_bytes(compression: int) -> list[bytes]:
    """Return one batch of records with keys of 8 bytes and values of 100, half of it random."""
    records = [(b"%08d" % number, os.urandom(50) * 2, ()) for number in range(RECORDS_A_BATCH)]
    return [encode_batch(records, timestamp_ms=1, compression=compression)]


def flight_batches() -> list[bytes]:
    """Return different flights in batches, as JSON, lz4."""
    sample = list(flights(DIFFERENT_FLIGHTS))
    return [
        encode_batch(
            [(*message(flight), ()) for flight in sample[at : at + RECORDS_A_BATCH]],
            timestamp_ms=1,
            compression=LZ4,
        )
        for at in range(0, len(sample), RECORDS_A_BATCH)
    ]
