"""Queries of one Spark session that are stopped in order, from wherever they are."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from apportion.broker import EmbeddedBroker
from apportion.spark import delta, run, stop
from tests.spark.harness import PATIENCE_S, Pipeline, until
from tests.spark.queries import Started


class Gate:
    """A function for foreachBatch, around the table's writer, at which a batch can be held."""

    def __init__(self, path: Path) -> None:
        self._writer = delta.Writer(str(path))
        self.entered, self._open = threading.Event(), threading.Event()
        self.open()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self._writer(frame, batch_id)
        if not self._open.is_set():
            self.entered.set()
            self._open.wait()

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.clear()


@pytest.fixture
def gate(pipeline: Pipeline) -> Iterator[Gate]:
    made = Gate(pipeline.table)
    yield made
    made.open()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What apportion has logged; py4j logs the errors of a function of foreachBatch itself."""
    return [each.getMessage() for each in caplog.records if each.name == "apportion.spark"]


def has_no_members(pipeline: Pipeline) -> bool:
    return pipeline.owners() == {}


def test_the_batch_that_runs_is_finished_and_the_group_knows_of_it(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Started,
    gate: Gate,
) -> None:
    query = started(rows(), gate)
    pipeline.produce(40)
    pipeline.until_committed()
    gate.close()
    pipeline.produce(8)
    assert gate.entered.wait(PATIENCE_S)
    releasing = threading.Timer(1, gate.open)
    releasing.start()
    assert stop(query) is True
    assert (query.isActive, has_no_members(pipeline)) == (False, True)
    assert (pipeline.total_committed(), pipeline.rows()) == (48, pipeline.expected())
    assert stop(query) is True


def test_a_query_that_waits_for_its_next_trigger_tells_the_group_of_its_last_batch(
    pipeline: Pipeline, rows: Callable[..., DataFrame], started: Started
) -> None:
    frame = rows()
    pipeline.produce(8)
    begun = started(frame, checkpoint="kept")
    pipeline.until_written()
    assert stop(begun) is True
    pipeline.produce(8)
    other = started(
        rows(**{"kafka.group.id": f"{pipeline.group}-other"}), Gate(pipeline.path / "other")
    )
    # Spark's triggers begin at multiples of the interval, and none of these is near.
    waiting = started(frame, checkpoint="kept", processingTime="10000 days")
    pipeline.until_written()
    until(lambda: not waiting.status["isTriggerActive"], 15)
    assert pipeline.total_committed() == 8
    assert stop(waiting) is True
    assert (pipeline.total_committed(), has_no_members(pipeline)) == (16, True)
    assert other.isActive
    assert stop(other) is True


def test_a_batch_that_takes_too_long_is_interrupted_and_read_again(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Started,
    gate: Gate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = rows()
    query = started(frame, gate, checkpoint="kept")
    pipeline.produce(8)
    pipeline.until_committed()
    gate.close()
    pipeline.produce(8)
    assert gate.entered.wait(PATIENCE_S)
    # Spark waits for the function of foreachBatch even so.
    threading.Timer(3, gate.open).start()
    assert stop(query, timeout_s=0.5) is False
    name = f"query {query.id}"
    assert said(caplog) == [
        f"{name}: the batch that runs was not finished in 0.5 s: it is interrupted, and its "
        "records are read again",
        f"{name}: its last batch is not committed to the group, so it is read again",
    ]
    assert (pipeline.total_committed(), has_no_members(pipeline)) == (8, True)
    again = started(frame, gate, checkpoint="kept")
    until(lambda: pipeline.total_committed() == 16)
    assert stop(again) is True
    assert pipeline.rows() == pipeline.expected()


def waits_for(query: StreamingQuery) -> str:
    """What the query's progress says that it waits for."""
    progress = query.lastProgress
    latest = None if progress is None else json.loads(progress.sources[0].latestOffset or "null")
    return str((latest or {}).get("waitsFor", ""))


def test_a_query_that_waits_for_its_brokers_says_so_and_is_stopped_at_once(
    rows: Callable[..., DataFrame], started: Started
) -> None:
    with EmbeddedBroker() as broker:
        away = broker.bootstrap
        frame = rows(**{"kafka.bootstrap.servers": away})
    query = started(frame)
    said = until(lambda: waits_for(query))
    assert said.startswith(
        f"no connection to the broker at {away}: Connection refused; the query tries again, and "
        "ends after 60 s without an answer"
    )
    assert stop(query, timeout_s=20) is True


def test_a_program_ends_with_code_0_once_everything_is_read(
    pipeline: Pipeline, rows: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(8)
    assert run(started(rows(), availableNow=True)) == 0
    assert (pipeline.total_committed(), pipeline.rows()) == (8, pipeline.expected())


def test_a_program_whose_query_fails_ends_with_code_1_and_the_reason_last(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Started,
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = started(rows(**{"kafka.group.remote.assignor": "nobodys"}))
    assert run(query) == 1
    assert stop(query) is False
    assert said(caplog) == [
        f"query {query.id} has failed: group {pipeline.group}: UNSUPPORTED_ASSIGNOR: "
        "ServerAssignor nobodys is not offered here; there is uniform, range: ask for one of these "
        "(group.remote.assignor), or add nobodys to the broker's group.consumer.assignors."
    ]
    narrow = started(rows().selectExpr("value"))
    assert run(narrow) == 1
    assert said(caplog)[1:] == [
        f"query {narrow.id} has failed: the Delta writer needs the source's columns topic, "
        "partition and offset to write each record once; this query dropped topic, partition, "
        'offset: keep them, as in .select("topic", "partition", "offset", ...)'
    ]
