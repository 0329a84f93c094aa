"""A broker with short sessions, and a pipeline for each test."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.spark.batch_members import batch_member_of, protocol
from tests.spark.harness import Pipeline
from tests.spark.queries import rows, source, spark, started
from tests.spark.schema_registry import Registry, schema_registry

__all__ = ["batch_member_of", "protocol", "rows", "source", "spark", "started"]

SESSION = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
}
_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _quick_spark(quick_spark_home: None) -> None:
    """Every test here that starts Spark has the quick one."""


class Broker:
    """`apportion serve` as a process, which a test may kill and start again at the same place."""

    def __init__(self, path: Path) -> None:
        self._path, self._log, self.bootstrap = path, path.with_suffix(".log"), "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        settings = [
            word for name, value in SESSION.items() for word in ("--set", f"{name}={value}")
        ]
        command = [
            str(Path(sys.executable).with_name("apportion")),
            "serve",
            "--listen",
            self.bootstrap,
            "--data-dir",
            str(self._path),
        ]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *settings], stdout=subprocess.PIPE, stderr=log, text=True
            )
        ready: str = self._stdout().readline()
        assert ready.startswith("listening on "), self._log.read_text()
        self.bootstrap = ready.split()[-1]

    def _stdout(self) -> Any:
        return self.process.stdout  # a pipe; Popen's type allows for None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._stdout().close()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker(tmp_path_factory.mktemp("broker") / "data")
    yield running
    running.kill()


@pytest.fixture
def pipeline_on(tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """`pipeline_on(bootstrap, partitions)` makes one; all its applications are gone at the end."""
    pipelines: list[Pipeline] = []

    def make(bootstrap: str, partitions: int = 4) -> Pipeline:
        pipelines.append(Pipeline(tmp_path, bootstrap, f"test-{next(_numbers)}", partitions))
        return pipelines[-1]

    yield make
    for pipeline in pipelines:
        pipeline.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the test's table lies or shall lie."""
    return str(tmp_path / "table")


@pytest.fixture
def pipeline(broker: Broker, pipeline_on: Callable[..., Pipeline]) -> Pipeline:
    return pipeline_on(broker.bootstrap)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


@pytest.fixture(scope="module")
def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})
