"""The exactly-once writer against itself: other writers, replays and failures, at every point of a
write. Only Spark is played.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from apportion.columns.read import to_arrow
from apportion.member.batch.fences import LostOffsets
from apportion.member.batch.span import sorted_span
from apportion.spark.delta import Writer
from apportion.spark.delta_sink.ownership import table_location, table_name
from apportion.spark.errors import NotWritable
from apportion.spark.queries.introspection import SourceReading
from apportion.topics import TopicIdPartition
from tests.odd_batches import at_deltas
from tests.spark.micro_batches import ARROW, TOPIC_ID, Frame, batch, every, orphans, stored


def test_a_replay_writes_nothing_and_leaves_no_file(path: str) -> None:
    for _ in range(2):
        batch(Writer(path), (0, 0, 5), (1, 3, 7))
    assert (stored(path), orphans(path), DeltaTable(path).version()) == (
        every((0, 0, 5), (1, 3, 7)),
        [],
        1,
    )


def test_a_zombie_whose_rows_were_all_written_meanwhile_commits_nothing(path: str) -> None:
    other = Writer(path)
    batch(Writer(path), (0, 0, 5), meanwhile=lambda: batch(other, (0, 0, 8)))
    assert (stored(path), orphans(path)) == (every((0, 0, 8)), [])


def test_a_file_that_straddles_a_fence_that_moved_is_written_again_above_it(path: str) -> None:
    other = Writer(path)
    batch(
        Writer(path),
        (0, 0, 9),
        (1, 0, 4),
        (2, 0, 3),
        meanwhile=lambda: batch(other, (0, 0, 6), (1, 0, 4)),
    )
    assert (stored(path), orphans(path)) == (every((0, 0, 9), (1, 0, 4), (2, 0, 3)), [])


def test_records_at_odd_offsets_are_written_once_however_a_batch_is_divided(path: str) -> None:
    encoded = at_deltas(0, 5, 9)
    for start, end in ((0, 2), (0, 3), (0, 3)):
        table = pa.Table.from_batches(
            to_arrow([encoded], topic="t", partition=0, from_offset=start, before_offset=end)
        )
        columns = [table[name] for name in ("topic", "partition", "offset", "value")]
        (rows,) = pa.table(columns, names=ARROW.names).cast(ARROW).to_batches()
        frame: Any = Frame(rows)
        span = sorted_span("a", {TopicIdPartition("t", TOPIC_ID, 0): (start, end)})
        Writer(path).write(frame, [SourceReading("g", span)])
    cities = DeltaTable(path).to_pyarrow_table()["city"].to_pylist()
    assert (stored(path), sorted(cities)) == ([(0, 0), (0, 2), (0, 2)], ["0", "1", "2"])


def test_a_writer_beaten_twice_writes_each_row_once(path: str) -> None:
    first, second = Writer(path), Writer(path)
    batch(
        Writer(path),
        (0, 0, 9),
        meanwhile=lambda: batch(first, (0, 0, 3), meanwhile=lambda: batch(second, (0, 0, 2))),
    )
    assert (stored(path), orphans(path)) == (every((0, 0, 9)), [])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_each_row_is_written_once_whatever_other_writers_commit_meanwhile(
    data: st.DataObject,
) -> None:
    """No batch starts above the fence, which is what the group's offset promises; anything else may
    happen.
    """
    fence = 0

    def write(path: str, depth: int) -> None:
        nonlocal fence
        start = data.draw(st.integers(0, fence))
        end = start + data.draw(st.integers(0, 6))

        def meanwhile() -> None:
            if depth < 2 and data.draw(st.booleans()):
                write(path, depth + 1)

        batch(Writer(path), (0, start, end), meanwhile=meanwhile)
        fence = max(fence, end)

    with TemporaryDirectory() as directory:
        path = f"{directory}/table"
        for _ in range(data.draw(st.integers(1, 4))):
            write(path, 0)
        assert (stored(path), orphans(path)) == (every((0, 0, fence)), [])


def test_a_commit_that_landed_though_it_failed_keeps_its_files(path: str) -> None:
    DeltaTable.create(
        path, Schema.from_arrow(ARROW), configuration={"delta.checkpointInterval": "1"}
    )
    # no checkpoint can be written there
    (Path(path) / "_delta_log" / "00000000000000000001.checkpoint.parquet").mkdir()
    with pytest.raises(DeltaError):
        batch(Writer(path), (0, 0, 5))
    assert stored(path) == every((0, 0, 5))
    batch(Writer(path), (0, 0, 5))
    assert (stored(path), orphans(path)) == (every((0, 0, 5)), [])


def test_a_batch_above_the_fence_is_refused_and_leaves_no_file(path: str) -> None:
    batch(Writer(path), (0, 0, 5))
    with pytest.raises(
        LostOffsets,
        match="t-0: the sink has everything below offset 5, but the batch starts at 7: 2 lost",
    ):
        batch(Writer(path), (0, 7, 9))
    assert (stored(path), orphans(path)) == (every((0, 0, 5)), [])
    batch(Writer(path, fail_on_data_loss=False), (0, 7, 9))
    assert stored(path) == every((0, 0, 5), (0, 7, 9))


def test_groups_have_fences_of_their_own(path: str) -> None:
    batch(Writer(path), (0, 0, 2), group="g")
    batch(Writer(path), (0, 0, 2), group="h")
    assert stored(path) == [(0, 0), (0, 0), (0, 1), (0, 1)]


def test_two_sources_that_read_one_topic_are_refused(path: str) -> None:
    readings = [
        SourceReading(group, sorted_span("a", {TopicIdPartition("t", TOPIC_ID, 0): (0, end)}))
        for group, end in (("g", 2), ("h", 3))
    ]
    frame: Any = Frame(pa.RecordBatch.from_pylist([], schema=ARROW))
    with pytest.raises(NotWritable, match="two sources of this query read topic t"):
        Writer(path).write(frame, readings)
    assert not Path(path).exists()


def test_a_source_that_is_united_with_itself_is_one_source(path: str) -> None:
    reading = SourceReading("g", sorted_span("a", {TopicIdPartition("t", TOPIC_ID, 0): (0, 1)}))
    row = {"topic": "t", "partition": 0, "offset": 0, "city": "x"}
    frame: Any = Frame(pa.RecordBatch.from_pylist([row, row], schema=ARROW))
    Writer(path).write(frame, [reading, reading])
    assert stored(path) == [(0, 0), (0, 0)]


def test_a_place_column_of_another_type_is_refused(path: str) -> None:
    schema = StructType().add("topic", "string").add("partition", "integer").add("offset", "string")
    rows = pa.RecordBatch.from_pydict({"topic": ["t"], "partition": [0], "offset": ["0"]})
    frame: Any = Frame(rows, schema=schema)
    with pytest.raises(
        NotWritable, match="needs the source's column offset as int64; this query made it string"
    ):
        Writer(path).write(
            frame,
            [SourceReading("g", sorted_span("a", {TopicIdPartition("t", TOPIC_ID, 0): (0, 1)}))],
        )
    assert not Path(path).exists()


def test_a_partitioned_table_is_refused(path: str) -> None:
    DeltaTable.create(path, Schema.from_arrow(ARROW), partition_by=["city"])
    with pytest.raises(NotWritable, match=f"the Delta table {path} is partitioned by city, but"):
        batch(Writer(path), (0, 0, 5))
    assert stored(path) == []


def test_a_relative_path_is_where_the_driver_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Writer("lake/flights").table == str(tmp_path / "lake" / "flights")
    assert Writer("s3://lake/flights").table == "s3://lake/flights"


@pytest.mark.parametrize(
    ("table", "name"),
    [
        *[
            (table, "/lake/x")
            for table in ("/lake/x", "/lake//x/", "/lake/./x", "/lake/y/../x", "//lake/x")
        ],
        *[(f"{scheme}/lake/x/", "/lake/x") for scheme in ("file:", "file://", "FILE:", "File://")],
        *[(f"{scheme}://b//y/x/", "s3://b/y/x") for scheme in ("s3", "S3", "s3a", "S3A")],
        *[(table, "/my lake") for table in ("/my lake", "file:///my%20lake", "file:/my%20lake")],
        ("file://localhost/lake/x", "/lake/x"),
        ("gs://b/x y", "gs://b/x y"),
        ("/", "/"),
    ],
)
def test_a_table_has_one_name_however_it_is_written(table: str, name: str) -> None:
    # a Writer beside a session looks at the directory, too
    assert table_name(table_location(table)) == name


@pytest.mark.parametrize("scheme", ["file:", "FILE://"])
def test_a_table_lies_where_hadoops_form_of_its_path_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.chdir(tmp_path)
    batch(Writer(f"{scheme}{tmp_path}/table"), (0, 0, 5))
    assert ([entry.name for entry in tmp_path.iterdir()], stored(str(tmp_path / "table"))) == (
        ["table"],
        every((0, 0, 5)),
    )
