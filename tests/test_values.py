"""What goes into a machine and comes out of it is a value: others may keep it, and nobody can
change it under their hands.
"""

from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

import apportion
from apportion.member.membership import Action, Event
from apportion.node.broker import BrokerContext
from tests.laws import FLOORS

HOUSE = Path(apportion.__file__).parent
ROOMS = sorted(
    room
    for room, floor in FLOORS.items()
    if floor < FLOORS["server"]
    and any("@dataclass" in file.read_text() for file in (HOUSE / room).rglob("*.py"))
)
"""The rooms below the drivers that have dataclasses. The ground floor has some, too."""


def values_of(module_name: str) -> list[Any]:
    """The dataclasses of a module, but the context of handlers, which holds the node's state."""
    module = import_module(module_name)
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and is_dataclass(kind)
        and kind.__module__ == module_name
        and kind is not BrokerContext
    ]


def values_in(room: str) -> list[Any]:
    files = sorted((HOUSE / room).rglob("[!_]*.py") if room else HOUSE.glob("[!_]*.py"))
    names = [".".join(file.relative_to(HOUSE).with_suffix("").parts) for file in files]
    return [kind for name in names for kind in values_of(f"apportion.{name}")]


VALUES = {room: values_in(room) for room in ("", *ROOMS)}


def test_there_are_values_to_look_at_and_all_events_and_actions_of_members_are() -> None:
    assert all(VALUES.values())
    assert all(len(VALUES[room]) > 3 for room in ("", "coord", "member", "security"))
    passed = [*get_args(Action), *get_args(Event)]
    assert [kind for kind in passed if not is_dataclass(kind)] == []


@pytest.mark.parametrize(
    "kind", [kind for kinds in VALUES.values() for kind in kinds], ids=lambda kind: kind.__name__
)
def test_a_value_cannot_be_changed_nor_given_more_fields(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)
    assert not hasattr(kind.__new__(kind), "__dict__")
