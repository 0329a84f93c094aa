"""Source, writers and README's application on the releases of Spark that .venv does not have: each
one runs `spark/smoke.py` and tests of tests/spark, in one process.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from apportion.spark.versions import TESTED, connect_shows_queries
from tests.compat.spark_releases import LOCKS, environment, release
from tests.spark import readme

__all__ = ["environment", "release"]

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/compat/spark/smoke.py",
    "tests/spark/test_batch_read.py",
    "tests/spark/test_stream_options.py",
    "tests/spark/test_decoding.py",
)
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider"]
# PySpark 4.0 and 4.1 do not close the sockets that they collect rows from.
UNCLOSED = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]


def test_every_release_that_is_called_tested_has_a_lock() -> None:
    pins = (ROOT / "requirements.lock").read_text().split()
    (of_venv,) = [pin.removeprefix("pyspark==") for pin in pins if pin.startswith("pyspark==")]
    assert (*LOCKS, of_venv.rpartition(".")[0]) == TESTED


@pytest.mark.timeout(1_800)
def test_a_release_of_spark_reads_and_writes_as_the_newest_does(
    release: str, environment: Mapping[str, str]
) -> None:
    run = subprocess.run(
        [*PYTEST, *UNCLOSED, *TESTS],
        cwd=ROOT,
        env={**os.environ, **environment, "APPORTION_SPARK_RELEASE": release},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]


def test_readmes_application_runs_as_it_is_pasted(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    readme.play(tmp_path, environment)


@pytest.mark.parametrize(
    "release", [each for each in LOCKS if connect_shows_queries(each)], indirect=True
)
def test_readmes_application_runs_through_spark_connect(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    readme.play(tmp_path, {**environment, "SPARK_REMOTE": "local[2]"})
