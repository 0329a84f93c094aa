"""The Delta writer and the guard through Spark Connect, with a server in a process of its own;
tests/spark/test_connect_stories.py goes on.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from apportion.spark import StatefulQuery, delta, guard, run, stop
from apportion.spark.monitoring.source_report import SourceReport, parse_report
from tests.spark import readme
from tests.spark.connect_server import address, spark
from tests.spark.delta_tables import commit, field, legacy, metadata
from tests.spark.error_page import assert_on_page
from tests.spark.harness import Pipeline, until
from tests.spark.queries import Started

__all__ = ["address", "spark"]


def report_on(progress: Any) -> SourceReport | None:
    """The source's report in the progress of a batch; None while there is none."""
    return parse_report(progress.sources[0].latestOffset) if progress else None


def test_a_restarted_query_writes_each_record_once(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    query = started(rows(), checkpoint="v1")
    for _ in range(2):
        pipeline.produce(20)
        until(lambda: len(pipeline.rows()) >= len(pipeline.produced), what=str(query.exception()))
    query.stop()
    pipeline.produce(20)
    again = started(rows(), checkpoint="v1")
    until(lambda: len(pipeline.rows()) >= len(pipeline.produced))
    assert pipeline.rows() == pipeline.expected()
    report = until(lambda: report_on(again.lastProgress))
    assert (report.group_id, len(report.positions)) == (pipeline.group, len(pipeline.partitions))
    assert sum(position.next for position in report.positions.values()) == len(pipeline.produced)


def test_a_query_is_stopped_in_order(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    query = started(rows())
    pipeline.produce(20)
    pipeline.until_written()
    assert stop(query) is True
    assert (query.isActive, pipeline.owners()) == (False, {})
    assert (pipeline.total_committed(), pipeline.rows()) == (20, pipeline.expected())


def test_a_program_whose_query_fails_ends_with_code_1_and_the_reason_last(
    rows: Callable[..., DataFrame], started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    query = started(rows().selectExpr("value"))
    assert run(query) == 1
    assert caplog.records[-1].getMessage() == (
        f"query {query.id} has failed: the Delta writer needs the source's columns topic, "
        "partition and offset to write each record once; this query dropped topic, partition, "
        'offset: keep them, as in .select("topic", "partition", "offset", ...)'
    )


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("offset < 0", "a row that breaks a constraint of its table"),
        ("delay > 0", "a constraint that the query has no columns for"),
    ],
)
def test_a_constraint_of_the_table_ends_the_query_that_breaks_it(
    rows: Callable[..., DataFrame],
    started: Started,
    pipeline: Pipeline,
    caplog: pytest.LogCaptureFixture,
    condition: str,
    wrong: str,
) -> None:
    columns = [field("value", "string"), field("delay", "integer")]
    commit(str(pipeline.table), 0, legacy(3), metadata(*columns, constraints__held=condition))
    pipeline.produce(8)
    assert run(started(rows())) == 1
    assert_on_page(wrong, caplog.records[-1].getMessage())
    assert list(pipeline.table.glob("*.parquet")) == []


def test_readmes_application_runs_through_a_server(address: str, tmp_path: Path) -> None:
    readme.play(tmp_path, {"SPARK_REMOTE": address})


def test_the_guard_refuses_an_aggregation_before_and_after_its_start(
    rows: Callable[..., DataFrame], source: Callable[..., DataFrame], pipeline: Pipeline
) -> None:
    plain, counted = rows(), source().groupBy("topic").count()
    assert guard(plain) is plain
    with pytest.raises(StatefulQuery, match="StateStoreSave"):
        guard(counted)
    writer = delta.Writer(str(pipeline.table))
    assert writer.check(plain) is writer
    with pytest.raises(StatefulQuery, match="StateStoreSave"):
        writer.check(counted)
    query = (
        counted.writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(pipeline.path / "counted"))
        .start()
    )
    with pytest.raises(StatefulQuery, match="StateStoreSave"):
        guard(query)
    assert not query.isActive


def test_a_wrong_option_is_named_at_the_start(source: Callable[..., DataFrame]) -> None:
    with pytest.raises(AnalysisException) as error:
        source(startingOffset="earliest").columns  # noqa: B018
    reason = str(error.value).splitlines()[0]
    assert reason.endswith(
        "OptionError: option startingoffset is unknown (Spark hands names over in lower case): did "
        "you mean startingOffsets?"
    )
