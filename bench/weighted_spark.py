"""A skewed topic and three Spark applications: seconds for a lag, `uniform` and `lag-weighted`.

    python bench/weighted_spark.py

Not a part of `make bench`: three applications need more memory and time than its other figures
together. Each application handles HANDLED_PER_S records a second, as one does that calls a database
for each record: it waits. All records are there before the three queries start, at the same time.
The seconds are from then until the group has committed all of them.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from bench_weighted import PARTITIONS, sizes, write  # type: ignore[import-not-found]

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.topics import TopicIdPartition, partitions_of

ROOT = Path(__file__).resolve().parent.parent
APPLICATIONS = 3
HANDLED_PER_S = 2_000
IN_A_BATCH = 1_000
LONGEST_S = 300
ASSIGNORS = {  # name -> the option of the source
    "uniform": ("kafka.group.remote.assignor", "uniform"),
    "lag-weighted": ("kafka.group.local.assignors", "lag-weighted"),
}


def main() -> None:
    """Print the seconds of each topic and assignor."""
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        for name, heavy in (("half in one partition", [6]), ("half in two partitions", [3, 3])):
            topic = name.replace(" ", "-")
            partitions = partitions_of(cluster.create_topic(topic, PARTITIONS))
            counts = sizes(heavy)
            write(cluster, partitions, counts)
            for assignor in ASSIGNORS:
                seconds = seconds_until_committed(cluster, partitions, sum(counts), assignor)
                print(f"{name}, {assignor}: {seconds:.1f} s", flush=True)


def seconds_until_committed(
    cluster: Cluster, partitions: tuple[TopicIdPartition, ...], records: int, assignor: str
) -> float:
    """Return how long three applications need for all records of a topic, joining included."""
    topic = partitions[0].topic
    group = f"{topic}-{assignor}"
    with tempfile.TemporaryDirectory(prefix="apportion-bench-") as directory, ExitStack() as stack:
        for number in range(APPLICATIONS):
            place = Path(directory) / str(number)
            place.mkdir()
            stack.enter_context(application(cluster, topic, group, assignor, place))
        for number in range(APPLICATIONS):
            await_file(Path(directory) / str(number) / "ready")
        started = time.perf_counter()
        (Path(directory) / "go").touch()
        while committed(cluster, group, partitions) < records:
            if time.perf_counter() - started > LONGEST_S:
                raise RuntimeError(f"group {group} is not done in {LONGEST_S} s")
            time.sleep(0.1)
        return time.perf_counter() - started


def committed(cluster: Cluster, group: str, partitions: tuple[TopicIdPartition, ...]) -> int:
    """Return the sum of the group's committed offsets."""
    return sum(offset or 0 for offset in cluster.committed(group, partitions).values())


@contextmanager
def application(
    cluster: Cluster, topic: str, group: str, assignor: str, place: Path
) -> Iterator[None]:
    """Run a Spark application beside; it is ended at the end."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    environment |= {"PYSPARK_PYTHON": sys.executable}
    arguments = [cluster.bootstrap_servers, topic, group, assignor, str(place)]
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments],
        cwd=ROOT,
        env=environment,
        stderr=(place / "log").open("w"),
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def await_file(path: Path) -> None:
    """Return once the file is there."""
    deadline = time.monotonic() + LONGEST_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError((path.parent / "log").read_text()[-2_000:])
        time.sleep(0.05)


def query(bootstrap: str, topic: str, group: str, assignor: str, place: str) -> None:
    """Run one application: say that it is ready, wait for the others, and read for ever."""
    from pyspark.sql import DataFrame

    from demo.pipeline import session

    def handle(batch: DataFrame, _number: int) -> None:
        time.sleep(batch.count() / HANDLED_PER_S)

    spark = session(f"{group}-{Path(place).name}")
    spark.range(1).count()  # starts what the first batch would wait for
    name, value = ASSIGNORS[assignor]
    reader = (
        spark.readStream.format("apportion")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.group.id", group)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(IN_A_BATCH))
        .option(name, value)
    )
    (Path(place) / "ready").touch()
    await_file(Path(place).parent / "go")
    running = (
        reader.load()
        .writeStream.foreachBatch(handle)
        .option("checkpointLocation", f"{place}/checkpoint")
        .start()
    )
    running.awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        query(*sys.argv[1:6])
    else:
        main()
