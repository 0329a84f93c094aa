"""A real Spark cluster: a Master and two Workers, processes of pip's PySpark with a core each."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery
from apportion.wire.messages.consumer_group_describe import DescribedGroup
from demo import host
from demo.play import scratch_directory
from demo.standalone import StandaloneCluster
from tests.spark.application import QUICK_JVM
from tests.spark.harness import ROOT, SPARK_SUBMIT, Pipeline, until
from tests.spark.packed_environment import pack

if TYPE_CHECKING:
    from tests.spark.conftest import Broker

WORKERS = ("worker-1", "worker-2")
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.ui.enabled": "false",
}

JOB = """
import sys

from pyspark.sql import SparkSession

from apportion.spark import delta

bootstrap, group, topic, table, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
places = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("apportion").__file__)
print("apportion of the executors:", *places.collect())
events = (
    spark.readStream.format("apportion")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("kafka.group.id", group)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
)
query = (
    events.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
    .writeStream.foreachBatch(delta.Writer(table))
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
"""


PARENT = """
import subprocess, sys

subprocess.run([sys.executable, "-m", "demo.node", *sys.argv[1:]])
"""
JVM = "java -cp"  # of a node, when spark-class has made the command


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with scratch_directory() as scratch:
        made = StandaloneCluster(tmp_path_factory.mktemp("cluster"), scratch, cores=1)
        try:
            for name in WORKERS:
                made.add_worker(name)
            until(lambda: made.cores_by_worker() == [0, 0], what="two Workers")
            yield made
        finally:
            made.end()


def test_an_archive_brings_apportion_to_workers_that_do_not_have_it(
    spark_cluster: StandaloneCluster, pipeline: Pipeline, tmp_path: Path
) -> None:
    try:
        pack(tmp_path / "environment")
        (tmp_path / "job.py").write_text(JOB)
        pipeline.produce(400)
        settings = {**SETTINGS, "spark.cores.max": "1", "spark.driver.memory": "512m"}
        ended = subprocess.run(
            [
                SPARK_SUBMIT,
                *("--master", spark_cluster.url, "--archives", "environment.tar.gz#environment"),
                *(word for pair in settings.items() for word in ("--conf", "=".join(pair))),
                *("job.py", pipeline.bootstrap, pipeline.group, pipeline.topic),
                *(str(pipeline.table), str(tmp_path / "checkpoint")),
            ],
            cwd=tmp_path,
            env={
                **{
                    name: value
                    for name, value in os.environ.items()
                    if name not in ("PYTHONPATH", "SPARK_HOME")
                },
                "PYSPARK_PYTHON": "./environment/bin/python",
            },
            capture_output=True,
            text=True,
        )
    finally:
        shutil.rmtree(tmp_path / "environment")
        (tmp_path / "environment.tar.gz").unlink()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (place,) = ended.stdout.split("apportion of the executors: ")[1].splitlines()[:1]
    assert any(
        Path(place).is_relative_to(spark_cluster.work_directory(name)) for name in WORKERS
    ), place
    assert pipeline.rows() == pipeline.expected()


def test_a_query_goes_on_without_a_worker_that_was_killed_amid_a_batch(
    spark_cluster: StandaloneCluster, broker: "Broker", tmp_path: Path
) -> None:
    pipeline = Pipeline(tmp_path, broker.bootstrap, "lost-worker", 4)
    try:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        application = pipeline.start(
            "a",
            master=spark_cluster.url,
            planning="gated",
            source={"minPartitions": "2"},
            spark={**SETTINGS, "spark.executorEnv.PYTHONPATH": path},
        )
        until_both_run_tasks(spark_cluster, pipeline)
        pipeline.until_written()
        before = described(pipeline)
        application.close_gate("planning")
        application.wait_at("planning")
        application.close_gate("reading")
        pipeline.produce(400)
        application.open_gate("planning")
        application.wait_at("reading", processes=2)
        on_the_worker = {process.pid for process in spark_cluster.nodes["worker-2"].processes()}
        assert len(application.processes_at("reading") & on_the_worker) == 1
        spark_cluster.lose_worker("worker-2")
        until(lambda: spark_cluster.cores_by_worker() == [1], what="the Master to notice")
        application.open_gate("reading")
        pipeline.until_written()
        pipeline.produce(400)
        pipeline.until_written()
        assert described(pipeline) == before
        application.stop()
        assert pipeline.rows() == pipeline.expected()
    finally:
        pipeline.close()


def until_both_run_tasks(spark_cluster: StandaloneCluster, pipeline: Pipeline) -> None:
    """Produce events until both executors have Python workers."""

    def have_python_workers() -> bool:
        pipeline.produce(4)
        return all(
            any("pyspark.daemon" in line for line in spark_cluster.nodes[name].command_lines())
            for name in WORKERS
        )

    until(have_python_workers, what="tasks on both Workers", also=pipeline.applications)


def described(pipeline: Pipeline) -> DescribedGroup:
    """The group with its epoch, its members and their assignments."""
    query = ConsumerGroupDescribeQuery(pipeline.group)
    return pipeline.cluster.ask_coordinator(query, timeout_ms=10_000)


def test_a_node_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *master],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    until(lambda: any(JVM in line for line in host.command_lines(parent.pid)), what="the Master")
    started = host.processes(parent.pid)
    parent.kill()
    parent.wait()
    _, left = psutil.wait_procs(started, timeout=60)
    assert (len(started) >= 3, left) == (True, [])
