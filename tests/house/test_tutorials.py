"""The tutorials are walked as their readers walk them. The one with Spark is in
tests/spark/test_tutorial.py.
"""

from pathlib import Path

import pytest
from tools.pages import ROOT

from tests.house.examples import WALKED
from tests.house.tutorials import Command, commands, is_as_shown, play, steps

TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.mark.parametrize("name", ["test-with-pytest", "rehearse-an-upgrade", "operate-a-group"])
def test_a_tutorial_does_what_it_says(name: str, tmp_path: Path) -> None:
    play(TUTORIALS / f"{name}.md", tmp_path)


@pytest.mark.parametrize("name", WALKED)
def test_a_page_of_commands_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    play(ROOT / "docs" / name, tmp_path)


def test_every_tutorial_is_walked_by_a_test() -> None:
    assert {page.stem for page in TUTORIALS.glob("*.md")} == {
        "test-with-pytest",
        "rehearse-an-upgrade",
        "share-a-topic",
        "operate-a-group",
    }


def test_a_block_without_a_mark_is_refused() -> None:
    with pytest.raises(AssertionError, match="a block has no mark"):
        steps("<!-- run -->\n```console\n$ true\n```\n\n```python\n1 / 0\n```\n")


def test_a_command_that_prints_something_else_is_a_failure(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- run -->\n```console\n$ echo one; echo two\none\nthree\n```\n")
    with pytest.raises(AssertionError, match="is not as shown"):
        play(page, tmp_path)


def test_shown_output_may_leave_out_parts_with_dots() -> None:
    assert commands("$ a\nx ... z\n...\nend\n$ b\n") == [
        Command("a", "x ... z\n...\nend"),
        Command("b", ""),
    ]
    assert is_as_shown("x y z  \nmore\nend\n", "x ... z\n...\nend")
    assert not is_as_shown("x y\nend\n", "x ... z\n...\nend")
