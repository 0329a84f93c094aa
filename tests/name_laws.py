"""The laws about names: of modules, public types and tests. `test_tidy.py` asks them."""

import ast
import re
from collections.abc import Iterator

BANNED_WORDS = {"manager", "helper", "helpers", "util", "utils", "common", "base", "impl", "info"}
TEST_NAME_LENGTH = 80
FREE_RELATIVE = re.compile(r"test_(what|whatever|which|whichever|who|whoever)_")
TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")  # not T, not HANDLERS
TYPE_VARIABLES = ("TypeVar", "ParamSpec", "TypeVarTuple")


def name_faults(path: str, tree: ast.Module) -> Iterator[str]:
    """Modules named for a population and not for a concept."""
    for word in re.split(r"[/_.]", path.removesuffix(".py")):
        if word in BANNED_WORDS:
            yield f"{path}: {word!r} names no concept"


def name_faults_of_tests(path: str, tree: ast.Module) -> Iterator[str]:
    """Yield the tests whose name is too long for a sentence, or does not name its subject.

    Such a name has a free relative for its subject, as in "what is wrong is refused".
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_") and len(node.name) > TEST_NAME_LENGTH:
            yield f"{path}:{node.lineno}: {node.name} has {len(node.name)} characters"
        if FREE_RELATIVE.match(node.name):
            yield f"{path}:{node.lineno}: {node.name} does not name its subject"


def statements_of(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those in `if` and `try` at its top level included."""
    for node in block:
        if isinstance(node, ast.If):
            yield from statements_of([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handled = [child for handler in node.handlers for child in handler.body]
            yield from statements_of([*node.body, *handled, *node.orelse, *node.finalbody])
        else:
            yield node


def defined_types(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the public classes and type aliases of a module (`X = ...`, `type X`).

    A capitalised name at the top level is taken for an alias, unless it stands for a type variable.
    """
    for node in statements_of(tree.body):
        targets: list[ast.expr] = []
        if isinstance(node, ast.ClassDef):
            targets = [ast.Name(id=node.name)]
        elif isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        elif type(node).__name__ == "TypeAlias":  # `type X = ...`, from Python 3.12 on
            targets = [vars(node)["name"]]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in TYPE_VARIABLES:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and TYPE_NAME.fullmatch(target.id):
                yield target.id


def type_names(modules: list[tuple[str, ast.Module]]) -> dict[str, list[str]]:
    """Return the public type names that stand in more than one module, with those modules.

    Kafka's message schemas reuse the names of nested structures, so all of wire/messages/ counts as
    one module.
    """
    defined_in: dict[str, list[str]] = {}
    for path, tree in modules:
        module = "wire/messages/" if path.startswith("wire/messages/") else path
        for name in defined_types(tree):
            if module not in defined_in.setdefault(name, []):
                defined_in[name].append(module)
    return {name: paths for name, paths in defined_in.items() if len(paths) > 1}
