"""The laws of the house (`laws.py`, `name_laws.py`), asked of every module.

Below, each is shown to bite.
"""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.laws import (
    FILE_LINES,
    FLOORS,
    FUNCTION_LINES,
    HEAVY,
    ROOT,
    SOURCE,
    docstring_faults,
    floor_faults,
    function_lengths,
    heavy_faults,
    import_circles,
    order_faults,
    place_faults,
    ratchet_faults,
    room_of,
    sources,
    stray_string_faults,
    summary_faults,
    world_faults,
)
from tests.name_laws import TEST_NAME_LENGTH, name_faults, name_faults_of_tests, type_names

# The ratchets: what is longer than the wall today, with its length. A row may shrink or go; none
# may come or grow.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}
# Public type names that stand in more than one module today. A name may go; none may come.
NAMES_TWICE: dict[str, int] = {}
# Modules that import each other today, by the first of their circle. A circle may shrink or go;
# none may come or grow.
CIRCLES: dict[str, int] = {}


def tracked() -> list[str]:
    """Every file that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert "pyproject.toml" in listed
    return [name for name in listed if (ROOT / name).is_file()]


LAWS = [
    floor_faults,
    world_faults,
    heavy_faults,
    order_faults,
    name_faults,
    docstring_faults,
    summary_faults,
    stray_string_faults,
]


def test_no_public_type_name_stands_twice() -> None:
    defined = {name: len(paths) for name, paths in type_names(sources()).items()}
    assert ratchet_faults(defined, NAMES_TWICE, 1) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert (
        ratchet_faults({circle[0]: len(circle) for circle in import_circles(sources())}, CIRCLES, 1)
        == []
    )


@pytest.mark.parametrize("law", LAWS)
def test_every_module_keeps_the_law(law: Any) -> None:
    assert [fault for path, tree in sources() for fault in law(path, tree)] == []


def test_every_test_has_a_short_name_with_a_subject() -> None:
    assert [
        fault
        for name in tracked()
        if name.startswith("tests/") and name.endswith(".py")
        for fault in name_faults_of_tests(name, ast.parse((ROOT / name).read_text()))
    ] == []


def test_files_do_not_grow_over_the_wall() -> None:
    lengths = {
        name: len((ROOT / name).read_text().splitlines())
        for name in tracked()
        if name.endswith(".py")
    }
    long = {name: lines for name, lines in lengths.items() if lines > FILE_LINES}
    assert ratchet_faults(long, LONG_FILES, FILE_LINES) == []


def test_functions_do_not_grow_over_the_wall() -> None:
    long: dict[str, int] = {}
    for name in tracked():
        if name.endswith(".py"):
            long |= function_lengths(name, ast.parse((ROOT / name).read_text()))
    assert ratchet_faults(long, LONG_FUNCTIONS, FUNCTION_LINES) == []


def test_tracked_files_name_no_registry_and_no_machine() -> None:
    faults: list[str] = []
    for name in tracked():
        try:
            faults += place_faults(name, (ROOT / name).read_text())
        except UnicodeDecodeError:
            continue  # recorded bytes
    assert faults == []


# What `apportion serve` imports: every room up to floor 5 but columns, streams' kernels and the
# client, and the command itself.
SERVED = sorted(
    room
    for room, floor in FLOORS.items()
    if floor <= 5
    and room not in ("columns", "client", "sim")
    and any(room_of(path) == room for path, _ in sources())
) + [f"cli/{name}" for name in ("main", "serving") if (SOURCE / "cli" / f"{name}.py").exists()]


@pytest.mark.parametrize("room", SERVED)
def test_the_server_imports_nothing_heavy(room: str) -> None:
    modules = [path for path, _ in sources() if path.startswith((room + "/", room + ".py"))]
    names = [
        "apportion." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in modules
    ]
    assert heavy_modules_after("; ".join(f"import {name}" for name in names)) == []


def heavy_modules_after(program: str) -> list[str]:
    """Which heavy libraries a fresh interpreter has loaded after `program`."""
    check = (
        f"{program}\nimport sys; print(*(name for name in {sorted(HEAVY)} if name in sys.modules))"
    )
    return subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    ).stdout.split()


# The laws bite: (law, path, a snippet that breaks it). The same snippet where it is allowed must
# pass.
BITES = [
    (floor_faults, "wire/x.py", "from apportion.coord.shard import Shard"),
    (floor_faults, "wire/x.py", "from apportion import coord"),
    (floor_faults, "coord/x.py", "def f():\n    import apportion.member.consumer.machine"),
    (floor_faults, "coord/x.py", "from ..store import log"),
    (floor_faults, "attic/x.py", "import json"),
    (world_faults, "coord/x.py", "import time"),
    (world_faults, "store/log.py", "from os import path"),
    (world_faults, "deadlines.py", "import asyncio.events"),
    (heavy_faults, "server/x.py", "import pyarrow as pa"),
    (heavy_faults, "assign/x.py", "from numba import njit"),
    (heavy_faults, "columns/x.py", "import pyspark"),
    (heavy_faults, "testing/x.py", "import pyspark.sql"),
    (order_faults, "coord/x.py", "for x in {1, 2}: pass"),
    (order_faults, "coord/x.py", "def f(a):\n    return [x for x in set(a)]"),
    (order_faults, "coord/x.py", "def f(a: set[int]):\n    return list(a)"),
    (order_faults, "coord/x.py", "def f(a: frozenset[int] | None):\n    for x in a - {1}: pass"),
    (order_faults, "coord/x.py", "def f(a):\n    b = set(a)\n    return [*b]"),
    (
        order_faults,
        "coord/x.py",
        "class G:\n    a: frozenset[int]\ndef f(g: G):\n    return tuple(g.a)",
    ),
    (order_faults, "wire/x.py", "def f(a):\n    return hash(a)"),
    (name_faults, "coord/group_manager.py", ""),
    (name_faults, "utils/x.py", ""),
    (docstring_faults, "coord/x.py", "x = 1"),
    (docstring_faults, "coord/x.py", '"""M."""\ndef f(): ...'),
    (docstring_faults, "coord/x.py", '"""M."""\nclass C:\n    """C."""\n    def f(self): ...'),
    (summary_faults, "coord/x.py", '"""What a group is."""'),
    (summary_faults, "coord/x.py", 'class C:\n    """Who leads."""'),
    (summary_faults, "coord/x.py", 'def f():\n    """Whether it leads."""'),
    (summary_faults, "coord/x.py", 'def f(a_ms):\n    """a_ms: how long."""'),
    (
        stray_string_faults,
        "coord/x.py",
        'def f(a):\n    b = a\n    """Double."""\n    return 2 * b',
    ),
    (stray_string_faults, "coord/x.py", 'def f():\n    """A."""\n    if f():\n        """B."""'),
]


@pytest.mark.parametrize(("law", "path", "snippet"), BITES)
def test_a_law_bites(law: Callable[..., Iterator[str]], path: str, snippet: str) -> None:
    assert len(list(law(path, ast.parse(snippet)))) == 1


PASSES = [
    (
        floor_faults,
        "coord/x.py",
        "from apportion.wire import codec\nfrom . import shard\nfrom ..errors import "
        "Code\nimport apportion",
    ),
    (world_faults, "drive/x.py", "import time"),
    (world_faults, "store/files.py", "import os"),
    (world_faults, "server/x.py", "import asyncio, logging"),
    (heavy_faults, "columns/x.py", "import numba"),
    (heavy_faults, "spark/x.py", "import pyspark, pyarrow"),
    (heavy_faults, "testing/x.py", "import pyarrow"),
    (order_faults, "server/x.py", "for x in {1, 2}: hash(x)"),
    (
        order_faults,
        "coord/x.py",
        "def f(a: set[int]):\n    b = dict.fromkeys(sorted(a))\n    return [x for x in b "
        "if x in a]",
    ),
    (
        order_faults,
        "coord/x.py",
        "def f(a: set[int]): ...\ndef g(a: list[int]):\n    return list(a)",
    ),
    (docstring_faults, "coord/x.py", '"""M."""\ndef _f(): ...\nclass _C:\n    def g(self): ...'),
    (
        summary_faults,
        "coord/x.py",
        '"""Whole sizes."""\ndef f(a):\n    """Begin.\n\n    a: where."""',
    ),
    (
        stray_string_faults,
        "coord/x.py",
        'x = 1\n"""One."""\ndef f():\n    """F."""\n    def g():\n        """G."""',
    ),
]


@pytest.mark.parametrize(("law", "path", "snippet"), PASSES)
def test_a_law_lets_pass_what_is_right(
    law: Callable[..., Iterator[str]], path: str, snippet: str
) -> None:
    assert list(law(path, ast.parse(snippet))) == []


def test_a_long_function_is_seen() -> None:
    snippet = "def f():\n" + "    x = 1\n" * FUNCTION_LINES
    assert function_lengths("x.py", ast.parse(snippet)) == {"x.py::f": FUNCTION_LINES + 1}
    assert (
        function_lengths("x.py", ast.parse(snippet.replace("    x = 1\n", '    """Doc."""\n', 1)))
        == {}
    )


TWICE = [
    "class Action: ...",
    "Action = Append | Reply",
    "Action: TypeAlias = Append | Reply",
    'Action = NewType("Action", int)',
    "Action = Callable[[Turn], None]",
    "if TYPE_CHECKING:\n    Action = Append\nelse:\n    Action = object",
    "try:\n    from x import Y\nexcept ImportError:\n    Action = None",
    *(["type Action = Append"] if sys.version_info >= (3, 12) else []),
]


@pytest.mark.parametrize("text", TWICE)
def test_a_type_name_that_stands_twice_is_seen(text: str) -> None:
    first, other = ast.parse("class Action: ..."), ast.parse(text)
    assert type_names([("coord/x.py", first), ("node/y.py", other)]) == {
        "Action": ["coord/x.py", "node/y.py"]
    }
    assert type_names([("wire/messages/x.py", first), ("wire/messages/y.py", other)]) == {}


@pytest.mark.parametrize(
    "text", ["class _Action: ...", "ACTION = 1", 'T = TypeVar("T")', 'Body = TypeVar("Body")']
)
def test_a_private_type_a_constant_and_a_type_variable_may_stand_twice(text: str) -> None:
    modules = [(path, ast.parse(text)) for path in ("coord/x.py", "node/y.py")]
    assert type_names(modules) == {}


def test_a_long_name_of_a_test_is_seen() -> None:
    name = "test_" + "a" * (TEST_NAME_LENGTH - 4)
    text = f"class TestA:\n    async def {name}(self): ..."
    assert list(name_faults_of_tests("x.py", ast.parse(text))) == [
        f"x.py:2: {name} has 81 characters"
    ]
    for shorter in (name[:-1], "a" + name):
        assert not list(name_faults_of_tests("x.py", ast.parse(f"def {shorter}(): ...")))


def test_a_name_of_a_test_without_a_subject_is_seen() -> None:
    assert list(name_faults_of_tests("x.py", ast.parse("def test_what_is_wrong_fails(): ..."))) == [
        "x.py:1: test_what_is_wrong_fails does not name its subject"
    ]
    for other in ("what_is_wrong", "test_whole_tasks_move", "test_a_reader_sees_what_is_there"):
        assert not list(name_faults_of_tests("x.py", ast.parse(f"def {other}(): ...")))


def test_an_import_circle_is_seen() -> None:
    arrows = {
        "sim/a.py": "from apportion.sim.b import B",
        "sim/b.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from apportion.sim.c import C"
        ),
        "sim/c.py": "def f():\n    from apportion.sim import a",
        "sim/d.py": "import apportion.sim.a",
    }
    assert import_circles([(path, ast.parse(text)) for path, text in arrows.items()]) == [
        ["sim/a.py", "sim/b.py", "sim/c.py"]
    ]


def test_a_ratchet_only_shrinks() -> None:
    assert ratchet_faults({"a": 70}, {}, 60) == ["a: 70 lines, wall 60"]
    assert ratchet_faults({"a": 71}, {"a": 70}, 60) == ["a: 71 lines, wall 70"]
    assert ratchet_faults({"a": 69}, {"a": 70}, 60) == ["a: lower its row from 70 to 69"]
    assert ratchet_faults({}, {"a": 70}, 60) == ["a: lower its row from 70 to 0"]
    assert ratchet_faults({"a": 70}, {"a": 70}, 60) == []


def test_registries_and_machine_paths_are_seen() -> None:
    bad = [
        "https://" + "pypi" + ".org/simple",
        "--index-url " + "http://x/simple",
        "see /" + "work/main",
        "open('/" + "root/x')",
    ]
    assert [len(list(place_faults("x", line))) for line in bad] == [1, 1, 1, 1]
    assert (
        list(place_faults("x", "--no-emit-index-url --no-emit-find-links framework/x src/work/y"))
        == []
    )


def test_a_heavy_import_is_seen() -> None:
    assert heavy_modules_after("import pyarrow") == ["pyarrow"]
