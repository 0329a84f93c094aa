"""`apportion doctor` on the Python that Spark starts for its workers."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion import __version__
from apportion.cli.doctor.finding import Finding, Result
from apportion.cli.doctor.programs import check_packages, check_workers_python
from tests.cli.programs import program

HERE = ".".join(map(str, sys.version_info[:3]))
USE_THIS = f"export PYSPARK_PYTHON={sys.executable}"
INSTALL_THERE = "install apportion there with its extra spark, as README says"
INSTALL_HERE = "install apportion with its extra spark in this Python, as README says"


def python_that_says(directory: Path, **facts: Any) -> dict[str, str]:
    said = {"python": [*sys.version_info[:3]], "path": "/opt/python", **facts}
    return program(directory, "python3", f"echo '{json.dumps(said)}'")


def test_the_workers_python_is_the_one_that_is_set() -> None:
    environment = {"PATH": os.environ["PATH"], "PYSPARK_PYTHON": sys.executable}
    found = f"{sys.executable}: {sys.executable} is Python {HERE} with apportion {__version__}"
    assert check_workers_python(environment) == Finding("workers' Python", Result.OK, found)


@pytest.mark.parametrize(
    ("facts", "lack"),
    [
        ({"python": [3, 9, 1]}, f"Python 3.9.1, and this one {HERE}"),
        ({}, f"Python {HERE} without apportion"),
        (
            {"apportion": "0.0.1"},
            f"Python {HERE} with apportion 0.0.1, not {__version__}",
        ),
    ],
)
def test_another_python_on_the_path_is_a_warning(
    tmp_path: Path, facts: dict[str, Any], lack: str
) -> None:
    # A program that imports apportion.spark before it starts Spark has its own.
    finding = check_workers_python(python_that_says(tmp_path, **facts))
    found = (
        "PYSPARK_PYTHON is not set, so Spark starts python3, except for a program that imports "
        f"apportion.spark before it starts Spark: /opt/python is {lack}"
    )
    assert finding == Finding("workers' Python", Result.WARNING, found, USE_THIS)


def test_a_python_that_is_set_and_lacks_sparks_packages_fails(tmp_path: Path) -> None:
    missing = "without pyarrow"
    environment = python_that_says(tmp_path, apportion=__version__, missing=missing)
    environment["PYSPARK_PYTHON"] = "python3"
    finding = check_workers_python(environment)
    assert finding.result is Result.FAILED
    assert finding.found.endswith(f"Python {HERE} without pyarrow")
    assert finding.remedy == f"{USE_THIS}, or {INSTALL_THERE}"


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        ({"apportion": __version__, "missing": "without pyspark"}, INSTALL_THERE),
        ({}, f"{INSTALL_HERE}, then {USE_THIS}"),
    ],
)
def test_a_python_without_spark_is_not_recommended_for_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], remedy: str
) -> None:
    environment = python_that_says(tmp_path, **facts)
    # Where the standard library is, and no package.
    monkeypatch.setattr(sys, "path", [os.path.dirname(os.__file__)])
    assert check_packages().result is Result.FAILED
    assert check_workers_python(environment).remedy == remedy


def test_workers_without_a_python_fail(tmp_path: Path) -> None:
    finding = check_workers_python({"PATH": str(tmp_path), "PYSPARK_PYTHON": "/no/python"})
    assert finding == Finding(
        "workers' Python", Result.FAILED, "/no/python: there is no such program", USE_THIS
    )
    silent = check_workers_python(program(tmp_path, "python3", "exit 1"))
    assert silent.found.endswith(f"{tmp_path}/python3 does not start as a Python")
