"""The public face is typed: mypy sees every mistake that `public.py` marks, and nothing else
there.
"""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import apportion

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PUBLIC = ("apportion", "apportion.spark", "apportion.streams", "apportion.testing")
LINE = re.compile(r"^[^:]*public\.py:(\d+): error: (.*)$")


@pytest.fixture(scope="module")
def errors() -> dict[int, str]:
    """What mypy says of public.py, line -> text."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        str(HERE / "public.py"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    matches = [LINE.match(line) for line in done.stdout.splitlines()]
    assert any(matches), done.stdout + done.stderr
    return {int(match[1]): match[2] for match in matches if match}


def test_a_checker_finds_each_mistake_and_no_other(errors: dict[int, str]) -> None:
    lines = (HERE / "public.py").read_text().splitlines()
    wanted = {
        # a comment of its own marks the line below it
        number + line.strip().startswith("# E: "): line.partition("# E: ")[2]
        for number, line in enumerate(lines, 1)
        if "# E: " in line
    }
    assert {number: text for number, text in errors.items() if number not in wanted} == {}
    assert {
        number: text for number, text in wanted.items() if text not in errors.get(number, "")
    } == {}


@pytest.mark.parametrize("package", PUBLIC)
def test_names_loaded_on_first_use_are_those_that_checkers_see(package: str) -> None:
    module: Any = importlib.import_module(package)
    source = (
        Path(module.__file__).read_text().partition("if TYPE_CHECKING:")[2].partition("else:")[0]
    )
    imported = re.findall(
        r"\b(\w+)(?:,|\)|$)", re.sub(r"from [\w.]+ import", "", source), re.MULTILINE
    )
    assert sorted(set(imported)) == sorted(name for name in module.__all__ if name != "__version__")
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_an_editor_is_offered_public_names_alone() -> None:
    names = [name for name in dir(apportion) if not name.startswith("__")]
    rooms = ["adapters", "assignors", "broker", "errors", "spark", "streams", "testing"]
    assert names == sorted([name for name in apportion.__all__ if name != "__version__"] + rooms)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'apportion' has no attribute 'Consumr'"):
        apportion.Consumr  # type: ignore[attr-defined]  # noqa: B018
