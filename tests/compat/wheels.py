"""Packages of PyPI that a lane needs beside .venv, installed the first time they are wanted.

Each lock has a directory in `target/`, which git ignores; a changed lock has a new one, and that of
the old lock is removed.
"""

import shutil
import sys
from hashlib import sha256
from pathlib import Path

from apportion.testing.kafka import output_if_failed
from apportion.testing.lock import locked

TARGET = Path(__file__).parent / "target"


class InstallFailed(Exception):
    """Something cannot be installed here; the text is a sentence that says what failed."""


def installed(lock: Path, name: str, python: str = sys.executable) -> Path:
    """The directory that the packages of a lock are installed in, as `name` and a mark. Raises
    InstallFailed. python: whose packages they are.
    """
    with locked(TARGET / f"{name}.lock"):
        home = TARGET / f"{name}-{mark_of(lock)}"
        if not home.is_dir():
            for other in TARGET.glob(f"{name}-*"):
                shutil.rmtree(other)
            unfinished = TARGET / f"{name}-unfinished"
            # not in isolation: what builds a package is in .venv, at the version of its lock
            pip = [sys.executable, "-m", "pip", "--python", python]
            how = ["install", "--disable-pip-version-check", "--quiet", "--require-hashes"]
            words = [*how, "--no-build-isolation", "--target", str(unfinished)]
            run("pip", [*pip, *words, "-r", str(lock)], TARGET)
            unfinished.rename(home)
        return home


def mark_of(path: Path) -> str:
    """A short name for what is in a file now."""
    return sha256(path.read_bytes()).hexdigest()[:12]


def run(what: str, command: list[str], directory: Path) -> None:
    """`command` has succeeded in `directory`. Raises InstallFailed."""
    output = output_if_failed(command, directory)
    if output is not None:
        raise InstallFailed(f"{what} could not install what this lane needs: {output[-1000:]}")
