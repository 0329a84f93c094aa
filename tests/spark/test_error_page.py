"""Every message of docs/spark-errors.md is provoked by a test."""

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import apportion.spark
from apportion.spark.options.stream import SourceOptions
from apportion.spark.options.values import OptionError
from tests.spark.error_page import PAGE, assert_on_page, messages


def provoked(tree: ast.Module) -> set[str]:
    """What is wrong, by the calls of assert_on_page in a module of tests."""
    found = set[str]()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Name("assert_on_page"), args=[wrong, *_]):
                        found.update(texts_of(wrong, function))
    return found


def texts_of(expression: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    """Yield the text that an expression is, or those that the function gives to such a name."""
    match expression:
        case ast.Constant(str(text)):
            yield text
        case ast.Name(name):
            for target, value in bindings(function):
                if isinstance(value, ast.Constant) and name_of(target) == name:
                    yield str(value.value)


def bindings(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the names and values of assignments, of loops over tuples, and of parametrize."""
    for node in ast.walk(function):
        match node:
            case ast.Assign([target], value):
                yield from unpacked(target, value)
            case ast.For(target, ast.Tuple(rows)):
                for row in rows:
                    yield from unpacked(target, row)
            case ast.Call(ast.Attribute(attr="parametrize"), [target, ast.List(rows)]):
                for row in rows:
                    yield from unpacked(target, row)


def unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the names of a tuple each with its value, and a name that stands alone with its."""
    match target, value:
        case ast.Tuple(targets), ast.Tuple(values):
            yield from zip(targets, values, strict=False)
        case _:
            yield target, value


def name_of(target: ast.expr) -> object:
    """The name of a variable, or of a parameter, which parametrize has as a text."""
    match target:
        case ast.Name(name) | ast.Constant(name):
            return name
    return None


def test_every_message_of_the_page_is_provoked() -> None:
    modules = Path(__file__).parent.glob("*.py")
    found = set[str]().union(*(provoked(ast.parse(path.read_text())) for path in modules))
    assert [wrong for wrong in messages() if wrong not in found] == []


def test_a_message_is_provoked_where_it_is_compared_with_the_page() -> None:
    text = """
DEAD = "dead"
@pytest.mark.parametrize(("made", "wrong"), [(1, "in a parameter"), (2, "in another")])
@pytest.mark.parametrize("other", ["dead"])
def test_a(made: int, wrong: str, other: str) -> None:
    assert_on_page(wrong, refused.value)
    assert_on_page("direct", other)
@pytest.mark.parametrize("alone", ["alone"])
def test_b(alone: str) -> None:
    wrong = "assigned"
    assert_on_page(wrong, "dead")
    for said, each in (("dead", "in a loop"),):
        assert_on_page(each, said)
    assert_on_page(alone, said)
"""
    assert provoked(ast.parse(text)) == {
        "direct",
        "in a parameter",
        "in another",
        "alone",
        "assigned",
        "in a loop",
    }


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse(
            {"kafka.bootstrap.servers": "localhost", "kafka.group.id": "g", "subscribe": "t"}
        )
    assert_on_page("an address without a port", refused.value)


def test_a_message_that_is_not_the_pages_fails() -> None:
    with pytest.raises(AssertionError):
        assert_on_page("an address without a port", "write each broker as host")


NOT_TO_CATCH = {
    "BatchNotLeft": "the source raises it",
    "CommitConflict": "the writer catches it",
    "NoArchives": "python -m apportion.spark.bytecode says it",
    "NotWritten": "tasks raise it",
    "PlainError": "above others",
    "SparkTooOld": "import apportion.spark raises it",
    "StopRequested": "the source catches it",
    "UndecodableRecord": "tasks raise it",
}


def errors_of_spark() -> set[str]:
    """The names of the classes of errors that a module of apportion.spark defines."""
    found = set[str]()
    for path in (SPARK := Path(apportion.spark.__file__).parent).rglob("*.py"):
        if any(isinstance(node, ast.ClassDef) for node in ast.parse(path.read_text()).body):
            parts = path.relative_to(SPARK).with_suffix("").parts
            module = importlib.import_module(".".join(("apportion.spark", *parts)))
            found.update(
                name
                for name, value in vars(module).items()
                if isinstance(value, type)
                and issubclass(value, Exception)
                and value.__module__ == module.__name__
            )
    return found


def test_a_program_can_import_every_error_that_can_reach_it() -> None:
    public = {name for name in apportion.spark.__all__ if name in errors_of_spark()}
    assert errors_of_spark() - public == set(NOT_TO_CATCH)


def test_the_page_names_every_error_that_a_program_may_catch() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE.read_text(), re.M)
    public = {name: getattr(apportion.spark, name) for name in apportion.spark.__all__}
    errors = [name for name, found in public.items() if inspect.isclass(found)]
    errors.remove("PrometheusListener")
    assert sorted(name for name, _ in rows) == sorted(errors)
    for name, base in rows:
        assert issubclass(public[name], getattr(builtins, base)), name
