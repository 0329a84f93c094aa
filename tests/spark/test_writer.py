"""The exactly-once writer against itself: other writers, replays and failures, at every point of a
write. Only Spark is played.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from apportion.member.batch.sinks import NO_REPORT, AnotherSink, WriterReport
from apportion.member.batch.span import LostOffsets, Span, sorted_span
from apportion.spark import handover
from apportion.spark.delta import Writer
from apportion.spark.files import REPORT_SCHEMA
from apportion.spark.query_introspection import SourceReading
from apportion.topics import TopicIdPartition

TOPIC_ID = bytes(range(16))
COLUMNS = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("city", "string")
)
ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("city", pa.string()),
    ]
)


class Frame:
    """A DataFrame with these rows, whose jobs run here. meanwhile: called once, when the first job
    has ended.
    """

    def __init__(self, rows, meanwhile=lambda: None, schema=COLUMNS):
        self.schema = schema
        self.columns = self.schema.names
        self.sparkSession = self
        self._rows, self._meanwhile = rows, meanwhile

    def mapInArrow(self, function, schema):
        batches = list(function(iter([self._rows] if self._rows.num_rows else [])))
        self._report = pa.Table.from_batches(batches, REPORT_SCHEMA)
        return self

    def collect(self):
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return [tuple(row.values()) for row in self._report.to_pylist()]

    def createDataFrame(self, rows, schema):
        return Frame(
            pa.RecordBatch.from_pydict({"path": [path for (path,) in rows]}),
            schema=StructType().add("path", "string"),
        )


def batch(writer, *ranges, meanwhile=lambda: None, group="g"):
    """One micro-batch: every record of these ranges (partition, start, end), which are the batch's
    span too.
    """
    places = {
        TopicIdPartition("t", TOPIC_ID, partition): (start, end) for partition, start, end in ranges
    }
    rows = [
        {
            "topic": "t",
            "partition": place.partition,
            "offset": offset,
            "city": f"{place.partition}-{offset}",
        }
        for place, bounds in places.items()
        for offset in range(*bounds)
    ]
    writer.write(
        Frame(pa.RecordBatch.from_pylist(rows, schema=ARROW), meanwhile),
        [SourceReading(group, sorted_span("a", places))],
    )


def stored(path):
    """(partition, offset) of every row that can be read."""
    table = DeltaTable(path).to_pyarrow_table()
    return sorted(zip(*table.select(["partition", "offset"]).to_pydict().values(), strict=True))


def orphans(path):
    held = {Path(uri).name for uri in DeltaTable(path).file_uris()}
    return sorted(file.name for file in Path(path).glob("*.parquet") if file.name not in held)


def every(*ranges):
    return [(partition, offset) for partition, start, end in ranges for offset in range(start, end)]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


def test_a_replay_writes_nothing_and_leaves_no_file(path):
    for _ in range(2):
        batch(Writer(path), (0, 0, 5), (1, 3, 7))
    assert (stored(path), orphans(path), DeltaTable(path).version()) == (
        every((0, 0, 5), (1, 3, 7)),
        [],
        1,
    )


def test_a_zombie_whose_rows_were_all_written_meanwhile_commits_nothing(path):
    other = Writer(path)
    batch(Writer(path), (0, 0, 5), meanwhile=lambda: batch(other, (0, 0, 8)))
    assert (stored(path), orphans(path)) == (every((0, 0, 8)), [])


def test_a_file_that_straddles_a_fence_that_moved_is_written_again_above_it(path):
    other = Writer(path)
    batch(
        Writer(path),
        (0, 0, 9),
        (1, 0, 4),
        (2, 0, 3),
        meanwhile=lambda: batch(other, (0, 0, 6), (1, 0, 4)),
    )
    assert (stored(path), orphans(path)) == (every((0, 0, 9), (1, 0, 4), (2, 0, 3)), [])


def test_who_is_beaten_again_while_writing_again_still_writes_each_row_once(path):
    first, second = Writer(path), Writer(path)
    batch(
        Writer(path),
        (0, 0, 9),
        meanwhile=lambda: batch(first, (0, 0, 3), meanwhile=lambda: batch(second, (0, 0, 2))),
    )
    assert (stored(path), orphans(path)) == (every((0, 0, 9)), [])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_each_row_is_written_once_whoever_writes_whatever_in_the_middle_of_whose_batch(data):
    """No batch starts above the fence, which is what the group's offset promises; anything else may
    happen.
    """
    fence = 0

    def write(path, depth):
        nonlocal fence
        start = data.draw(st.integers(0, fence))
        end = start + data.draw(st.integers(0, 6))
        batch(
            Writer(path),
            (0, start, end),
            meanwhile=lambda: depth < 2 and data.draw(st.booleans()) and write(path, depth + 1),
        )
        fence = max(fence, end)

    with TemporaryDirectory() as directory:
        path = f"{directory}/table"
        for _ in range(data.draw(st.integers(1, 4))):
            write(path, 0)
        assert (stored(path), orphans(path)) == (every((0, 0, fence)), [])


def test_a_commit_that_landed_though_it_failed_keeps_its_files(path):
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


def test_a_batch_above_the_fence_is_refused_and_leaves_no_file(path):
    batch(Writer(path), (0, 0, 5))
    with pytest.raises(
        LostOffsets,
        match="t-0: the sink has everything below offset 5, but the batch starts at 7: 2 lost",
    ):
        batch(Writer(path), (0, 7, 9))
    assert (stored(path), orphans(path)) == (every((0, 0, 5)), [])
    batch(Writer(path, fail_on_data_loss=False), (0, 7, 9))
    assert stored(path) == every((0, 0, 5), (0, 7, 9))


P0 = TopicIdPartition("t", TOPIC_ID, 0)


def asking(*ranges):
    return sorted_span(
        "asked", {TopicIdPartition("t", TOPIC_ID, partition): (at, at) for partition, at in ranges}
    )._replace(question_number=1)


def nothing_read(writer, batch, group="g"):
    """The writer is given a batch without rows."""
    writer.write(Frame(pa.RecordBatch.from_pylist([], schema=ARROW)), [SourceReading(group, batch)])


def test_a_span_that_asks_is_answered_by_every_writer_and_makes_no_table(path, tmp_path):
    question = asking((0, 5))
    assert handover.read_reports(question) == NO_REPORT
    nothing_read(Writer(path), question)
    assert handover.read_reports(question) == WriterReport((path,))
    nothing_read(Writer(f"file://{path}-b/", adopt=True), question)
    assert handover.read_reports(question) == WriterReport((path, f"{path}-b"), adopt=True)
    handover.delete_reports(question)
    assert (handover.read_reports(question), list(tmp_path.iterdir())) == (NO_REPORT, [])


def test_a_table_that_has_records_of_the_group_says_so(path):
    batch(Writer(path), (0, 0, 5))
    question = asking((0, 5), (1, 0))
    nothing_read(Writer(path), question, group="of others")
    assert handover.read_reports(question) == WriterReport((path,))
    nothing_read(Writer(path), question)
    assert handover.read_reports(question) == WriterReport((path,), has_records=True)
    handover.delete_reports(question)


@pytest.mark.parametrize(
    ("sinks", "sentence"),
    [
        (
            ("/lake/flights",),
            "this checkpoint belongs to a query that writes to /lake/flights, and now it "
            "is to write to",
        ),
        ((), "the query's source was never told that it writes to"),
    ],
)
def test_a_batch_of_a_query_with_another_sink_is_not_written(path, sinks, sentence):
    with pytest.raises(AnotherSink, match=sentence):
        nothing_read(Writer(path), Span("a", {P0: (0, 5)}, sinks))
    assert not Path(path).exists()


def test_with_adopt_a_batch_of_another_sink_is_written_and_the_source_told(path):
    for sinks in (("/lake/flights",), ()):
        foreign = Span("a", {P0: (0, 5)}, sinks)
        nothing_read(Writer(path, adopt=True), foreign)
        assert handover.read_reports(foreign) == WriterReport((path,), adopt=True)
        # said of that batch alone
        assert handover.read_reports(foreign._replace(sinks=(path,))) == NO_REPORT
    handover.delete_reports(foreign)
    own = foreign._replace(sinks=(path,))
    nothing_read(Writer(path, adopt=True), own)
    assert handover.read_reports(own) == NO_REPORT


def test_where_a_query_has_several_sinks_each_says_that_it_was_given_the_batch(path):
    shared = Span("a", {P0: (0, 5)}, (path, f"{path}-b"))
    nothing_read(Writer(path), shared)
    assert handover.read_reports(shared) == WriterReport((path,))
    nothing_read(Writer(f"{path}-b"), shared)
    assert handover.read_reports(shared) == WriterReport(shared.sinks)
    handover.delete_reports(shared)


def test_a_file_that_cannot_be_read_counts_as_none(path, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    question = asking((0, 5))
    nothing_read(Writer(path), question)
    nothing_read(Writer(f"{path}-b"), question)
    torn, whole = sorted(tmp_path.glob("apportion-*/*"))
    kept = json.loads(whole.read_text())["sink"]
    for text in ("", '{"sink": "/la', "[]", "{}"):
        torn.write_text(text)
        assert handover.read_reports(question) == WriterReport((kept,))


def test_an_answer_to_an_earlier_question_is_none_to_a_later_one(path):
    question = asking((0, 5))
    nothing_read(Writer(path), question)
    assert handover.read_reports(question._replace(question_number=2)) == NO_REPORT
    handover.delete_reports(question)


def test_offsets_without_a_name_are_looked_for_in_the_table_too(path):
    batch(Writer(path), (1, 0, 5))
    question = Span("asked", {}, question_number=1, unclaimed=(P0, P0._replace(partition=1)))
    nothing_read(Writer(path), question)
    assert handover.read_reports(question) == WriterReport((path,), has_records=True)
    handover.delete_reports(question)


def test_with_rewind_a_batch_above_the_fence_is_left_out_and_the_source_told_where_to_go_on(path):
    writer = Writer(path, rewind=True)
    batch(writer, (0, 0, 5), (1, 0, 5))
    batch(writer, (0, 7, 9), (1, 5, 9))
    told = sorted_span("a", {P0: (7, 9), TopicIdPartition("t", TOPIC_ID, 1): (5, 9)})
    assert handover.read_reports(told).rewind == {P0: 5}
    assert handover.read_reports(sorted_span("a", {P0: (5, 9)})).rewind == {}  # it has gone back
    assert (stored(path), orphans(path)) == (every((0, 0, 5), (1, 0, 9)), [])
    batch(writer, (0, 7, 9), (1, 5, 9))  # Spark replays it
    batch(writer, (0, 5, 9), (1, 9, 10))
    assert stored(path) == every((0, 0, 9), (1, 0, 10))
    handover.delete_reports(told)


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_source_that_went_back_as_far_as_it_could_is_not_sent_back_again(path, fail_on_data_loss):
    writer = Writer(path, rewind=True, fail_on_data_loss=fail_on_data_loss)
    batch(writer, (0, 0, 5))
    batch(writer, (0, 8, 9))
    if fail_on_data_loss:
        with pytest.raises(LostOffsets):
            batch(writer, (0, 7, 9))
    else:
        batch(writer, (0, 7, 9))
    assert stored(path) == every((0, 0, 5)) + ([] if fail_on_data_loss else every((0, 7, 9)))
    handover.delete_reports(sorted_span("a", {}))


def test_groups_have_fences_of_their_own(path):
    batch(Writer(path), (0, 0, 2), group="g")
    batch(Writer(path), (0, 0, 2), group="h")
    assert stored(path) == [(0, 0), (0, 0), (0, 1), (0, 1)]


def test_two_sources_that_read_one_topic_are_refused(path):
    readings = [
        SourceReading(group, sorted_span("a", {TopicIdPartition("t", TOPIC_ID, 0): (0, end)}))
        for group, end in (("g", 2), ("h", 3))
    ]
    with pytest.raises(ValueError, match="two sources of this query read topic t"):
        Writer(path).write(Frame(pa.RecordBatch.from_pylist([], schema=ARROW)), readings)
    assert stored(path) == []


def test_a_source_that_is_united_with_itself_is_one_source(path):
    reading = SourceReading("g", sorted_span("a", {TopicIdPartition("t", TOPIC_ID, 0): (0, 1)}))
    row = {"topic": "t", "partition": 0, "offset": 0, "city": "x"}
    Writer(path).write(
        Frame(pa.RecordBatch.from_pylist([row, row], schema=ARROW)), [reading, reading]
    )
    assert stored(path) == [(0, 0), (0, 0)]


def test_a_place_column_of_another_type_is_refused(path):
    schema = StructType().add("topic", "string").add("partition", "integer").add("offset", "string")
    rows = pa.RecordBatch.from_pydict({"topic": ["t"], "partition": [0], "offset": ["0"]})
    with pytest.raises(
        ValueError, match="needs the source's column offset as int64; this query made it string"
    ):
        Writer(path).write(
            Frame(rows, schema=schema),
            [SourceReading("g", sorted_span("a", {TopicIdPartition("t", TOPIC_ID, 0): (0, 1)}))],
        )
    assert not Path(path).exists()


def test_a_partitioned_table_is_refused(path):
    DeltaTable.create(path, Schema.from_arrow(ARROW), partition_by=["city"])
    with pytest.raises(TypeError, match="is partitioned by city"):
        batch(Writer(path), (0, 0, 5))
    assert stored(path) == []


def test_a_relative_path_is_where_the_driver_stands(tmp_path, monkeypatch):
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
        ("gs://b/x y", "gs://b/x y"),
        ("/", "/"),
    ],
)
def test_a_table_has_one_name_however_it_is_written(table, name):
    assert Writer(table).sink == name


@pytest.mark.parametrize("scheme", ["file:", "FILE://"])
def test_a_table_lies_where_hadoops_form_of_its_path_says(tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    batch(Writer(f"{scheme}{tmp_path}/table"), (0, 0, 5))
    assert ([found.name for found in tmp_path.iterdir()], stored(str(tmp_path / "table"))) == (
        ["table"],
        every((0, 0, 5)),
    )
