"""What goes into a machine and comes out of it is a value: others may keep it, and nobody can
change it under their hands.
"""

from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

import apportion.member
from apportion.member.membership import Action, Event

ROOM = Path(apportion.member.__file__).parent
MODULES = [
    "apportion.member." + ".".join(file.relative_to(ROOM).with_suffix("").parts)
    for file in sorted(ROOM.rglob("[!_]*.py"))
]
VALUES = [
    kind
    for module in map(import_module, MODULES)
    for kind in vars(module).values()
    if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.__name__
]


def test_there_are_values_to_look_at_and_all_events_and_actions_of_members_are() -> None:
    assert len(VALUES) > 3
    passed = [*get_args(Action), *get_args(Event)]
    assert [kind for kind in passed if not is_dataclass(kind)] == []


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_a_value_cannot_be_changed_nor_given_more_fields(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)
    assert not hasattr(kind.__new__(kind), "__dict__")
