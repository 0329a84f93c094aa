"""Source and exactly-once writer on the releases of Spark that .venv does not have: each one runs
`spark/smoke.py`.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from apportion.spark.versions import TESTED
from tests.compat.spark_releases import LOCKS, environment, release

__all__ = ["environment", "release"]

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).parent / "spark" / "smoke.py"
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider"]


def test_every_release_that_is_called_tested_has_a_lock() -> None:
    pins = (ROOT / "requirements.lock").read_text().split()
    (of_venv,) = [pin.removeprefix("pyspark==") for pin in pins if pin.startswith("pyspark==")]
    assert (*LOCKS, of_venv.rpartition(".")[0]) == TESTED


def test_a_release_of_spark_reads_and_writes_each_record_once(
    release: str, environment: Mapping[str, str]
) -> None:
    run = subprocess.run(
        [*PYTEST, str(SMOKE)],
        cwd=ROOT,
        env={**os.environ, **environment, "APPORTION_SPARK_RELEASE": release},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
