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

from apportion.spark.bytecode import HOME, add_bytecode, archives
from apportion.testing.lock import locked

UNWRITTEN = "PYTHONDONTWRITEBYTECODE"
"""The variable that lets Python store no bytecode; where it is set each process compiles ours."""


def installed_packages() -> Path:
    """Return the directory with this environment's PySpark. Raises PeerMissing."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PeerMissing("there is no PySpark: install apportion with its extra spark")
    return Path(spec.origin).parents[1]


def spark_home(pyspark: Path) -> Path:
    """Return a directory of Spark like the package `pyspark`, whose archives have bytecode.

    Everything else in it is a link to the package. It is made once for each package and Python.
    """
    original = archives({HOME: str(pyspark.resolve())})
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in original]
    key = sha256(repr((sys.version, states)).encode())
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
                add_bytecode(Path(shutil.copy(path, draft / "python" / "lib")))
            draft.rename(directory)
    return directory.resolve()


def compile_own(source: Path) -> None:
    """Store the bytecode of apportion's modules, as pip does where it installs them."""
    environment = {name: value for name, value in os.environ.items() if name != UNWRITTEN}
    command = [sys.executable, "-m", "compileall", "-q", str(source)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
