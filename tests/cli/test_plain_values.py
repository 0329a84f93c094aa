"""Values of options that commands take as they were typed."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

from apportion.cli.command_group import Commands

app = typer.Typer(cls=Commands, add_completion=False)


@app.command()
def take(
    text: Annotated[str, typer.Argument()] = "given by default",
    rest: Annotated[list[str] | None, typer.Argument()] = None,
    path: Annotated[Path | None, typer.Option()] = None,
    there: Annotated[Path | None, typer.Option(exists=True)] = None,
    names: Annotated[list[str] | None, typer.Option("--name")] = None,
    size: Annotated[int | None, typer.Option(max=3)] = None,
) -> None:
    """Print what it is given."""
    typer.echo(repr((text, rest, path, there, names, size)))


@app.command()
def other() -> None:
    """Do nothing; with one command alone there would be no group."""


def taken(*words: str) -> str:
    """Return what the command is given for a command line."""
    return CliRunner().invoke(app, ["take", *words]).output.strip()


def test_text_and_paths_are_taken_as_typed() -> None:
    assert taken("a", "b", "", "--path", "x/../y", "--name", "1", "--name", " ") == repr(
        ("a", ["b", ""], Path("x/../y"), None, ["1", " "], None)
    )


def test_an_option_that_is_not_given_has_its_default() -> None:
    assert taken() == repr(("given by default", None, None, None, None, None))


def test_typer_still_converts_numbers_and_checks_paths(tmp_path: Path) -> None:
    assert taken("--size", "3", "--there", str(tmp_path)) == repr(
        ("given by default", None, None, tmp_path, None, 3)
    )
    assert "less than or equal to 3" in taken("--size", "4")
    assert "does not exist" in taken("--there", "nowhere")


def test_a_command_that_is_given_text_imports_no_pydantic() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from tests.cli.test_plain_values import *"
        "; print(taken('a', '--path', 'b', '--name', 'c')); print('pydantic' in sys.modules)"
    )
    words = [sys.executable, "-c", program]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["('a', None, PosixPath('b'), None, ['c'], None)", "False"]
