"""Every example of docs/ is right for a type checker, and runs, or says why it does not; every
command that a page names has its options. tests/spark/test_examples.py runs those with Spark.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from apportion.cli.main import app
from tests.house.examples import (
    DOCS,
    NOT_RUN,
    ROOT,
    WALKED,
    Example,
    commands_in,
    examples,
    examples_of,
    run,
)
from tests.house.tutorials import Step, Walk, steps

EXAMPLES = examples()
PROGRAMS = [example for example in EXAMPLES if example.kind == "python"]
RUN = [example for example in PROGRAMS if example.mark == "run"]
TYPED = [
    example
    for example in EXAMPLES
    if example.kind == "console" and example.mark in ("run", "background")
]
LOOSE = "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls\n"
PAGES = [*sorted(DOCS.rglob("*.md")), *ROOT.glob("*.md"), *sorted(ROOT.glob("changelog.d/*.md"))]
COMMAND = typer.main.get_command(app)
USAGE_ERROR: Any = typer.BadParameter.__base__  # typer has a click of its own, or the other one


def test_every_program_is_right_for_a_type_checker(tmp_path: Path) -> None:
    """One call of mypy for all programs, those of the tutorials too: they have the settings of our
    own code, but that functions may lack annotations.
    """
    for program in PROGRAMS:
        (tmp_path / f"{program.name}.py").write_text(LOOSE + program.program)
    for page in [*DOCS.glob("tutorials/*.md"), *(DOCS / name for name in WALKED)]:
        for step in steps(page.read_text()):
            if step.mark.startswith("file "):
                file = tmp_path / step.mark.removeprefix("file ")
                assert not file.exists(), f"{page.name}: another page has a {file.name}"
                file.write_text(LOOSE + step.text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *sorted(map(str, tmp_path.glob("*.py")))],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", RUN, ids=lambda example: example.name)
def test_a_program_runs_to_its_end(example: Example, tmp_path: Path) -> None:
    run(example, tmp_path)


@pytest.mark.parametrize("example", TYPED, ids=lambda example: example.name)
def test_a_command_prints_what_is_shown(example: Example, tmp_path: Path) -> None:
    walk = Walk(tmp_path, columns=100)
    try:
        walk.take(Step(example.mark, example.text))
    finally:
        walk.close()


def test_these_examples_are_not_run() -> None:
    assert [
        (example.page, example.mark.removeprefix(NOT_RUN))
        for example in EXAMPLES
        if example.mark not in ("run", "run with spark", "background")
    ] == [
        ("assignors.md", "the module is the reader's"),
        ("security.md", "it needs a secured cluster"),
        ("security.md", "it needs a secured cluster"),
        ("security.md", "it needs a secured cluster"),
        ("security.md", "tests/house/test_secured_page.py runs it"),
        ("security.md", "tests/house/test_secured_page.py runs it"),
        ("security.md", "tests/house/test_secured_page.py runs it"),
        ("simulator.md", "two minutes"),
        ("simulator.md", "shows a planted bug"),
        ("simulator.md", "hours, on Spark"),
        ("simulator.md", "hours; tests/spark/test_seeds.py plays fewer"),
        ("simulator.md", "hours"),
        ("spark-metrics.md", "a query goes on until it is stopped"),
        ("spark.md", "needs a schema registry"),
        ("spark.md", "what it prints is of one machine"),
        ("spark.md", "it waits for a signal, and a test runs README's"),
        ("streams.md", "needs an application of Kafka Streams"),
        ("streams.md", "minutes; `make long ARGS='--only rehearsals'` plays it"),
        ("streams.md", "a part of a program, without its stores"),
    ]


def parse(line: str) -> None:
    """Let the command line read a command; raises USAGE_ERROR for a command or an option that it
    does not know.
    """
    words = shlex.split(line)[1:]
    words = words[: next((at for at, word in enumerate(words) if word in ("||", "|", ">")), None)]
    command: Any = COMMAND
    context = typer.Context(COMMAND, info_name="apportion")
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        name, command, words = command.resolve_command(context, words)
        context = typer.Context(command, parent=context, info_name=name)
    command.make_parser(context).parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_one_that_can_be_typed(page: Path) -> None:
    wrong = []
    for command in commands_in(page.read_text()):
        try:
            parse(command)
        except USAGE_ERROR as error:
            if not error.message.endswith(
                "requires an argument."
            ):  # as in "`apportion sim --runs`"
                wrong.append((command, error.message))
    assert wrong == []


def test_every_target_of_make_that_a_page_names_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert named - targets == set()
    assert "demo" in named


def test_a_command_with_an_unknown_word_is_found() -> None:
    for command in ("apportion sim --seeds 3", "apportion group list", "apportion serve --port 1"):
        with pytest.raises(USAGE_ERROR):
            parse(command)


def test_an_example_without_a_comment_is_refused() -> None:
    with pytest.raises(AssertionError, match="no comment before the block at line 1"):
        examples_of("a.md", "```python\n1 / 0\n```\n")
    with pytest.raises(AssertionError, match="a command is in a block that is no console"):
        examples_of("a.md", "<!-- run -->\n```\n$ apportion sim --seed 1\n```\n")
