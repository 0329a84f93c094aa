"""Where the time of a short Spark job goes: one line for each step of a new query, and its total.

`python bench/spark_first_batch.py` reads topics of 0, 10,000 and 3,000,000 records by
trigger(availableNow=True) into the sink noop, each in a new session; the time begins with `load()`.
The processor time is that of Spark and all its Python processes from there on.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
PARTITIONS = 4
RECORDS_A_BATCH = 1_000


def main() -> None:
    """Fill the topics, run the queries, and print what they did."""
    from bench.peers.spark_home import compile_own, installed_packages, spark_home

    from apportion.client.cluster import Cluster
    from apportion.server.embedded import EmbeddedBroker
    from apportion.topics import partitions_of
    from apportion.wire.batch import encode_batch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[0, 10_000, 3_000_000])
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", action="store_true", help="print the steps of each run")
    parser.add_argument(
        "--bytecode",
        action="store_true",
        help="start Python with PySpark's bytecode, as README's Install says",
    )
    parser.add_argument("--path", help="the PYTHONPATH of Spark's processes, of another version")
    arguments = parser.parse_args()
    home = str(spark_home(installed_packages() / "pyspark")) if arguments.bytecode else None
    compile_own(ROOT / "src")
    value = os.urandom(arguments.value_bytes // 2) * 2
    records = [(b"%08d" % n, value, ()) for n in range(RECORDS_A_BATCH)]
    batch = encode_batch(records, timestamp_ms=1)
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        for rows in arguments.rows:
            partitions = partitions_of(cluster.create_topic(f"rows-{rows}", PARTITIONS))
            for number in range(rows // RECORDS_A_BATCH):
                cluster.produce(partitions[number % PARTITIONS], batch)
        cluster.close()
        for rows in arguments.rows:
            results = []
            for number in range(arguments.runs):
                query = [broker.bootstrap, str(rows), str(number)]
                result = _run(query, path=arguments.path, home=home)
                results.append(result)
                print(_line(rows, result), flush=True)
                if arguments.steps:
                    print("\n".join(result["steps"]), flush=True)
            if arguments.runs > 1:
                figures = {key: median(result[key] for result in results) for key in FIGURES}
                print("median:", _line(rows, figures), flush=True)


FIGURES = ("total_s", "first_batch_s", "cpu_s", "worker_mb")


def _line(rows: int, result: dict[str, Any]) -> str:
    return (
        f"{rows:,} rows: {result['total_s']:.2f} s from load() to the end, the first rows in the "
        f"sink after {result['first_batch_s']:.2f} s, {result['cpu_s']:.1f} s of processor time, "
        f"{result['worker_mb']:.0f} MB in a worker at the most"
    )


def _run(query: list[str], *, path: str | None, home: str | None) -> dict[str, Any]:
    """Run a query in a process of its own; return what it says and its steps.

    query: the arguments of `query` but for its directory. path: the PYTHONPATH; None: of this
    version. home: Spark's directory; None: that of the installed package.
    """
    from bench.peers.spark_home import UNWRITTEN

    with tempfile.TemporaryDirectory(prefix="apportion-bench-") as directory:
        timeline = f"{directory}/timeline"
        paths = path or f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
        environment["APPORTION_BENCH_TIMELINE"] = timeline
        environment.pop(UNWRITTEN, None)  # pip stores it, too
        if home:
            environment["SPARK_HOME"] = home
        command = [sys.executable, __file__, "--query", *query, directory]
        done = subprocess.run(
            command, env=environment, cwd=directory, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the Spark query failed:\n{done.stderr[-3000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result | _steps(Path(timeline).read_text())


def _steps(timeline: str) -> dict[str, Any]:
    """Return the lines of the timeline for people, and the largest worker."""
    lines = sorted(line.split(" ", 3) for line in timeline.splitlines())
    began = next(int(line[0]) for line in lines if line[3] == "load: begin")
    processes: dict[str, str] = {}
    steps = []
    for at, process, used, what in lines:
        name = processes.setdefault(process, f"process {len(processes) + 1}")
        after_s, used_s = (int(at) - began) / 1e9, int(used) / 1e9
        steps.append(f"{after_s:9.3f} s  {name:<12} {used_s:7.3f} s used  {what}")
    peaks = [int(what.split(", ")[1].split()[0]) for *_, what in lines if what[:9] == "read: end"]
    return {"steps": steps, "worker_mb": max(peaks, default=0)}


def query(bootstrap: str, rows: str, number: str, directory: str) -> None:
    """Run one query to its end, and print its times as JSON."""
    from bench.timed_source import TimedSource, stamp

    from demo.pipeline import session

    spark = session("first-batch")
    spark.dataSource.register(TimedSource)
    before_s, began = _used_s(), time.monotonic()
    stamp("load: begin")
    source = (
        spark.readStream.format("apportion_timed")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.group.id", f"first-{rows}-{number}")
        .option("subscribe", f"rows-{rows}")
        .option("startingOffsets", "earliest")
        .load()
    )
    stamp("load: end")
    writer = source.writeStream.format("noop").option("checkpointLocation", f"{directory}/log")
    running = writer.trigger(availableNow=True).start()
    stamp("start: end")
    running.awaitTermination()
    stamp("awaitTermination: end")
    total_s = time.monotonic() - began
    progress = [dict(json.loads(each.json)) for each in running.recentProgress]
    for each in progress:
        stamp(f"progress: {each['numInputRows']} rows, {each['timestamp']}, {each['durationMs']}")
    assert sum(each["numInputRows"] for each in progress) == int(rows), progress
    took_ms = [each["durationMs"]["triggerExecution"] for each in progress]
    with_rows = [n for n, each in enumerate(progress) if each["numInputRows"]]
    after = took_ms[with_rows[0] + 1 :] if with_rows else []
    used_s = _used_s() - before_s
    result = {"total_s": total_s, "first_batch_s": total_s - sum(after) / 1000, "cpu_s": used_s}
    print(json.dumps(result))


def _used_s() -> float:
    """Return the processor time of this process and all that come from it, also ended ones."""
    used, ticks = dict[int, int](), os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # utime, stime, cutime, cstime
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(int(field) for field in fields[11:15])
    total = 0
    for process in used:
        ancestor: int | None = process
        while ancestor is not None and ancestor != os.getpid():
            ancestor = parents.get(ancestor)
        total += used[process] if ancestor is not None else 0
    return total / ticks


if __name__ == "__main__":
    if sys.argv[1:2] == ["--query"]:
        query(*sys.argv[2:6])
    else:
        main()
