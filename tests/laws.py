"""The laws of the house: each a function from the syntax of one file, or of all, to its faults.
`test_tidy.py` asks them.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "apportion"
# From floor 0 up: the rooms (packages or modules right under apportion). Imports only go down;
# rooms of one floor never meet.
STOREYS = [
    "errors topics log_bounds machine deadlines readable locations settings exports lazy_imports",
    "wire assign rules",
    "streams columns security",
    "coord member store",
    "node drive adapters",
    "server client sim",
    "spark web testing broker assignors",
    "cli",
]
FLOORS = {room: floor for floor, rooms in enumerate(STOREYS) for room in rooms.split()}
# what no machine may know
WORLD = ("asyncio", "threading", "socket", "time", "random", "uuid", "logging", "os")
WORLDLY = {"drive", "store/files.py"}  # where WORLD may be imported, besides floors 5-7
HEAVY = {
    "numba": {"columns"},
    "pyarrow": {"columns"},
    "pyspark": set[str](),
}  # library -> rooms up to floor 5 that may import it
ANYWHERE_ABOVE = {"numba": 6, "pyarrow": 6}  # ... and from this floor on; pyspark: spark alone
FILE_LINES, FUNCTION_LINES = 400, 60


def room_of(path: str) -> str:
    """The room of a file, given relative to src/apportion: "wire" for wire/codec.py, "errors" for
    errors.py.
    """
    return path.split("/")[0].removesuffix(".py")


def imports_of(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything imported anywhere in the file, relative imports
    resolved.
    """
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
        if (
            parts[0] != "apportion"
            or len(parts) == 1
            or parts[1] == room
            or parts[1].startswith("__")
        ):
            continue
        if FLOORS.get(parts[1], 99) >= FLOORS[room]:
            yield (
                f"{path}:{line}: {room} (floor {FLOORS[room]}) imports {name} (floor "
                f"{FLOORS.get(parts[1], '?')})"
            )


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
    """The annotation is a set: set[..], frozenset[..], Set[..], AbstractSet[..], alone or with
    None.
    """
    if isinstance(annotation, ast.BinOp):
        return says_set(annotation.left) or says_set(annotation.right)
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    name = (
        annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")
    )
    return name in ("set", "frozenset", "Set", "AbstractSet", "MutableSet")


def is_set(node: ast.expr, names: dict[str, bool]) -> bool:
    """The expression is plainly a set: written as one, made by set(), joined from one, or a name
    that stands for one.
    """
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(
            func=ast.Attribute(value=value, attr="union" | "intersection" | "difference" | "copy")
        ):
            return is_set(value, names)
        case ast.BinOp(
            left=left, right=right, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()
        ):
            return is_set(left, names) or is_set(right, names)
        case ast.Name(id=name):
            return names.get(name, False)
        case ast.Attribute(attr=name):
            return names.get("." + name, False)
    return False


def set_names(scope: ast.AST) -> dict[str, bool]:
    """Names bound or annotated as sets in `scope`; attributes with a leading dot. One also bound to
    something else is not.
    """
    names: dict[str, bool] = {}
    for node in ast.walk(scope):
        pairs: list[tuple[ast.expr, bool]] = []
        if isinstance(node, ast.arg):
            pairs = [(ast.Name(id=node.arg), says_set(node.annotation))]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(node.target, says_set(node.annotation))]
            if isinstance(node.target, ast.Name):  # a field of a class is read as an attribute
                pairs.append(
                    (
                        ast.Attribute(value=node.target, attr=node.target.id),
                        says_set(node.annotation),
                    )
                )
        elif isinstance(node, ast.Assign):
            pairs = [(target, is_set(node.value, names)) for target in node.targets]
        for target, truth in pairs:
            key = (
                target.id
                if isinstance(target, ast.Name)
                else "." + target.attr
                if isinstance(target, ast.Attribute)
                else ""
            )
            names[key] = truth and names.get(key, True)
    return names


def ordered_by(scope: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose order of iteration `scope` makes use of."""
    for node in ast.walk(scope):
        match node:
            case ast.For(iter=value) | ast.comprehension(iter=value) | ast.Starred(value=value):
                yield value
            case ast.Call(
                func=ast.Name(id="list" | "tuple" | "iter" | "enumerate" | "zip"), args=values
            ):
                yield from values
            case ast.Call(func=ast.Name(id="map" | "filter"), args=[_, *values]):
                yield from values


def order_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Below floor 5: an order taken from a set, or a hash taken at all. A set is sorted first, or a
    dict keeps the order.
    """
    if FLOORS.get(room_of(path), 0) >= 5:
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "hash"
        ):
            yield f"{path}:{node.lineno}: hash()"
    attributes = {name: truth for name, truth in set_names(tree).items() if name.startswith(".")}
    scopes = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    faults: dict[str, None] = {}  # a function within another is seen twice and told once
    for scope in [*scopes, tree]:
        names = attributes | {
            name: truth for name, truth in set_names(scope).items() if not name.startswith(".")
        }
        for value in ordered_by(scope):
            if is_set(value, names) and not (scope is tree and isinstance(value, ast.Name)):
                faults[f"{path}:{value.lineno}: iterates over a set: {ast.unparse(value)}"] = None
    yield from faults


def docstring_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Yield the public modules, classes, functions and methods that have no docstring, but for
    overrides.
    """

    def faults(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
        for child in node.body:
            if not isinstance(
                child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) or child.name.startswith("_"):
                continue
            overload = any(
                "overload" in ast.unparse(decorator) for decorator in child.decorator_list
            )
            setter = any(
                ast.unparse(decorator).endswith(".setter") for decorator in child.decorator_list
            )
            overrides = any(
                ast.unparse(decorator).split(".")[-1] == "override"
                for decorator in child.decorator_list
            )
            if ast.get_docstring(child) is None and not overload and not setter and not overrides:
                yield f"{path}:{child.lineno}: {prefix}{child.name} has no docstring"
            if isinstance(child, ast.ClassDef):
                yield from faults(child, f"{prefix}{child.name}.")

    if tree.body and ast.get_docstring(tree) is None:
        yield f"{path}: the module has no docstring"
    yield from faults(tree, "")


FREE_RELATIVE = re.compile(r"(What|Whatever|Whether|How|Where|Who|Whom|Whose|Which|Why)\b")
PARAMETER = re.compile(r"[a-z_]+(, [a-z_]+)*: ")


def summary_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings that open with a free relative or a parameter, not with a summary."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if FREE_RELATIVE.match(summary) or (is_function and PARAMETER.match(summary)):
                yield f"{path}: no summary: {summary}"


def stray_string_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Yield the strings inside functions that are statements, but not the first of a body."""
    definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    first = {id(node.body[0]) for node in ast.walk(tree) if isinstance(node, definition)}
    lines: dict[int, None] = {}  # a string of a function within another is seen twice
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Expr(value=ast.Constant(value=str())) if id(node) not in first:
                        lines[node.lineno] = None
    yield from (f"{path}:{line}: a string that is no docstring" for line in lines)


def function_lengths(path: str, tree: ast.Module) -> dict[str, int]:
    """Functions over the wall, `path::name` -> lines, docstring and decorators not counted."""
    long: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = (
                node.body[1:]
                if ast.get_docstring(node) is not None and len(node.body) > 1
                else node.body
            )
            lines = (
                (node.end_lineno or 0)
                - body[0].lineno
                + 1
                + (body[0].lineno - node.lineno if body is node.body else 1)
            )
            if lines > FUNCTION_LINES:
                long[f"{path}::{node.name}"] = max(lines, long.get(f"{path}::{node.name}", 0))
    return long


def import_arrows(
    modules: list[tuple[str, ast.Module]], package: str = "apportion"
) -> dict[str, list[str]]:
    """Return path -> the paths among these modules of `package` that it imports, TYPE_CHECKING
    included.
    """
    names = {
        f"{package}." + path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path, _ in modules
    }
    arrows: dict[str, list[str]] = {path: [] for path, _ in modules}
    for path, tree in modules:
        arrows[path] += [each for each in imported_among(names, tree) if each != path]
    return arrows


def imported_among(names: dict[str, str], tree: ast.Module) -> Iterator[str]:
    """Yield the paths of the modules that this syntax imports; names: dotted name -> path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            imported = [names[each] if each in names else names.get(node.module) for each in whole]
            yield from (each for each in imported if each is not None)
        elif isinstance(node, ast.Import):
            yield from (names[alias.name] for alias in node.names if alias.name in names)


def import_circles(modules: list[tuple[str, ast.Module]]) -> list[list[str]]:
    """Return the groups of modules that import each other, in circles of any length, TYPE_CHECKING
    included (Tarjan).
    """
    arrows = import_arrows(modules)
    circles: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in arrows[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                circles.append(sorted(stack[at:]))
            del stack[at:]

    for module in arrows:
        if module not in index:
            visit(module)
    return circles


def ratchet_faults(long: dict[str, int], allowed: dict[str, int], wall: int) -> list[str]:
    """What grew past the wall or past its row, and rows that may shrink or go."""
    grown = [
        f"{name}: {lines} lines, wall {allowed.get(name, wall)}"
        for name, lines in long.items()
        if lines > allowed.get(name, wall)
    ]
    slack = [
        f"{name}: lower its row from {row} to {long.get(name, 0)}"
        for name, row in allowed.items()
        if long.get(name, 0) < row
    ]
    return grown + slack


NAMED_HOSTS = re.compile(
    r"(?i)\b("
    + "|".join(["pypi" + r"\.org", "pythonhosted" + r"\.org", r"repo1?\.maven", r"registry\.npmjs"])
    + ")"
)
INDEX_ADDRESS = re.compile(r"(?:index-url|find-links|trusted-host)[ =]+(?!-)\S*(?:://|\w\.\w)")
MACHINE_PATH = re.compile(
    r"(?:^|[^A-Za-z0-9._/])/(?:" + "|".join(["work", "farm", "root", "tmp/(?:w|bash_jobs)"]) + ")/"
)


def place_faults(path: str, text: str) -> Iterator[str]:
    """Addresses of package registries, and paths of somebody's machine."""
    for number, line in enumerate(text.splitlines(), 1):
        for law in (NAMED_HOSTS, INDEX_ADDRESS, MACHINE_PATH):
            if match := law.search(line):
                yield f"{path}:{number}: {match[0].strip()!r}"


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Every module of the package, (path relative to src/apportion, syntax)."""
    files = sorted(SOURCE.rglob("*.py"))
    assert files
    return [
        (file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(), str(file)))
        for file in files
    ]
