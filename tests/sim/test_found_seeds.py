"""Does the simulator see? Each planted bug breaks a law in the seed that `make sim` found, and
without the bug that seed holds.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tools.hunt import Found

from apportion.sim.play import play
from tests.sim.planted import PLANTED

ROOT = Path(__file__).resolve().parents[2]


def loaded(path: Path) -> ModuleType:
    """The module in that file."""
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


FOUND = loaded(ROOT / "tools" / "hunt.py").read()


def seed_of(name: str) -> Found:
    """Where `make sim` found the bug."""
    assert name in FOUND, f"make sim has not found {name} yet"
    result: Found = FOUND[name]
    return result


@pytest.mark.parametrize("name", PLANTED)
def test_the_seed_that_was_found_fails_with_the_bug_and_holds_without(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, law = seed_of(name).seed, seed_of(name).law
    scenario = PLANTED[name].scenario(seed)
    assert play(scenario).broken is None
    PLANTED[name].plant(monkeypatch)
    broken = play(scenario).broken
    assert broken is not None, broken
    assert broken.law == law, broken


def test_found_names_only_what_is_planted() -> None:
    assert set(FOUND) <= set(PLANTED)
    assert PLANTED
