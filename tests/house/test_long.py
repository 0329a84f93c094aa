"""tools/long.py: which searches there are, and that a failure is told with the command that plays
it again.
"""

import shlex
import subprocess
import sys
from typing import Any

import pytest
from tools import long
from tools.long import SEARCHES, WORLDS, Search, World, chosen, main
from typer.testing import CliRunner

from apportion.cli.main import app


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
    module, *rest = words[words.index(long.PYTHON) + 1 :]
    tests = [word for word in rest if word.startswith("tests/")]
    assert [path for path in tests if not (long.ROOT / path).exists()] == []
    rest = [word for word in rest if word not in tests[1:]]
    if [module, *rest[:1]] == ["-m", "apportion.cli.main"]:
        result = CliRunner().invoke(app, [*rest[1:], "--help"])
        assert result.exit_code == 0, result.output
        return
    asked = "--collect-only" if [module, *rest[:1]] == ["-m", "pytest"] else "--help"
    command = [sys.executable, module, *rest, asked]
    done = subprocess.run(command, cwd=long.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_command_of_a_world_says_its_sizes_and_faults(world: World) -> None:
    *_, options = world.search.line(17, is_sample=True).partition("--runs ")
    size, *words = options.split()
    assert size == str(world.sample)
    assert [*zip(words[::2], words[1::2], strict=True)] == [
        *((f"--{name.replace('_', '-')}", str(value)) for name, value in world.sizes.items()),
        *(("--fault", kind) for kind in world.kinds),
    ]
