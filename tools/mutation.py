"""The mutants: every change of code that cosmic-ray can make in the packages of ROOMS.

Left out are changes of annotations, docstrings, type aliases, protocols and imports of the future,
those that Python does not compile, those that compile to the same code, and `is` for `==`. The
sample is drawn so that it hardly moves when a file is edited: each mutant has a random rank of its
own, from the seed and its name, and the lowest ranks are taken.
"""

import ast
import difflib
import hashlib
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from random import Random
from types import CodeType
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

ROOMS = ("client", "coord", "member", "node", "spark", "store", "streams", "wire")
PROVIDER = OperatorProvider()
SAME_IN_CPYTHON = {
    f"ReplaceComparisonOperator_{swap}" for swap in ("Eq_Is", "Is_Eq", "NotEq_IsNot", "IsNot_NotEq")
}
"""`is` for `==` and back. CPython keeps each small number, each character and each state once, so
no test can tell most of these mutants from the original; the few others are given up with them.
"""
OPERATORS = {
    name: PROVIDER[name]
    for name in PROVIDER
    if not PROVIDER[name].arguments() and name not in SAME_IN_CPYTHON
}
"""cosmic-ray's operators by name, but for those above, and for those that replace variables by
numbers of their own drawing.
"""

KINDS = {
    "ReplaceComparisonOperator": "a comparison",
    "ReplaceBinaryOperator": "an operator between two values",
    "ReplaceUnaryOperator": "a sign or a not",
    "ReplaceAndWithOr": "an and or an or",
    "ReplaceOrWithAnd": "an and or an or",
    "AddNot": "a condition, turned round",
    "NumberReplacer": "a number",
    "ReplaceTrueWithFalse": "True or False",
    "ReplaceFalseWithTrue": "True or False",
    "ZeroIterationForLoop": "a loop, left out",
    "RemoveDecorator": "a decorator, left out",
    "ExceptionReplacer": "the error that is caught",
    "ReplaceBreakWithContinue": "a break or continue",
    "ReplaceContinueWithBreak": "a break or continue",
}
"""The first part of an operator's name -> what it changes, in words."""


def kind_of(operator: str) -> str:
    """Return a word for what that operator changes."""
    return KINDS[operator.split("_")[0]]


class Point(NamedTuple):
    """Where a mutant can be made. file: relative to the package. line: of the source, from 1."""

    file: str
    operator: str
    occurrence: int
    line: int

    @property
    def name(self) -> str:
        """The mutant's name; it stays when lines move."""
        return f"{self.file} {self.operator} {self.occurrence}"


class Mutant:
    """One changed module.

    text: the whole module. minus, plus: the lines that differ, before and after, without
    indentation.
    """

    def __init__(self, point: Point, before: str, text: str) -> None:
        self.file, self.operator, self.occurrence, self.line = point
        self.name, self.text = point.name, text
        lines = list(
            difflib.unified_diff(before.splitlines(), text.splitlines(), n=0, lineterm="")
        )[2:]
        self.minus, self.plus = (
            "\n".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+"
        )

    @cached_property
    def digest(self) -> str:
        """Of the whole changed module: other text, other mutant."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def change(self) -> str:
        """The lines that differ, as in a diff."""
        signed = [
            f"{sign} {line}"
            for sign, text in (("-", self.minus), ("+", self.plus))
            for line in text.splitlines()
        ]
        return "\n".join(signed)

    @property
    def room(self) -> str:
        """The package that the module belongs to."""
        return self.file.split("/")[0]

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return "apportion." + self.file.removesuffix(".py").removesuffix("/__init__").replace(
            "/", "."
        )


def points(package: Path) -> list[Point]:
    """Every place where an operator can change a module of ROOMS, in order."""
    found = []
    for file in sorted(file for room in ROOMS for file in (package / room).rglob("*.py")):
        text = file.read_text()
        nodes, lines = list(ast_nodes(get_ast(text))), text.splitlines()
        for name, operator in OPERATORS.items():
            places = [place for node in nodes for place in operator().mutation_positions(node)]
            relative = file.relative_to(package).as_posix()
            found += [
                Point(relative, name, number, line)
                for number, ((line, column), _) in enumerate(places)
                # The `*` between parameters is no operator.
                if not lines[line - 1].startswith("*,", column)
            ]
    return sorted(found)


def sample(package: Path, count: int, seed: int) -> list[Mutant]:
    """Return at most `count` mutants, the same ones for the same seed and source."""
    ranked = sorted(
        points(package), key=lambda point: (Random(f"{seed} {point.name}").random(), point)
    )
    return sorted(
        _first(count, _mutants(package, ranked)),
        key=lambda mutant: (mutant.file, mutant.line, mutant.name),
    )


def _first(count: int, mutants: Iterator[Mutant]) -> list[Mutant]:
    return [mutant for mutant, _ in zip(mutants, range(count), strict=False)] if count else []


def _mutants(package: Path, ranked: Iterable[Point]) -> Iterator[Mutant]:
    before: dict[str, tuple[str, CodeType]] = {}
    for point in ranked:
        if point.file not in before:
            text = (package / point.file).read_text()
            before[point.file] = (text, compiled(text))
        text, code = before[point.file]
        mutated = mutant_or_none(text, point.operator, point.occurrence)
        if mutated is not None and changes_code(code, mutated):
            yield Mutant(point, text, mutated)


def mutant_or_none(text: str, operator: str, occurrence: int) -> str | None:
    """Return the module with that change; None if the operator has no such place."""
    changed: str | None = mutate_code(text, OPERATORS[operator](), occurrence)
    return changed


def changes_code(before: CodeType, mutated: str) -> bool:
    """Return whether the mutated module compiles to other code than `before`."""
    try:
        return compiled(mutated) != before
    except SyntaxError:
        return False


def compiled(text: str) -> CodeType:
    """Compile the module without line numbers, docstrings and annotations."""
    tree = _CodeOnly().visit(ast.parse(text))
    for node in ast.walk(tree):
        if isinstance(
            node,
            ast.expr
            | ast.stmt
            | ast.excepthandler
            | ast.arg
            | ast.keyword
            | ast.alias
            | ast.pattern,
        ):
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    # `is` between a value and a number
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
        return compile(ast.fix_missing_locations(tree), "module", "exec", dont_inherit=True)


class _CodeOnly(ast.NodeTransformer):
    """Takes away annotations, docstrings, type aliases, protocols and imports of the future."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return ast.Pass() if node.module == "__future__" else node

    def visit_If(self, node: ast.If) -> ast.AST:
        return ast.Pass() if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if is_text else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
        is_type = name[:1].isupper() and (
            not name.isupper() or "TypeVar" in ast.unparse(node.value)
        )
        return ast.Pass() if is_type else self.generic_visit(node)
