"""A function of the user's that a broker loads by its name."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

MODULE = "planted_by_a_test"


def plant(monkeypatch: pytest.MonkeyPatch, look: Callable[[str], Any]) -> str:
    """Its name, as module:function, until the test ends."""
    module = ModuleType(MODULE)
    monkeypatch.setattr(module, "look", look, raising=False)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return f"{MODULE}:look"
