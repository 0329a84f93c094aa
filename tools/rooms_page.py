"""docs/rooms.md: every module of the package, with the first sentence of its docstring."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from tests.laws import FLOORS, SOURCE, room_of

HEAD = """# Rooms

Every module, with the first sentence of its docstring; printed by `make docs`. A *room* is a
package or a module right under `apportion`. It imports from rooms of lower floors only.
[ARCHITECTURE.md](../ARCHITECTURE.md) says where to begin.
"""
SENTENCE = re.compile(r"(.+?(?<!e\.g)(?<!i\.e)\.)(?:\s|$)", re.DOTALL)


def rooms_page() -> str:
    """Return the text of docs/rooms.md."""
    files = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")
    by_room: dict[str, list[Path]] = {}
    for path in files:
        by_room.setdefault(room_of(path.relative_to(SOURCE).as_posix()), []).append(path)
    order = sorted(by_room, key=lambda room: (-FLOORS[room], room))
    floors = dict.fromkeys(FLOORS[room] for room in order)
    parts = [HEAD]
    for floor in floors:
        parts.append(f"\n## Floor {floor}\n")
        single = [room for room in order if FLOORS[room] == floor and len(by_room[room]) == 1]
        if single:
            parts.append("\n" + "".join(_line(by_room[room][0], f"{room}.py") for room in single))
        for room in (room for room in order if FLOORS[room] == floor and room not in single):
            parts.append(_room(room, by_room[room]))
    return "".join(parts)


def _room(room: str, files: Iterable[Path]) -> str:
    """Return a package: its sentence, and a line for each module."""
    folder = SOURCE / room
    lines = [
        _line(path, path.relative_to(folder).as_posix())
        for path in files
        if path.name != "__init__.py"
    ]
    return f"\n### {room}\n\n{_sentence(folder / '__init__.py')}\n\n{''.join(lines)}"


def _line(path: Path, name: str) -> str:
    return f"- `{name}`: {_sentence(path)}\n"


def _sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring, on one line."""
    summary = " ".join(
        (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split()
    )
    sentence = SENTENCE.match(summary)
    return (sentence[1] if sentence else summary).replace("<", "&lt;")
