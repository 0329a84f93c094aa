"""Notes of machines and rules become log lines that a terminal cannot obey."""

import logging

import pytest

from apportion.drive.notes import log_note
from apportion.machine import Note

NOTE = Note("warning", "cannot fetch t-0 now: \x1b[2J", ": is the broker up?")


@pytest.mark.parametrize(
    ("group_id", "line"),
    [
        (None, r"cannot fetch t-0 now: \x1b[2J: is the broker up?"),
        ("a\nb", r"group a\nb: cannot fetch t-0 now: \x1b[2J: is the broker up?"),
    ],
)
def test_a_note_is_one_line_with_its_group_and_its_hint(
    group_id: str | None, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_note(logging.getLogger("notes"), NOTE, group_id)
    assert caplog.record_tuples == [("notes", logging.WARNING, line)]
