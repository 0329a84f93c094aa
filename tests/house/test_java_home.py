"""tools/java_home.py: which Java is taken, and what is said of the others."""

import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "java_home.py"


@pytest.fixture(scope="module")
def java_home() -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location("java_home", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def java(home: Path, version: str) -> Path:
    """A program that reports itself as that Java."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '    "
        f"java.specification.version = {version}' >&2\n"
    )
    launcher.chmod(0o755)
    return home


def environment(java_home: Path | None, *path: Path) -> dict[str, str]:
    """JAVA_HOME and a PATH with these homes and nothing else."""
    homes = {"JAVA_HOME": str(java_home)} if java_home else {}
    return homes | {"PATH": os.pathsep.join(str(home / "bin") for home in path)}


def test_java_home_comes_before_the_path(
    java_home: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = java(tmp_path / "a", "21"), java(tmp_path / "b", "17")
    assert java_home.own_java_or_none(environment(first, second)) == str(first)
    assert capsys.readouterr().err == ""


def test_a_java_on_the_path_says_its_own_home(java_home: ModuleType, tmp_path: Path) -> None:
    assert java_home.own_java_or_none(environment(None, java(tmp_path / "b", "25"))) == str(
        tmp_path / "b"
    )


def test_an_unknown_version_is_passed_over_and_named(
    java_home: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, good = java(tmp_path / "old", "1.8"), java(tmp_path / "good", "17")
    assert java_home.own_java_or_none(environment(old, good)) == str(good)
    assert capsys.readouterr().err == (
        f"apportion: the Java of JAVA_HOME ({old}/bin/java) is version 8; needed: 17, 21 or 25\n"
    )


def test_a_java_home_without_a_java_is_passed_over_and_named(
    java_home: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert java_home.own_java_or_none(environment(tmp_path / "gone")) is None
    assert capsys.readouterr().err == (
        f"apportion: the Java of JAVA_HOME ({tmp_path}/gone/bin/java) does not start; "
        "needed: 17, 21 or 25\n"
    )


def test_the_launcher_drops_the_missing_module_and_nothing_else(
    java_home: ModuleType, tmp_path: Path
) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    java_home.write_launcher(tmp_path / "home", str(echo))
    asked = ["-Xmx1g", java_home.MISSING_MODULE, "--add-modules=other", "two words", ""]
    output = subprocess.run(
        [tmp_path / "home" / "bin" / "java", *asked], capture_output=True, text=True, check=True
    ).stdout
    assert output == "-Xmx1g\n--add-modules=other\ntwo words\n\n"
