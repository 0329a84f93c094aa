"""The programs of bench/peers that answer each line with a line: how they begin, fail and end."""

from contextlib import closing
from pathlib import Path

import pytest
from bench.peers.programs import LineProgram
from bench.peers.rows import PeerMissing


def script(directory: Path, *lines: str) -> Path:
    """Return a shell program of these lines."""
    path = directory / "talker"
    path.write_text("\n".join(("#!/bin/sh", *lines)))
    path.chmod(0o700)
    return path


def test_a_program_answers_each_line_with_a_line(tmp_path: Path) -> None:
    path = script(tmp_path, "echo ready", 'while read line; do echo "$1 $line"; done')
    with closing(LineProgram(path)) as program_of_lines:
        program_of_lines.start(["said:"])
        assert program_of_lines.ask("one") == "said: one"
        assert program_of_lines.ask("two") == "said: two"


def test_a_program_that_begins_with_another_line_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(PeerMissing, match=r'^talker said "steady" instead of "ready"$'):
        LineProgram(script(tmp_path, "echo steady", "cat")).start([])


@pytest.mark.parametrize(
    ("end", "reason"),
    [("echo no broker >&2", "^no broker$"), ("exit 1", "^talker ended without a word$")],
)
def test_a_program_that_ends_leaves_its_last_words(end: str, reason: str, tmp_path: Path) -> None:
    program_of_lines = LineProgram(script(tmp_path, "echo ready", "read line", end))
    with closing(program_of_lines):
        program_of_lines.start([])
        with pytest.raises(PeerMissing, match=reason):
            program_of_lines.ask("rest")


def test_a_program_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    silent = script(tmp_path, "exec tail -f /dev/null")  # and goes on when nobody listens
    with pytest.raises(PeerMissing, match=r"^talker gave no answer within 0\.1 s$"):
        LineProgram(silent, limit_s=0.1).start([])
