"""The command line: it teaches, and says in one sentence what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion import __version__
from apportion.cli.main import app


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output of the command, run in this process."""
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, " ".join(result.output.split())


def test_help_shows_how_to_start() -> None:
    code, text = run("--help")
    assert code == 0
    assert "apportion serve --listen 127.0.0.1:9092 --data-dir ./data" in text
    code, text = run("serve", "--help")
    assert code == 0
    assert "--set num.partitions=12" in text
    assert "listening on HOST:PORT" in text


def test_the_help_of_serve_shows_how_to_write_a_user_of_scram() -> None:
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    assert "'SCRAM-SHA-256=[name=alice,password=...]'" in shown


def test_the_version_is_said() -> None:
    assert run("--version") == (0, f"apportion {__version__}")


def test_a_wrong_setting_is_named_before_anything_starts(tmp_path: Path) -> None:
    serve = [sys.executable, "-m", "apportion.cli.main", "serve", "--data-dir", f"{tmp_path}/data"]
    wrong = [*serve, "--set", "num.partition=3"]
    done = subprocess.run(wrong, capture_output=True, text=True, timeout=60)
    sentence = "there is no setting 'num.partition'; did you mean num.partitions?"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"apportion serve: {sentence}\n")
    assert not (tmp_path / "data").exists()


def test_serving_imports_neither_numba_nor_pyarrow() -> None:
    look = (
        "import sys, apportion.cli.serving; print([m for m in ('numba', 'pyarrow', 'pyspark') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["serve"],
        ["groups"],
        ["groups", "describe"],
        ["groups", "remove-members"],
        ["topics", "create"],
        ["topics", "delete"],
    ],
)
def test_the_help_shows_a_flag_without_a_type(command: list[str]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "100"}).output
    assert "--help" in shown
    assert "<bool>" not in shown


def test_a_command_imports_no_other_command() -> None:
    script = (
        "import sys\n"
        "from apportion.cli.main import app\n"
        "try:\n"
        "    app(['topics', '--help'])\n"
        "except SystemExit:\n"
        "    print([name for name in sys.modules if name.startswith('apportion.cli.groups')])\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_wrong_command_is_answered_with_one_that_is_like_it() -> None:
    for wrong, right in (("topcs", "topics"), ("doctr", "doctor")):
        code, text = run(wrong)
        assert code == 2
        assert f"Did you mean '{right}'?" in text
