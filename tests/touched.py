"""Which slow lanes a change touches.

The code of a lane is what it `proves` and `plays` (`tests/lanes.py`), its test files, what they
import of the tests (transitively, with every conftest.py above them) and what any of these imports
of `src/apportion` (directly). A change there touches the lane, and so does a change of the pinned
packages, or beside its tests of what no test imports: data, and programs that they start. What lies
below is proven by `make test`, and reaches the lane by the draw.
"""

import ast
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.lanes import LANES, ROOT, Lane, lane_of
from tests.laws import import_arrows, imported_among, sources

WHOLE_RUN = ROOT / "tests" / "whole_run.toml"
"""The last commit on which `make all` passed; `make all` writes it."""
PACKAGES = ("pyproject.toml", "requirements")
"""Beginnings of the files that decide which packages are installed."""


def git(*arguments: str) -> str:
    """Return what git prints. Raises CalledProcessError where it fails; what it says is printed."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.rstrip()


def last_whole_run() -> str:
    """Return the commit on which every lane passed."""
    commit: str = tomllib.loads(WHOLE_RUN.read_text())["commit"]
    return commit


def changed_since(base: str) -> list[str] | None:
    """Return the files that differ between the commit `base` and HEAD; None if there is no such
    commit here.
    """
    try:
        git("cat-file", "-e", f"{base}^{{commit}}")
    except subprocess.CalledProcessError:
        return None
    return git("diff", "--name-only", "--no-renames", base, "HEAD").splitlines()


@cache
def _test_modules() -> dict[str, ast.Module]:
    """Return every module of the tests by its path, relative to tests/."""
    tests = ROOT / "tests"
    return {
        file.relative_to(tests).as_posix(): ast.parse(file.read_text())
        for file in sorted(tests.rglob("*.py"))
        if "target" not in file.parts
    }


@cache
def _test_arrows() -> dict[str, list[str]]:
    return import_arrows(list(_test_modules().items()), "tests")


def _conftests(path: str) -> Iterator[str]:
    """Yield the conftest.py files that pytest loads for a test file; all relative to tests/."""
    for folder in Path(path).parents:
        conftest = (folder / "conftest.py").as_posix()
        if conftest in _test_modules():
            yield conftest


@cache
def test_files(lane: str) -> list[str]:
    """Return the test files of a lane, relative to tests/. A file that holds tests of several lanes
    belongs to each.
    """
    rows = [row for each in LANES if each.name == lane for row in each.tests]
    return [
        path
        for path in _test_modules()
        if Path(path).name.startswith("test_")
        and (
            lane_of(f"tests/{path}::") == lane
            or any(row.startswith(f"tests/{path}::") for row in rows)
        )
    ]


@cache
def code_of(lane: Lane) -> set[str]:
    """Return the files and folders that are the lane's code, from the root; a folder ends with a
    slash.
    """
    own = test_files(lane.name)
    seen: dict[str, None] = {}
    todo = [*own, *(conftest for path in own for conftest in _conftests(path))]
    while todo:
        path = todo.pop()
        if path not in seen:
            seen[path] = None
            todo += _test_arrows()[path]
    names = {
        "apportion." + path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path, _ in sources()
    }
    imported = {source for path in seen for source in imported_among(names, _test_modules()[path])}
    return {
        *(f"tests/{path}" for path in seen),
        *(f"src/apportion/{path}" for path in imported),
        *(f"src/apportion/{path}" for path in lane.proves),
        *lane.plays,
    }


@cache
def _imported_tests() -> set[str]:
    """Return what pytest or another test imports, from the root."""
    arrows = {path for targets in _test_arrows().values() for path in targets}
    collected = {
        path for path in _test_modules() if Path(path).name.startswith(("test_", "conftest"))
    }
    return {f"tests/{path}" for path in arrows | collected}


def touches(lane: Lane, changed: Iterable[str]) -> str:
    """Return the first of these files whose change touches the lane; "" if none does."""
    code = code_of(lane)
    folders = tuple(each for each in code if each.endswith("/"))
    homes = {f"tests/{Path(path).parent.as_posix()}/" for path in test_files(lane.name)} - {
        "tests/./"
    }
    for file in changed:
        is_beside = file.startswith(tuple(homes)) and file not in _imported_tests()
        if file in code or file.startswith((*folders, *PACKAGES)) or is_beside:
            return file
    return ""


def touched_lanes(changed: Iterable[str] | None) -> Mapping[str, str]:
    """Return lane -> a file that touches it; all lanes for None, where nobody knows the change."""
    if changed is None:
        return {lane.name: "a change nobody knows: that commit is not here" for lane in LANES}
    files = list(changed)
    return {lane.name: file for lane in LANES if (file := touches(lane, files))}
