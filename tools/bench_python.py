"""Print the Python that benches run on: one that was built with profile-guided optimisation.

Users have such a one from Debian, Docker's images, conda and uv; who builds CPython without asking
for it (as pyenv does) has one that takes a fifth more time for the same heartbeats. BENCH_PYTHON
names another. Its packages are those of `.venv`, so it has the same version but for the last
number: `bench-out/python` is a virtual environment of it that has none of its own.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "bench-out" / "python"
PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"
FACTS = """
import json, platform, sys, sysconfig
print(json.dumps([
    platform.python_implementation(), list(sys.version_info[:3]), platform.python_compiler(),
    sysconfig.get_config_var("CONFIG_ARGS") or "", sys.base_prefix, sys._base_executable,
]))
"""
DISTRIBUTION = "/usr"
"""The prefix of the packages of a distribution, which optimise by other means than the option."""


class NoPython(Exception):
    """There is no such Python; the text is a sentence for the user."""


class Build(NamedTuple):
    """How an interpreter was built. prefix, executable: of itself, not of a virtual environment."""

    implementation: str
    version: tuple[int, int, int]
    compiler: str
    options: str
    prefix: str
    executable: str

    @property
    def is_optimised(self) -> bool:
        """Return whether profiles of a run guided its compiler."""
        return "--enable-optimizations" in self.options or self.prefix == DISTRIBUTION

    def __str__(self) -> str:
        number = ".".join(map(str, self.version))
        how = "with" if self.is_optimised else "without"
        lto = ", link-time optimisation" if "--with-lto" in self.options else ""
        return (
            f"{self.implementation} {number} built by {self.compiler} "
            f"{how} profile-guided optimisation{lto}"
        )


def build_of(python: str) -> Build:
    """Return how this interpreter was built; raise NoPython for a program that does not say it."""
    try:
        done = subprocess.run(
            [python, "-c", FACTS], capture_output=True, text=True, check=True, timeout=60
        )
        implementation, version, compiler, options, prefix, executable = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        raise NoPython(f"{python} is no Python that runs here") from None
    return Build(implementation, tuple(version), compiler, options, prefix, executable)


def candidates(environment: Mapping[str, str], version: tuple[int, ...]) -> list[str]:
    """Return the interpreters of a version (major, minor) on PATH, those of /usr last."""
    name = "python{}.{}".format(*version)
    directories = [*environment.get("PATH", "").split(os.pathsep), f"{DISTRIBUTION}/bin"]
    found = (shutil.which(name, path=directory) for directory in directories)
    return [path for path in dict.fromkeys(found) if path]


def chosen(own: Build, named: str, others: Iterable[str]) -> Build:
    """Return the interpreter for benches: `named`, else the first that is optimised, else `own`.

    Raises NoPython where `named` cannot use the packages of `own`.
    """
    if named:
        build = build_of(named)
        if build.version[:2] != own.version[:2]:
            number, wanted = (".".join(map(str, each.version[:2])) for each in (build, own))
            raise NoPython(
                f"BENCH_PYTHON={named} is Python {number}, and the packages of .venv are for "
                f"{wanted}: make fresh, then make PYTHON={named} bench"
            )
        return build
    if own.is_optimised:
        return own
    builds = (build_of(path) for path in others)
    return next((build for build in builds if build.is_optimised), own)


def made(home: Path, build: Build) -> Path:
    """Make `home` a virtual environment with the packages of the Python that runs.

    Returns its program, which is the interpreter of `build`.
    """
    program = home / "bin" / "python"
    if not program.exists() or build_of(str(program)) != build:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([build.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = (home / "lib").glob("python*/site-packages")
    borrowed = subprocess.run(
        [sys.executable, "-c", PACKAGES], capture_output=True, text=True, check=True
    ).stdout.strip()
    # addsitedir also reads the .pth files there, such as that of the editable install.
    (packages / "borrowed.pth").write_text(f"import site; site.addsitedir({borrowed!r})\n")
    return program


def main() -> int:
    """Print the program, and on stderr which Python it is. Return the exit code."""
    own = build_of(sys.executable)
    others = candidates(os.environ, own.version[:2])
    try:
        build = chosen(own, os.environ.get("BENCH_PYTHON", ""), others)
    except NoPython as error:
        print(f"apportion: {error}", file=sys.stderr)
        return 1
    print(sys.executable if build == own else made(HOME, build))
    print(f"apportion: benches run on {build} ({build.executable})", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
