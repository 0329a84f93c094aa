"""Requests to a query's source to stop, and its answers, as files."""

import os
import time
from pathlib import Path

import pytest

from apportion.member.batch.span import Span
from apportion.spark.processes import stop_requests
from apportion.spark.processes.private_files import private_directory
from apportion.spark.processes.stop_requests import StopAnswer, StopRequest
from apportion.topics import TopicIdPartition

SPAN = Span("c", {TopicIdPartition("t", b"i" * 16, 0): (5, 9)}, ("/lake/t",))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("request_", [StopRequest(), StopRequest(SPAN)])
def test_a_request_is_read_by_its_checkpoint_alone(request_: StopRequest) -> None:
    stop_requests.write_request("c", request_)
    assert stop_requests.request_or_none("c") == request_
    assert stop_requests.request_or_none("another") is None


def test_an_answer_is_read_as_it_was_given() -> None:
    stop_requests.write_answer("c", StopAnswer(is_committed=True, has_left=False))
    assert stop_requests.answer_or_none("c") == StopAnswer(is_committed=True, has_left=False)
    assert stop_requests.answer_or_none("another") is None


def test_a_request_that_is_taken_back_and_its_answer_are_gone() -> None:
    stop_requests.write_request("c", StopRequest())
    stop_requests.write_answer("c", StopAnswer(is_committed=True, has_left=True))
    stop_requests.delete_both("c")
    assert stop_requests.request_or_none("c") is None
    assert stop_requests.answer_or_none("c") is None
    assert list(private_directory().iterdir()) == []


@pytest.mark.parametrize(("age_s", "is_open"), [(25, True), (35, False), (-35, False)])
def test_a_request_holds_as_long_as_the_driver_touches_it(age_s: int, is_open: bool) -> None:
    stop_requests.write_request("c", StopRequest())
    (path,) = private_directory().iterdir()
    written = time.time() - age_s
    os.utime(path, (written, written))
    assert (stop_requests.request_or_none("c") is not None) == is_open
    stop_requests.refresh_request("c")
    assert stop_requests.request_or_none("c") == StopRequest()


def test_a_request_that_a_source_has_removed_is_not_made_anew_by_a_touch() -> None:
    stop_requests.write_request("c", StopRequest())
    stop_requests.delete_both("c")
    stop_requests.refresh_request("c")
    assert stop_requests.request_or_none("c") is None


def test_without_a_directory_nothing_is_asked_and_nothing_is_made(temporary: Path) -> None:
    assert stop_requests.request_or_none("c") is None
    stop_requests.delete_both("c")
    assert list(temporary.iterdir()) == []


def test_in_a_directory_where_others_may_write_nothing_is_read_and_nothing_breaks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop_requests.write_request("c", StopRequest())
    private_directory().chmod(0o777)
    assert stop_requests.request_or_none("c") is None
    assert stop_requests.answer_or_none("c") is None
    stop_requests.delete_both("c")
    stop_requests.write_answer("c", StopAnswer(is_committed=True, has_left=True))
    (line,) = caplog.messages
    assert line.endswith("in which nobody else may write: remove it")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"committed": 1}', '{"committed": {"v": 9}}'])
def test_a_file_that_is_no_request_is_no_request(text: str) -> None:
    stop_requests.write_request("c", StopRequest())
    stop_requests.write_answer("c", StopAnswer(is_committed=True, has_left=True))
    for path in private_directory().iterdir():
        path.write_text(text)
    assert stop_requests.request_or_none("c") is None
    assert stop_requests.answer_or_none("c") is None


def test_an_answer_that_cannot_be_left_is_said(
    temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    temporary.rmdir()
    temporary.write_text("no directory")
    stop_requests.write_answer("c", StopAnswer(is_committed=True, has_left=True))
    (line,) = caplog.messages
    assert line.startswith("the driver cannot be told that the query has left its group: ")
