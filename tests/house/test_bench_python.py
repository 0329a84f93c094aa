"""tools/bench_python.py: which Python benches run on, and what they say of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.bench_python import Build, NoPython, build_of, candidates, chosen, made


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
    optimised = build(options="'--enable-optimizations'")
    others = [program(tmp_path / "a", build()), program(tmp_path / "b", optimised)]
    assert chosen(build(), "", others) == optimised
    assert chosen(build(), "", others[:1]) == build()
    own = build(prefix="/usr")
    assert chosen(own, "", others) == own
    assert chosen(own, others[0], others) == build()


def test_a_named_python_must_take_the_packages_and_be_one(tmp_path: Path) -> None:
    newer = program(tmp_path / "python", build(version=(3, 12, 1)))
    with pytest.raises(NoPython) as refused:
        chosen(build(), newer, [])
    assert str(refused.value) == (
        f"BENCH_PYTHON={newer} is Python 3.12, and the packages of .venv are for 3.11: "
        f"make fresh, then make PYTHON={newer} bench"
    )
    with pytest.raises(NoPython, match=r"^/bin/echo is no Python that runs here$"):
        chosen(build(), "/bin/echo", [])


def test_the_pythons_of_path_are_looked_at_in_its_order(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in "ab"]
    paths = [program(home / "python3.99", build()) for home in homes]
    program(homes[1] / "python3.98", build())
    assert candidates({"PATH": os.pathsep.join(map(str, homes))}, (3, 99)) == paths


def test_the_python_of_benches_has_the_packages_of_the_one_that_runs(tmp_path: Path) -> None:
    python = made(tmp_path / "home", build_of(sys.executable))
    again = made(tmp_path / "home", build_of(sys.executable))
    script = "import apportion, numpy, sys; print(sys.executable, numpy.__file__)"
    shown = subprocess.run([again, "-c", script], capture_output=True, text=True, check=True)
    import numpy

    assert shown.stdout.split() == [str(python), numpy.__file__]
