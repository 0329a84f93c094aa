"""Spark's workers are started with the interpreter of the program that imports apportion.spark."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.spark.workers_python import use_this_python
from tests.spark.error_page import assert_on_page

PRINT_IT = "import os, apportion.spark; print(os.environ.get('PYSPARK_PYTHON'))"


def other_python(directory: Path) -> dict[str, str]:
    """An environment whose python3 is of another directory than this interpreter."""
    path = directory / "python3"
    path.write_text("#!/bin/sh")
    path.chmod(0o755)
    return {"PATH": str(directory)}


def test_spark_is_told_this_python_where_it_would_start_another_one(tmp_path: Path) -> None:
    for environment in ({"PATH": str(tmp_path)}, other_python(tmp_path)):
        path = environment["PATH"]
        use_this_python(environment, is_spark_running=False)
        assert environment == {"PATH": path, "PYSPARK_PYTHON": sys.executable}


def test_a_python_that_is_set_or_found_stays(tmp_path: Path) -> None:
    typed = {**other_python(tmp_path), "PYSPARK_PYTHON": "python9"}
    active = {"PATH": str(Path(sys.executable).parent)}
    for environment in (typed, active):
        before = dict(environment)
        use_this_python(environment, is_spark_running=False)
        assert environment == before


def test_a_spark_that_runs_already_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environment = other_python(tmp_path)
    with caplog.at_level(logging.WARNING):
        use_this_python(environment, is_spark_running=True)
    assert "PYSPARK_PYTHON" not in environment
    (line,) = caplog.messages
    assert f"set PYSPARK_PYTHON={sys.executable} before Spark starts" in line


def test_a_python_without_apportion_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho $ANSWER")
    other.chmod(0o755)
    environment = {"PATH": "/bin", "PYSPARK_PYTHON": str(other), "ANSWER": "True"}
    use_this_python(environment, is_spark_running=False)
    (line,) = caplog.messages
    assert line.startswith(f"PYSPARK_PYTHON is {other}, a Python without apportion")
    assert line.endswith(f"PYSPARK_PYTHON={sys.executable}")
    assert_on_page("a Python of the workers without apportion", line)


@pytest.mark.parametrize(
    "change",
    [
        {"ANSWER": "False"},
        {"ANSWER": "some error"},
        {"PYSPARK_PYTHON": "/no/such/python"},
        {"PYTHON_WORKER_FACTORY_PORT": "1"},
    ],
)
def test_a_python_that_has_apportion_or_says_nothing_is_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, str]
) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho $ANSWER")
    other.chmod(0o755)
    environment = {"PATH": "/bin", "PYSPARK_PYTHON": str(other), "ANSWER": "True"} | change
    use_this_python(environment, is_spark_running=False)
    assert caplog.messages == []


def test_an_import_of_the_package_is_enough(tmp_path: Path) -> None:
    environment = other_python(tmp_path) | {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_IT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == sys.executable
