"""tools/long.py: which searches there are, and that a failure is told with the command that plays
it again.
"""

import shlex
import subprocess
import sys
from typing import Any

import pytest
from tools import long
from tools.long import SEARCHES, Search, chosen, main


def test_every_search_is_a_command_with_its_seed() -> None:
    for search in SEARCHES:
        lines = {search.line(seed, is_sample=False) for seed in (17, 18)}
        assert len(lines) == 2
        assert [line for line in lines if "{" in line] == []


def test_ci_takes_a_sample_of_those_that_have_a_small_size() -> None:
    assert [search.name for search in chosen([], is_sample=True)] == [
        search.name for search in SEARCHES if search.sample
    ]
    assert chosen([], is_sample=False) == list(SEARCHES)
    assert [search.name for search in chosen(["kills"], is_sample=True)] == ["kills"]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two searches instead of the real ones; the second fails."""
    command = "{python} -c 'raise SystemExit({size} - 4)'"
    monkeypatch.setattr(
        long,
        "SEARCHES",
        (Search("holds", command, 4, 4), Search("fails", command + " {seed}", 4, 7)),
    )


def test_a_search_that_fails_is_told_with_its_seed(
    searches: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--sample", "--seed", "17"]) == 1
    output = capfd.readouterr().out
    assert "== holds: holds after" in output
    assert "== fails: exit code 3 after" in output
    again = (
        "make long ARGS='--seed 17 --only fails --sample'\nwhich is\n    .venv/bin/python -c "
        "'raise SystemExit(7 - 4)' 17\n"
    )
    assert output.endswith(f"fails failed. Again:\n    {again}")


def test_a_seed_is_fresh_unless_it_is_said(
    searches: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [main([]), main([])] == [0, 0]
    lines = [
        line for line in capfd.readouterr().out.splitlines() if line.startswith("== fails: .venv")
    ]
    assert len({*lines}) == 2


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.name)
def test_a_search_names_tests_that_there_are_and_options_that_are_understood(
    search: Search,
) -> None:
    words = shlex.split(search.line(17, is_sample=True))
    words = words[
        next(position for position, word in enumerate(words) if word == long.PYTHON) + 1 :
    ]
    asked = [*words, "--collect-only"] if words[:2] == ["-m", "pytest"] else [*words, "--help"]
    done = subprocess.run([sys.executable, *asked], cwd=long.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
