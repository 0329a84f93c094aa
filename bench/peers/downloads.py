"""What a peer needs, fetched the first time into `target/`, at versions pinned beside this file.

Jars come from Maven, by a pom; Go programs are built from `go/`, whose go.sum pins them; Python
packages come by a lock with hashes.
"""

import shutil
import sys
from hashlib import sha256
from pathlib import Path

from bench.peers.rows import PeerMissing
from tools.go_programs import GoMissing, built

from apportion.testing.kafka import KafkaMissing, jars_of, last_lines, output_if_failed
from apportion.testing.lock import locked

HERE = Path(__file__).parent
TARGET = HERE / "target"
GO = HERE / "go"


def jars(pom: str) -> Path:
    """Return the directory of the jars that the file `pom` names. Raises PeerMissing."""
    try:
        return jars_of(HERE / pom)
    except KafkaMissing as problem:
        raise PeerMissing(str(problem)) from problem


def go_program(name: str) -> Path:
    """Return the program built from `go/NAME`. Raises PeerMissing."""
    try:
        return built(GO, name, TARGET)
    except GoMissing as problem:
        raise PeerMissing(str(problem)) from problem


def python_packages(path: Path) -> Path:
    """Return the directory of the packages of a lock with hashes. Raises PeerMissing."""
    directory = TARGET / f"python-{sha256(path.read_bytes()).hexdigest()[:12]}"
    with locked(TARGET / "python.lock"):
        if not directory.is_dir():
            draft = TARGET / "python-unfinished"
            shutil.rmtree(draft, ignore_errors=True)
            pip = "-m pip install --disable-pip-version-check --quiet --require-hashes"
            words = [*pip.split(), "--no-deps", "--no-build-isolation", "--target", str(draft)]
            output = output_if_failed([sys.executable, *words, "-r", str(path)])
            if output is not None:
                raise PeerMissing(f"pip install failed: {last_lines(output, 6)}")
            draft.rename(directory)
    return directory
