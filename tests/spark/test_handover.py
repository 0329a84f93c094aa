"""What writers leave for their source, where the directory for it is missing, cannot be made, or is
not private.
"""

import os
import time
from pathlib import Path

import pytest

from apportion.member.batch.span import Span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.spark.options.stream import SourceOptions
from apportion.spark.processes import handover
from apportion.spark.processes.private_files import NoPrivateDirectory
from apportion.spark.queries.planned_batches import PlannedBatchFile, planned_batches
from apportion.topics import TopicIdPartition
from tests.spark.error_page import assert_on_page

QUESTION = Span("asked", {TopicIdPartition("t", b"i" * 16, 0): (5, 5)}, question_number=1)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory, which does not exist yet."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.mark.parametrize("is_directory", [True, False])
def test_hearing_nothing_makes_nothing_and_needs_no_directory(
    temporary: Path, is_directory: bool
) -> None:
    temporary.mkdir() if is_directory else temporary.write_text("no directory")
    assert handover.read_reports(QUESTION) == NO_REPORT
    handover.delete_reports(QUESTION)
    assert not is_directory or list(temporary.iterdir()) == []


def test_a_query_goes_on_without_any_temporary_directory(temporary: Path) -> None:
    assert handover.read_reports(QUESTION) == NO_REPORT
    handover.delete_reports(QUESTION)


def test_a_writer_that_can_leave_no_word_says_what_is_to_be_done(temporary: Path) -> None:
    wrong = "no temporary directory that this user may write to"
    with pytest.raises(NoPrivateDirectory) as refused:
        handover.require_directory("/lake")
    assert_on_page(wrong, refused.value)
    with pytest.raises(NoPrivateDirectory) as refused:
        handover.write_report(QUESTION, "/lake")
    assert_on_page(wrong, refused.value)


def test_reports_of_queries_that_were_not_started_for_a_week_are_removed(temporary: Path) -> None:
    def left_for(days: int) -> Path:
        handover.write_report(QUESTION, f"/lake/{days}")
        (report,) = {*directory.iterdir()} - {*known}
        known.append(report)
        written = time.time() - days * 24 * 3600
        os.utime(report, (written, written))
        return report

    temporary.mkdir()
    directory, known = temporary / f"apportion-{os.getuid()}", list[Path]()
    directory.mkdir(mode=0o700)
    recent, old = left_for(6), left_for(8)
    handover.write_report(QUESTION, "/lake")
    assert (recent.exists(), old.exists()) == (True, False)


def test_the_batch_of_a_query_that_was_idle_for_a_week_is_not_removed(temporary: Path) -> None:
    temporary.mkdir()
    options = {"kafka.bootstrap.servers": "b:9092", "kafka.group.id": "g", "subscribe": "t"}
    source = PlannedBatchFile("a" * 32, SourceOptions.parse(options))
    source.write(QUESTION)
    (batch,) = planned_batches("a" * 32)
    os.utime(batch, (time.time() - 8 * 24 * 3600,) * 2)
    handover.write_report(QUESTION, "/lake")
    assert list(planned_batches("a" * 32)) == [batch]
    source.close()


def test_a_directory_that_others_may_write_to_is_no_way_to_hand_over(temporary: Path) -> None:
    temporary.mkdir()
    handover.write_report(QUESTION, "/lake")
    assert handover.read_reports(QUESTION) == WriterReport(("/lake",))
    (private,) = temporary.iterdir()
    assert private.stat().st_mode & 0o777 == 0o700
    private.chmod(0o777)
    with pytest.raises(NoPrivateDirectory, match="nobody else may write"):
        handover.read_reports(QUESTION)
    with pytest.raises(NoPrivateDirectory, match="nobody else may write"):
        handover.write_report(QUESTION, "/lake")
    with pytest.raises(NoPrivateDirectory) as refused:
        handover.require_directory("/lake")
    assert_on_page("a private directory that others may write to", refused.value)
