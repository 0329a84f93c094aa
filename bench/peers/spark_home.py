"""Spark and apportion as their installations leave them: with bytecode, as README's Install says.

The PySpark of this environment stays as it is: what is changed lies in a directory of the peers.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from bench.peers.downloads import TARGET
from bench.peers.rows import PeerMissing

from apportion.spark import bytecode
from apportion.spark.bytecode import DAMAGED, HOME, NoArchives, add_bytecode, archives
from apportion.testing.kafka import last_lines
from apportion.testing.lock import locked

UNWRITTEN = "PYTHONDONTWRITEBYTECODE"
"""The variable that lets Python store no bytecode; where it is set each process compiles ours."""

COMPILER = Path(bytecode.__file__)
"""What compiles the archives: where it has changed they are compiled anew."""


def installed_packages() -> Path:
    """Return the directory with this environment's PySpark. Raises PeerMissing."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PeerMissing("there is no PySpark: install apportion with its extra spark")
    return Path(spec.origin).parents[1]


def spark_home(pyspark: Path) -> Path:
    """Return a directory of Spark like the package `pyspark`, whose archives have bytecode.

    Everything else in it is a link to the package. It is made once for each package, Python and
    compiler of ours. Raises PeerMissing.
    """
    try:
        original = archives({HOME: str(pyspark.resolve())})
    except NoArchives as problem:
        raise PeerMissing(f"{pyspark} has no pyspark.zip: install PySpark again") from problem
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in original]
    key = sha256(repr((sys.version, COMPILER.read_bytes(), states)).encode())
    directory = TARGET / f"spark-home-{key.hexdigest()[:12]}"
    with locked(TARGET / "spark-home.lock"):
        if not directory.is_dir():
            draft = TARGET / "spark-home-unfinished"
            shutil.rmtree(draft, ignore_errors=True)
            (draft / "python" / "lib").mkdir(parents=True)
            for path in pyspark.iterdir():
                if path.name != "python":
                    (draft / path.name).symlink_to(path.resolve())
            for path in original:
                _copy_with_bytecode(path, draft / "python" / "lib")
            draft.rename(directory)
    return directory.resolve()


def _copy_with_bytecode(archive: Path, directory: Path) -> None:
    """Copy an archive, and add its bytecode to the copy. Raises PeerMissing."""
    try:
        add_bytecode(Path(shutil.copy(archive, directory)))
    except DAMAGED as problem:
        raise PeerMissing(f"{archive} is damaged ({problem}): install PySpark again") from problem


def compile_own(source: Path) -> None:
    """Store the bytecode of apportion's modules, as pip does where it installs them.

    Raises PeerMissing.
    """
    environment = {name: value for name, value in os.environ.items() if name != UNWRITTEN}
    command = [sys.executable, "-m", "compileall", "-q", str(source)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        output = last_lines(done.stdout + done.stderr, 6)
        raise PeerMissing(f"the modules in {source} cannot be compiled: {output}")
