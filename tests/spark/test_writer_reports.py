"""What the writer reports to its query's source, and which batches it refuses."""

import json
from pathlib import Path

import pytest

from apportion.member.batch.fences import LostOffsets
from apportion.member.batch.span import Span, sorted_span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.group_claims import AnotherSink
from apportion.spark.delta import Writer
from apportion.spark.errors import NotWritable
from apportion.spark.processes import handover
from apportion.topics import TopicIdPartition
from tests.spark.error_page import assert_on_page
from tests.spark.micro_batches import P0, TOPIC_ID, batch, every, nothing_read, orphans, stored


def asking(*ranges: tuple[int, int]) -> Span:
    """The question of a query whose sinks have nothing yet of these partitions."""
    partitions = {TopicIdPartition("t", TOPIC_ID, partition): (at, at) for partition, at in ranges}
    return sorted_span("asked", partitions)._replace(question_number=1, starting=(*partitions,))


def test_a_span_that_asks_is_answered_by_every_writer_and_makes_no_table(
    path: str, tmp_path: Path
) -> None:
    question = asking((0, 5))
    assert handover.read_reports(question) == NO_REPORT
    nothing_read(Writer(path), question)
    assert handover.read_reports(question) == WriterReport((path,))
    nothing_read(Writer(f"file://{path}-b/", adopt=True), question)
    assert handover.read_reports(question) == WriterReport((path, f"{path}-b"), adopt=True)
    handover.delete_reports(question)
    assert (handover.read_reports(question), list(tmp_path.iterdir())) == (NO_REPORT, [])


def test_a_path_that_can_be_no_table_is_refused_before_the_source_hears_of_it(
    path: str, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    file = foreign / "notes.txt"
    file.write_text("x")
    question = asking((0, 5))
    with pytest.raises(NotWritable, match=r"is not a Delta table and not empty, it holds notes"):
        nothing_read(Writer(str(foreign)), question)
    with pytest.raises(NotWritable, match="it is a file"):
        nothing_read(Writer(str(file)), question)
    assert handover.read_reports(question) == NO_REPORT


def test_a_table_that_has_records_of_the_group_says_so(path: str) -> None:
    batch(Writer(path), (0, 0, 5))
    question = asking((0, 5), (1, 0))
    nothing_read(Writer(path), question, group="of others")
    assert handover.read_reports(question) == WriterReport((path,))
    nothing_read(Writer(path), question)
    assert handover.read_reports(question) == WriterReport((path,), has_records=True)
    handover.delete_reports(question)


@pytest.mark.parametrize(
    ("sinks", "wrong"),
    [
        (("/lake/flights",), "another table for the same checkpoint"),
        ((), "another TMPDIR in the driver than in its Java process"),
    ],
)
def test_a_batch_of_a_query_with_another_sink_is_not_written(
    path: str, sinks: tuple[str, ...], wrong: str
) -> None:
    with pytest.raises(AnotherSink) as refused:
        nothing_read(Writer(path), Span("a", {P0: (0, 5)}, sinks))
    assert_on_page(wrong, refused.value)
    assert not Path(path).exists()


def test_a_question_that_names_another_sink_is_refused_unless_the_writer_adopts(path: str) -> None:
    question = asking((0, 5))._replace(sinks=("/lake/flights",))
    with pytest.raises(AnotherSink, match="belongs to a query that writes to /lake/flights"):
        nothing_read(Writer(path), question)
    assert handover.read_reports(question) == NO_REPORT
    nothing_read(Writer(path, adopt=True), question)
    assert handover.read_reports(question) == WriterReport((path,), adopt=True)
    handover.delete_reports(question)


def test_with_adopt_a_batch_of_another_sink_is_written_and_the_source_told(path: str) -> None:
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


def test_where_a_query_has_several_sinks_each_says_that_it_was_given_the_batch(path: str) -> None:
    sinks = (path, f"{path}-b")
    shared = Span("a", {P0: (0, 5)}, sinks)
    nothing_read(Writer(path), shared)
    assert handover.read_reports(shared) == WriterReport((path,))
    nothing_read(Writer(f"{path}-b"), shared)
    assert handover.read_reports(shared) == WriterReport(sinks)
    handover.delete_reports(shared)


def test_a_file_that_cannot_be_read_counts_as_none(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    question = asking((0, 5))
    nothing_read(Writer(path), question)
    nothing_read(Writer(f"{path}-b"), question)
    torn, whole = sorted(tmp_path.glob("apportion-*/*"))
    kept = json.loads(whole.read_text())["sink"]
    for text in ("", '{"sink": "/la', "[]", "{}"):
        torn.write_text(text)
        assert handover.read_reports(question) == WriterReport((kept,))


def test_an_answer_to_an_earlier_question_is_none_to_a_later_one(path: str) -> None:
    question = asking((0, 5))
    nothing_read(Writer(path), question)
    assert handover.read_reports(question._replace(question_number=2)) == NO_REPORT
    handover.delete_reports(question)


def test_offsets_without_a_name_are_looked_for_in_the_table_too(path: str) -> None:
    batch(Writer(path), (1, 0, 5))
    question = Span("asked", {}, question_number=1, unclaimed=(P0, P0._replace(partition=1)))
    nothing_read(Writer(path), question)
    assert handover.read_reports(question) == WriterReport((path,), has_records=True)
    handover.delete_reports(question)


def test_with_rewind_a_batch_above_the_fence_is_skipped_and_the_source_rewound(
    path: str,
) -> None:
    writer = Writer(path, rewind=True)
    batch(writer, (0, 0, 5), (1, 0, 5))
    batch(writer, (0, 7, 9), (1, 5, 9))
    span = sorted_span("a", {P0: (7, 9), TopicIdPartition("t", TOPIC_ID, 1): (5, 9)})
    assert handover.read_reports(span).rewind == {P0: 5}
    assert handover.read_reports(sorted_span("a", {P0: (5, 9)})).rewind == {}  # it has gone back
    assert (stored(path), orphans(path)) == (every((0, 0, 5), (1, 0, 9)), [])
    batch(writer, (0, 7, 9), (1, 5, 9))  # Spark replays it
    batch(writer, (0, 5, 9), (1, 9, 10))
    assert stored(path) == every((0, 0, 9), (1, 0, 10))
    handover.delete_reports(span)


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_source_that_went_back_as_far_as_it_could_is_not_sent_back_again(
    path: str, fail_on_data_loss: bool
) -> None:
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


def test_an_option_that_is_set_later_decides_on_the_next_batch(path: str) -> None:
    writer = Writer(path)
    batch(writer, (0, 0, 5))
    writer.fail_on_data_loss = False
    batch(writer, (0, 7, 9))
    assert stored(path) == every((0, 0, 5), (0, 7, 9))
    writer.fail_on_data_loss, writer.rewind = True, True
    batch(writer, (0, 11, 12))
    span = sorted_span("a", {P0: (11, 12)})
    assert handover.read_reports(span).rewind == {P0: 9}
    handover.delete_reports(span)
