"""The locks of a set-up (requirements*.lock, made by `make lock`) and tools/set_up.sh.

They are compared with what the installed packages say of themselves, so these tests need the whole
set-up: a package that is not installed, or not as it is locked, is a failure.
"""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
PROJECT: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
LOCKS = {purpose: f"requirements-{purpose}.lock" for purpose in ("demo", "pythons", "test")}
LOCKS["all"] = "requirements.lock"
OLDEST = "3.11.0"
"""The oldest Python that README and `requires-python` promise; the locks are made for it."""
PYTHON = {"python_version": "3.11", "python_full_version": OLDEST}


def locked(lock: str) -> dict[str, str]:
    """Return the version of each package in a lock."""
    pins = re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE)
    return dict(pins)


def plain(name: str) -> str:
    """Return the name of a package as locks write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(texts: list[str], extra: str = "") -> dict[str, set[str]]:
    """Return the packages, with their extras, that these requirements name for Linux."""
    found: dict[str, set[str]] = {}
    for requirement in map(Requirement, texts):
        markers = {**PYTHON, "extra": extra}
        if requirement.marker is None or requirement.marker.evaluate(markers):
            found.setdefault(plain(requirement.name), set()).update(requirement.extras)
    return found


def closure(extras: list[str]) -> set[str]:
    """Return every package that apportion needs with these extras, and those need in turn."""
    todo = list(needed([*PROJECT["dependencies"], f"apportion[{','.join(extras)}]"]).items())
    seen: set[tuple[str, str]] = set()
    while todo:
        name, chosen = todo.pop()
        for extra in {"", *chosen}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            if name == "apportion":
                texts = EXTRAS[extra] if extra else []
            else:
                texts = distribution(name).requires or []
            todo += needed(texts, extra).items()
    return {name for name, _ in seen} - {"apportion"}


@pytest.mark.parametrize(
    ("purpose", "extras"),
    [("demo", ["demo"]), ("pythons", ["pythons"]), ("test", ["test"]), ("all", list(EXTRAS))],
)
def test_a_lock_has_exactly_the_packages_that_its_purpose_needs(
    purpose: str, extras: list[str]
) -> None:
    assert set(locked(LOCKS[purpose])) == closure(extras)


def test_the_smaller_locks_are_parts_of_the_whole() -> None:
    demo, pythons, test, whole = (set(locked(lock).items()) for lock in LOCKS.values())
    assert demo < test < whole
    assert pythons < test


def test_every_locked_package_is_installed_and_accepts_the_oldest_python() -> None:
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(">=3.11")
    pins = locked(LOCKS["all"])
    installed = {name: distribution(name) for name in pins}
    assert {name: package.version for name, package in installed.items()} == pins
    asked = {name: package.metadata["Requires-Python"] for name, package in installed.items()}
    refusing = {
        name: versions
        for name, versions in asked.items()
        if versions and not SpecifierSet(versions).contains(OLDEST)
    }
    assert refusing == {}, "bound these in an extra of pyproject.toml, then: make lock"


@pytest.mark.parametrize("purpose", ["demo", "test", "all"])
def test_a_set_up_says_how_much_it_installs(purpose: str) -> None:
    """The rest of .venv is pip, half-filled blocks, and compiled modules where there are any."""
    text = (ROOT / "tools" / "set_up.sh").read_text()
    (said,) = re.findall(rf"^    {purpose}\) lock={LOCKS[purpose]} megabytes=(\d+) ", text, re.M)
    files = [file for name in locked(LOCKS[purpose]) for file in distribution(name).files or ()]
    recorded = sum(file.size or 0 for file in files) >> 20
    assert 0.8 * int(said) < recorded < int(said)
