"""The laws of the house, as tests. Each law is a function from one file's syntax to its faults; below each is shown to bite."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "apportion"

# From floor 0 up: the rooms (packages or modules right under apportion). Imports only go down; rooms of one floor never meet.
STOREYS = [
    "errors topics machine deadlines readable",
    "wire assign",
    "streams columns",
    "coord member store",
    "node drive adapters",
    "server client sim",
    "spark web testing",
    "cli",
]
FLOORS = {room: floor for floor, rooms in enumerate(STOREYS) for room in rooms.split()}
WORLD = ("asyncio", "threading", "socket", "time", "random", "uuid", "logging", "os")  # what no machine may know
WORLDLY = {"drive", "store/files.py"}  # where WORLD may be imported, besides floors 5-7
HEAVY = {
    "numba": {"columns"},
    "pyarrow": {"columns"},
    "pyspark": set[str](),
}  # library -> rooms up to floor 5 that may import it
ANYWHERE_ABOVE = {"numba": 6, "pyarrow": 6}  # ... and from this floor on; pyspark: spark alone
BANNED_WORDS = {"manager", "helper", "helpers", "util", "utils", "common", "base", "impl", "info"}

FILE_LINES, FUNCTION_LINES = 400, 60
# The ratchets: what is longer than the wall today, with its length. A row may shrink or go; none may come or grow.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}


def room_of(path: str) -> str:
    """The room of a file, given relative to src/apportion: "wire" for wire/codec.py, "errors" for errors.py."""
    return path.split("/")[0].removesuffix(".py")


def imports_of(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything imported anywhere in the file, relative imports resolved."""
    package = ["apportion", *path.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            stem = ".".join([*start, *([node.module] if node.module else [])])
            if stem in ("apportion", "importlib") or not node.module:
                yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, stem


def floor_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Imports that do not go down, and rooms without a floor."""
    if path == "__init__.py":
        return  # exports lazily, so it stands on no floor
    room = room_of(path)
    if room not in FLOORS:
        yield f"{path}: room {room!r} has no floor"
        return
    for line, name in imports_of(path, tree):
        parts = name.split(".")
        if parts[0] != "apportion" or len(parts) == 1 or parts[1] == room or parts[1].startswith("__"):
            continue
        if FLOORS.get(parts[1], 99) >= FLOORS[room]:
            yield f"{path}:{line}: {room} (floor {FLOORS[room]}) imports {name} (floor {FLOORS.get(parts[1], '?')})"


def world_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Clocks, sockets, threads and the like outside the rooms that drive."""
    room = room_of(path)
    if FLOORS.get(room, 0) >= 5 or room in WORLDLY or path in WORLDLY:
        return
    for line, name in imports_of(path, tree):
        if name.split(".")[0] in WORLD:
            yield f"{path}:{line}: imports {name}"


def heavy_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """numba, pyarrow and pyspark outside their rooms."""
    room = room_of(path)
    for line, name in imports_of(path, tree):
        library = name.split(".")[0]
        if library not in HEAVY or room in HEAVY[library] or room == "spark":
            continue
        if FLOORS.get(room, 0) < ANYWHERE_ABOVE.get(library, 99):
            yield f"{path}:{line}: imports {name}"


def says_set(annotation: ast.expr | None) -> bool:
    """The annotation is a set: set[..], frozenset[..], Set[..], AbstractSet[..], alone or with None."""
    if isinstance(annotation, ast.BinOp):
        return says_set(annotation.left) or says_set(annotation.right)
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    name = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")
    return name in ("set", "frozenset", "Set", "AbstractSet", "MutableSet")


def is_set(node: ast.expr, names: dict[str, bool]) -> bool:
    """The expression is plainly a set: written as one, made by set(), joined from one, or a name that stands for one."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr="union" | "intersection" | "difference" | "copy")):
            return is_set(value, names)
        case ast.BinOp(left=left, right=right, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            return is_set(left, names) or is_set(right, names)
        case ast.Name(id=name):
            return names.get(name, False)
        case ast.Attribute(attr=name):
            return names.get("." + name, False)
    return False


def set_names(scope: ast.AST) -> dict[str, bool]:
    """Names bound or annotated as sets in `scope`; attributes with a leading dot. One also bound to something else is not."""
    names: dict[str, bool] = {}
    for node in ast.walk(scope):
        pairs: list[tuple[ast.expr, bool]] = []
        if isinstance(node, ast.arg):
            pairs = [(ast.Name(id=node.arg), says_set(node.annotation))]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(node.target, says_set(node.annotation))]
            if isinstance(node.target, ast.Name):  # a field of a class is read as an attribute
                pairs.append((ast.Attribute(value=node.target, attr=node.target.id), says_set(node.annotation)))
        elif isinstance(node, ast.Assign):
            pairs = [(target, is_set(node.value, names)) for target in node.targets]
        for target, truth in pairs:
            key = target.id if isinstance(target, ast.Name) else "." + target.attr if isinstance(target, ast.Attribute) else ""
            names[key] = truth and names.get(key, True)
    return names


def order_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Below floor 5: an order taken from a set, or a hash taken at all. A set is sorted first, or a dict keeps the order."""
    if FLOORS.get(room_of(path), 0) >= 5:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash":
            yield f"{path}:{node.lineno}: hash()"
    attributes = {name: truth for name, truth in set_names(tree).items() if name.startswith(".")}
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    faults: dict[str, None] = {}  # a function within another is seen twice and told once
    for scope in [*scopes, tree]:
        names = attributes | {name: truth for name, truth in set_names(scope).items() if not name.startswith(".")}
        for value in ordered_by(scope):
            if is_set(value, names) and not (scope is tree and isinstance(value, ast.Name)):
                faults[f"{path}:{value.lineno}: iterates over a set: {ast.unparse(value)}"] = None
    yield from faults


def ordered_by(scope: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose order of iteration `scope` makes use of."""
    for node in ast.walk(scope):
        match node:
            case ast.For(iter=value) | ast.comprehension(iter=value) | ast.Starred(value=value):
                yield value
            case ast.Call(func=ast.Name(id="list" | "tuple" | "iter" | "enumerate" | "zip"), args=values):
                yield from values
            case ast.Call(func=ast.Name(id="map" | "filter"), args=[_, *values]):
                yield from values


def name_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Modules named for a population and not for a concept."""
    for word in re.split(r"[/_.]", path.removesuffix(".py")):
        if word in BANNED_WORDS:
            yield f"{path}: {word!r} names no concept"


def docstring_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Yield the public modules, classes, functions and methods that have no docstring."""

    def faults(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
        for child in node.body:
            if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or child.name.startswith("_"):
                continue
            overload = any("overload" in ast.unparse(decorator) for decorator in child.decorator_list)
            setter = any(ast.unparse(decorator).endswith(".setter") for decorator in child.decorator_list)
            if ast.get_docstring(child) is None and not overload and not setter:
                yield f"{path}:{child.lineno}: {prefix}{child.name} has no docstring"
            if isinstance(child, ast.ClassDef):
                yield from faults(child, f"{prefix}{child.name}.")

    if tree.body and ast.get_docstring(tree) is None:
        yield f"{path}: the module has no docstring"
    yield from faults(tree, "")


def function_lengths(path: str, tree: ast.Module) -> dict[str, int]:
    """Functions over the wall, `path::name` -> lines, docstring and decorators not counted."""
    long: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
            lines = (node.end_lineno or 0) - body[0].lineno + 1 + (body[0].lineno - node.lineno if body is node.body else 1)
            if lines > FUNCTION_LINES:
                long[f"{path}::{node.name}"] = max(lines, long.get(f"{path}::{node.name}", 0))
    return long


def ratchet_faults(long: dict[str, int], allowed: dict[str, int], wall: int) -> list[str]:
    """What grew past the wall or past its row, and rows that may shrink or go."""
    grown = [
        f"{name}: {lines} lines, wall {allowed.get(name, wall)}" for name, lines in long.items() if lines > allowed.get(name, wall)
    ]
    slack = [f"{name}: lower its row from {row} to {long.get(name, 0)}" for name, row in allowed.items() if long.get(name, 0) < row]
    return grown + slack


NAMED_HOSTS = re.compile(
    r"(?i)\b(" + "|".join(["pypi" + r"\.org", "pythonhosted" + r"\.org", r"repo1?\.maven", r"registry\.npmjs"]) + ")"
)
INDEX_ADDRESS = re.compile(r"(?:index-url|find-links|trusted-host)[ =]+(?!-)\S*(?:://|\w\.\w)")
MACHINE_PATH = re.compile(r"(?:^|[^A-Za-z0-9._/])/(?:" + "|".join(["work", "farm", "root", "tmp/(?:w|bash_jobs)"]) + ")/")


def place_faults(path: str, text: str) -> Iterator[str]:
    """Addresses of package registries, and paths of somebody's machine."""
    for number, line in enumerate(text.splitlines(), 1):
        for law in (NAMED_HOSTS, INDEX_ADDRESS, MACHINE_PATH):
            if found := law.search(line):
                yield f"{path}:{number}: {found[0].strip()!r}"


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Every module of the package, (path relative to src/apportion, syntax)."""
    files = sorted(SOURCE.rglob("*.py"))
    assert files
    return [(file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(), str(file))) for file in files]


def tracked() -> list[str]:
    """Every file that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "pyproject.toml" in listed
    return [name for name in listed if (ROOT / name).is_file()]


LAWS = [floor_faults, world_faults, heavy_faults, order_faults, name_faults, docstring_faults]


@pytest.mark.parametrize("law", LAWS)
def test_every_module_keeps_the_law(law):
    assert [fault for path, tree in sources() for fault in law(path, tree)] == []


def test_files_do_not_grow_over_the_wall():
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in tracked() if name.endswith(".py")}
    long = {name: lines for name, lines in lengths.items() if lines > FILE_LINES}
    assert ratchet_faults(long, LONG_FILES, FILE_LINES) == []


def test_functions_do_not_grow_over_the_wall():
    long: dict[str, int] = {}
    for name in tracked():
        if name.endswith(".py"):
            long |= function_lengths(name, ast.parse((ROOT / name).read_text()))
    assert ratchet_faults(long, LONG_FUNCTIONS, FUNCTION_LINES) == []


def test_tracked_files_name_no_registry_and_no_machine():
    faults: list[str] = []
    for name in tracked():
        try:
            faults += place_faults(name, (ROOT / name).read_text())
        except UnicodeDecodeError:
            continue  # recorded bytes
    assert faults == []


# What `apportion serve` imports: every room up to floor 5 but columns, streams' kernels and the client, and the command itself.
SERVED = sorted(
    room
    for room, floor in FLOORS.items()
    if floor <= 5 and room not in ("columns", "client", "sim") and any(room_of(path) == room for path, _ in sources())
) + [f"cli/{name}" for name in ("main", "serving") if (SOURCE / "cli" / f"{name}.py").exists()]


@pytest.mark.parametrize("room", SERVED)
def test_the_server_imports_nothing_heavy(room):
    modules = [path for path, _ in sources() if path.startswith((room + "/", room + ".py"))]
    names = ["apportion." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in modules]
    assert heavy_modules_after("; ".join(f"import {name}" for name in names)) == []


def heavy_modules_after(program: str) -> list[str]:
    """Which heavy libraries a fresh interpreter has loaded after `program`."""
    check = f"{program}\nimport sys; print(*(name for name in {sorted(HEAVY)} if name in sys.modules))"
    return subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()


# The laws bite: (law, path, a snippet that breaks it). The same snippet where it is allowed must pass.
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
    (order_faults, "coord/x.py", "class G:\n    a: frozenset[int]\ndef f(g: G):\n    return tuple(g.a)"),
    (order_faults, "wire/x.py", "def f(a):\n    return hash(a)"),
    (name_faults, "coord/group_manager.py", ""),
    (name_faults, "utils/x.py", ""),
    (docstring_faults, "coord/x.py", "x = 1"),
    (docstring_faults, "coord/x.py", '"""M."""\ndef f(): ...'),
    (docstring_faults, "coord/x.py", '"""M."""\nclass C:\n    """C."""\n    def f(self): ...'),
]


@pytest.mark.parametrize(("law", "path", "snippet"), BITES)
def test_a_law_bites(law, path, snippet):
    assert len(list(law(path, ast.parse(snippet)))) == 1


PASSES = [
    (
        floor_faults,
        "coord/x.py",
        "from apportion.wire import codec\nfrom . import shard\nfrom ..errors import Code\nimport apportion",
    ),
    (world_faults, "drive/x.py", "import time"),
    (world_faults, "store/files.py", "import os"),
    (world_faults, "server/x.py", "import asyncio, logging"),
    (heavy_faults, "columns/x.py", "import numba"),
    (heavy_faults, "spark/x.py", "import pyspark, pyarrow"),
    (heavy_faults, "testing/x.py", "import pyarrow"),
    (order_faults, "server/x.py", "for x in {1, 2}: hash(x)"),
    (order_faults, "coord/x.py", "def f(a: set[int]):\n    b = dict.fromkeys(sorted(a))\n    return [x for x in b if x in a]"),
    (order_faults, "coord/x.py", "def f(a: set[int]): ...\ndef g(a: list[int]):\n    return list(a)"),
    (docstring_faults, "coord/x.py", '"""M."""\ndef _f(): ...\nclass _C:\n    def g(self): ...'),
]


@pytest.mark.parametrize(("law", "path", "snippet"), PASSES)
def test_a_law_lets_pass_what_is_right(law, path, snippet):
    assert list(law(path, ast.parse(snippet))) == []


def test_a_long_function_is_seen():
    snippet = "def f():\n" + "    x = 1\n" * FUNCTION_LINES
    assert function_lengths("x.py", ast.parse(snippet)) == {"x.py::f": FUNCTION_LINES + 1}
    assert function_lengths("x.py", ast.parse(snippet.replace("    x = 1\n", '    """Doc."""\n', 1))) == {}


def test_a_ratchet_only_shrinks():
    assert ratchet_faults({"a": 70}, {}, 60) == ["a: 70 lines, wall 60"]
    assert ratchet_faults({"a": 71}, {"a": 70}, 60) == ["a: 71 lines, wall 70"]
    assert ratchet_faults({"a": 69}, {"a": 70}, 60) == ["a: lower its row from 70 to 69"]
    assert ratchet_faults({}, {"a": 70}, 60) == ["a: lower its row from 70 to 0"]
    assert ratchet_faults({"a": 70}, {"a": 70}, 60) == []


def test_registries_and_machine_paths_are_seen():
    bad = [
        "https://" + "pypi" + ".org/simple",
        "--index-url " + "http://x/simple",
        "see /" + "work/main",
        "open('/" + "root/x')",
    ]
    assert [len(list(place_faults("x", line))) for line in bad] == [1, 1, 1, 1]
    assert list(place_faults("x", "--no-emit-index-url --no-emit-find-links framework/x src/work/y")) == []


def test_a_heavy_import_is_seen():
    assert heavy_modules_after("import pyarrow") == ["pyarrow"]
