"""The rooms of apportion.spark import each other in one direction only."""

import ast
from graphlib import CycleError, TopologicalSorter

from tests.laws import imports_of, sources


def room_circle(modules: list[tuple[str, ast.Module]]) -> list[str]:
    """Return rooms that import each other in a circle, if there are any.

    A room is a package or a module right under `apportion.spark`. Its `__init__.py`, which exports
    lazily, is none.
    """
    arrows: dict[str, set[str]] = {}
    for path, tree in modules:
        package, room, *_ = [*path.removesuffix(".py").split("/"), ""]
        if package == "spark" and room != "__init__":
            names = [name.split(".") for _, name in imports_of(path, tree)]
            others = {each[2] for each in names if each[:2] == ["apportion", "spark"] and each[2:]}
            arrows.setdefault(room, set()).update(others - {room})
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    assert room_circle(sources()) == []


def test_a_circle_of_rooms_is_seen() -> None:
    texts = {
        "spark/__init__.py": "from apportion.spark.queries.b import B",
        "spark/reading/a.py": "from apportion.spark.queries.b import B",
        "spark/queries/b.py": "def f():\n    from apportion.spark.queries import d",
        "spark/queries/d.py": "import apportion.client.cluster",
    }
    modules = [(path, ast.parse(text)) for path, text in texts.items()]
    assert room_circle(modules) == []
    back = ast.parse("from apportion.spark.reading import c")
    assert room_circle([*modules, ("spark/queries/e.py", back)]) == ["queries", "reading"]
