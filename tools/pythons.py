"""The interpreters of a machine, and how each was built."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

FACTS = """
import json, platform, sys, sysconfig
print(json.dumps([
    platform.python_implementation(), list(sys.version_info[:3]), platform.python_compiler(),
    sysconfig.get_config_var("CONFIG_ARGS") or "", sys.base_prefix, sys._base_executable,
]))
"""
DISTRIBUTION = "/usr"
"""The prefix of the packages of a distribution, which optimise by other means than the option."""
OLDEST = (3, 11)


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


def on_path(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the programs `python3.N` on PATH, in /usr/bin and of pyenv, in this order."""
    pyenv = Path(environment.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    directories = [
        *map(Path, filter(None, environment.get("PATH", "").split(os.pathsep))),
        Path(DISTRIBUTION, "bin"),
        *(home / "bin" for home in sorted(pyenv.glob("3.*"), reverse=True)),
    ]
    for directory in dict.fromkeys(directories):
        for path in sorted(directory.glob("python3.*")):
            if re.fullmatch(r"python3\.\d+", path.name) and shutil.which(path):
                yield str(path)


def found(environment: Mapping[str, str]) -> dict[tuple[int, int], Build]:
    """Return by version (major, minor) the CPythons from OLDEST on that there are.

    Of each version the first that is optimised, else the first.
    """
    best: dict[tuple[int, int], Build] = {}
    for path in on_path(environment):
        try:
            build = build_of(path)
        except NoPython:  # pyenv's shim of a version that is not chosen
            continue
        version = build.version[:2]
        is_better = version not in best or (build.is_optimised and not best[version].is_optimised)
        if version >= OLDEST and build.implementation == "CPython" and is_better:
            best[version] = build
    return dict(sorted(best.items()))
