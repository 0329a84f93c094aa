"""The Pythons of a machine, and which of them benches run on."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.bench_python import chosen, made
from tools.pythons import Build, NoPython, build_of, found


def build(**facts: Any) -> Build:
    """A Python as pyenv builds it."""
    usual = Build("CPython", (3, 11, 7), "GCC 12.2.0", "'--enable-shared'", "/opt/py", "/opt/py/p")
    return usual._replace(**facts)


def program(path: Path, built: Build) -> str:
    """A program that says of itself that it was built so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(built)}\nEND\n")
    path.chmod(0o755)
    return str(path)


def test_a_build_says_whether_profiles_guided_its_compiler() -> None:
    assert str(build()) == (
        "CPython 3.11.7 built by GCC 12.2.0 without profile-guided optimisation"
    )
    assert str(build(options="'--enable-optimizations' '--with-lto'")) == (
        "CPython 3.11.7 built by GCC 12.2.0 with profile-guided optimisation, "
        "link-time optimisation"
    )
    assert build(prefix="/usr").is_optimised
    assert not build(prefix="/usr/local").is_optimised


def test_benches_prefer_an_optimised_python_to_their_own(tmp_path: Path) -> None:
    optimised, own = build(options="'--enable-optimizations'"), build(prefix="/usr")
    assert chosen(build(), "", optimised) == optimised
    assert chosen(build(), "", None) == chosen(build(), "", build()) == build()
    assert chosen(own, "", optimised) == own
    assert chosen(own, program(tmp_path / "a", build()), optimised) == build()


def test_a_named_python_must_take_the_packages_and_be_one(tmp_path: Path) -> None:
    newer = program(tmp_path / "python", build(version=(3, 12, 1)))
    with pytest.raises(NoPython) as refused:
        chosen(build(), newer, None)
    assert str(refused.value) == (
        f"BENCH_PYTHON={newer} is Python 3.12, and the packages of .venv are for 3.11: "
        f"make fresh, then make PYTHON={newer} bench"
    )
    with pytest.raises(NoPython, match=r"^/bin/echo is no Python that runs here$"):
        chosen(build(), "/bin/echo", None)


def test_of_each_version_the_first_optimised_python_is_found(tmp_path: Path) -> None:
    a, b, pyenv = tmp_path / "a", tmp_path / "b", tmp_path / "pyenv"
    optimised = build(version=(3, 98, 0), options="'--enable-optimizations'")
    newer = build(version=(3, 99, 1))
    program(a / "python3.98", build(version=(3, 98, 0)))
    program(b / "python3.98", optimised)
    program(b / "python3.99-config", build(version=(3, 99, 0)))
    program(b / "python3.10", build(version=(3, 10, 0)))
    program(pyenv / "versions" / "3.99.1" / "bin" / "python3.99", newer)
    (a / "python3.97").write_text("no program")
    there = found({"PATH": f"{a}:{b}", "PYENV_ROOT": str(pyenv)})
    assert {version: each for version, each in there.items() if version > (3, 90)} == {
        (3, 98): optimised,
        (3, 99): newer,
    }
    assert (3, 10) not in there


def test_the_python_of_benches_has_the_packages_of_the_one_that_runs(tmp_path: Path) -> None:
    python = made(tmp_path / "home", build_of(sys.executable))
    again = made(tmp_path / "home", build_of(sys.executable))
    script = "import apportion, numpy, sys; print(sys.executable, numpy.__file__)"
    shown = subprocess.run([again, "-c", script], capture_output=True, text=True, check=True)
    import numpy

    assert shown.stdout.split() == [str(python), numpy.__file__]
