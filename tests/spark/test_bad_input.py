"""Bad input that only a Spark session shows: said before a query runs, or of its checkpoint."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql import DataFrame

from apportion.member.group_claims import AnotherSink, metadata_of
from apportion.spark import LostOffsets, StatefulQuery, delta
from apportion.spark.delta_sink.columns import SOURCE_COLUMNS
from apportion.spark.errors import NotWritable
from tests.client import changes
from tests.spark.error_page import assert_on_page
from tests.spark.harness import Pipeline, until
from tests.spark.queries import Started, ended


def latest(directory: Path) -> Path:
    """The newest batch in a log of Spark's."""
    return max(
        (path for path in directory.iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )


def rewrite(path: Path, offset: str) -> None:
    """Put another offset into a batch of Spark's log."""
    *before, _ = path.read_text().splitlines()
    path.write_text("\n".join([*before, offset]))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def test_a_writer_refuses_its_table_and_rows_before_the_query_begins(
    pipeline: Pipeline, source: Callable[..., DataFrame]
) -> None:
    pipeline.table.mkdir()
    report = pipeline.table / "report.csv"
    report.write_text("x")
    with pytest.raises(NotWritable) as refused:
        delta.Writer(pipeline.table)
    assert_on_page("a table's directory that holds other things", refused.value)
    report.unlink()
    rows = source().selectExpr("topic", "partition", "offset", "value")
    writer = delta.Writer(pipeline.table)
    assert writer.check(rows) is writer
    for wrong, changed, kind in (
        ("the source's columns were dropped", rows.select("value"), NotWritable),
        (
            "an aggregation, or another operator that keeps state",
            rows.dropDuplicates(["value"]),
            StatefulQuery,
        ),
    ):
        with pytest.raises(kind) as refusal:
            writer.check(changed)
        assert_on_page(wrong, refusal.value)
    assert list(pipeline.table.iterdir()) == []
    types = pa.schema([*SOURCE_COLUMNS, pa.field("value", pa.string())])
    DeltaTable.create(str(pipeline.table), Schema.from_arrow(types))
    with pytest.raises(NotWritable) as other_type:
        delta.Writer(pipeline.table).check(rows)
    assert_on_page("a column that has another type in the table", other_type.value)


def test_a_writer_refuses_a_group_of_another_table_before_the_query_begins(
    pipeline: Pipeline, source: Callable[..., DataFrame]
) -> None:
    offset = {pipeline.partitions[1]: 0}
    mine, others = metadata_of((str(pipeline.table), "/lake/b")), metadata_of(("/lake/a",))
    changes.commit(pipeline.cluster, pipeline.group, offset, metadata=mine)
    rows, writer = source(), delta.Writer(pipeline.table)
    assert writer.check(rows) is writer
    changes.commit(pipeline.cluster, pipeline.group, offset, metadata=others)
    with pytest.raises(AnotherSink) as refused:
        writer.check(rows)
    assert_on_page("another table for the same group", refused.value)
    adopting = delta.Writer(pipeline.table, adopt=True)
    assert adopting.check(rows) is adopting


def test_a_writer_misses_what_its_table_lacks_before_the_query_begins(
    pipeline: Pipeline, source: Callable[..., DataFrame]
) -> None:
    offset = {pipeline.partitions[1]: 5}
    pipeline.produce(40)
    mine = metadata_of((str(pipeline.table),))
    changes.commit(pipeline.cluster, pipeline.group, offset, metadata=mine)
    rows = source()
    with pytest.raises(LostOffsets) as missed:
        delta.Writer(pipeline.table).check(rows)
    assert_on_page("a table that lacks what its group has committed", missed.value)
    rewinding = delta.Writer(pipeline.table, rewind=True)
    assert rewinding.check(rows) is rewinding
    careless = delta.Writer(pipeline.table, fail_on_data_loss=False)
    assert careless.check(rows) is careless


def test_garbage_in_a_checkpoint_ends_the_query_in_a_sentence(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(4)
    query = started(source(), checkpoint="checkpoint")
    until(lambda: pipeline.total_committed() == 4, what="the group's offsets")
    query.stop()
    offsets = latest(pipeline.path / "checkpoint" / "offsets")
    rewrite(offsets, '{"flights":{"0":23}}')
    said = ended(started(source(), checkpoint="checkpoint"))
    assert_on_page("a checkpoint of another source", said.splitlines()[0])
    rewrite(offsets, "garbage")
    said = ended(started(source(), checkpoint="checkpoint"))
    assert_on_page("a checkpoint whose offsets are no JSON", said.splitlines()[0])


def test_a_second_query_on_one_checkpoint_ends_one_of_the_two(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(4)
    query = started(source(), checkpoint="checkpoint")
    until(lambda: pipeline.total_committed() == 4, what="the group's offsets")
    # As another application does that has this checkpoint.
    offsets = latest(pipeline.path / "checkpoint" / "offsets")
    offsets.with_name(str(int(offsets.name) + 1)).write_text(offsets.read_text())
    pipeline.produce(4)
    assert_on_page("a second query on one checkpoint", ended(query))


def test_a_second_query_on_one_checkpoint_of_one_session_replaces_the_first(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(4)
    first = started(source(), checkpoint="checkpoint")
    until(lambda: pipeline.total_committed() == 4, what="the group's offsets")
    second = started(source(), checkpoint="checkpoint")
    assert (first.isActive, first.exception(), second.isActive) == (False, None, True)
    pipeline.produce(4)
    until(lambda: pipeline.total_committed() == 8, what="the group's offsets")
    assert second.isActive
