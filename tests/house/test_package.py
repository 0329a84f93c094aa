"""Wheel and sdist: what is in them, and that the wheel works where nothing else of the project is.

Nothing is fetched. The build uses the pinned setuptools of `.venv`; a new environment gets the
wheel from pip, and links to those packages of `.venv` that the wheel declares as dependencies, and
to no others. So a dependency that is used and not declared is a failure here. The two commands of
README's section Install run as they stand there, in environments of the same kind.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from apportion import __version__

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[str]:
    """Every file that git tracks or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with those of the tracked files that a build reads."""
    clone = tmp_path_factory.mktemp("clone")
    for name in tracked():
        if name.startswith("src/") or "/" not in name:
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    return clone


@pytest.fixture(scope="module")
def built(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the wheel and the sdist of the tracked files; the wheel is built from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(clone)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def python(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment that has the wheel and its declared dependencies."""
    python = environment(tmp_path_factory.mktemp("clean"))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*pip, str(built[0])], check=True)
    return python


def environment(home: Path, extra: str = "") -> Path:
    """Return the interpreter of a new environment that has what apportion depends on."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    for name in dependencies("apportion", extra):
        link(name, site)
    return home / "bin" / "python"


def dependencies(name: str, extra: str = "") -> set[str]:
    """Return every package that a package needs on this platform, with one extra or none."""
    result: set[str] = set()
    todo = [(name, extra)]
    while todo:
        of, chosen = todo.pop()
        needed = [Requirement(text) for text in distribution(of).requires or ()]
        names = {
            each.name
            for each in needed
            if each.marker is None or each.marker.evaluate({"extra": chosen})
        }
        todo += [(each, "") for each in names - result]
        result |= names
    return result


def link(name: str, site: Path) -> None:
    """Link what a package has installed into another site-packages."""
    package = distribution(name)
    for top in {
        file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")
    }:
        target = site / top
        if not target.exists():
            target.symlink_to(Path(str(package.locate_file(top))).resolve())


def test_the_wheel_has_every_module_and_nothing_else(built: tuple[Path, Path]) -> None:
    modules = {
        name.removeprefix("src/")
        for name in tracked()
        if name.startswith("src/") and not name.endswith(".md")
    }
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == modules


def test_the_metadata_is_valid_and_has_the_version_of_the_package(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(wheel.read(name), validate=True)
        assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    assert (metadata.name, str(metadata.version)) == ("apportion", __version__)
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.description == (ROOT / "README.md").read_text()


def test_the_sdist_builds_without_the_repository(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as sdist:
        names = {Path(name).name for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} <= names


def test_the_version_is_written_once() -> None:
    assert [
        name
        for name in tracked()
        if name.startswith("src/") and f'"{__version__}"' in (ROOT / name).read_text()
    ] == ["src/apportion/__init__.py"]


def test_the_installed_wheel_runs_the_broker_of_the_readme(python: Path, tmp_path: Path) -> None:
    example: Any = re.search(
        r"```python\n(from apportion\.broker import .*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    done = subprocess.run(
        [python, "-c", example[1]], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.stdout)


def test_the_installed_wheel_has_the_command(python: Path, tmp_path: Path) -> None:
    command: Any = [python.with_name("apportion"), "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"apportion {__version__}\n"


@pytest.mark.parametrize(
    ("number", "extra", "imports"),
    [(0, "", "apportion.broker, apportion.cli.main"), (1, "spark", "apportion.spark.delta")],
)
def test_the_install_commands_of_the_readme_run_as_they_stand_there(
    number: int, extra: str, imports: str, clone: Path, tmp_path: Path
) -> None:
    lines = re.findall(r"^pip install .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 2
    python = environment(tmp_path, extra)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    for name in ("pip", "setuptools"):
        link(name, site)
    pip = python.with_name("pip")
    pip.write_text(f'#!/bin/sh\nexec "{python}" -m pip "$@"\n')
    pip.chmod(0o755)
    variables = {
        "PATH": f"{pip.parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
        # pip reads this one as the value of --build-isolation: with it the build would fetch
        # setuptools.
        "PIP_NO_BUILD_ISOLATION": "false",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", lines[number]], cwd=clone, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # An extra that does not exist is a warning to pip and no error.
    assert done.stderr == ""
    done = subprocess.run(
        [python, "-c", f"import {imports}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
