"""What the doctor says of Spark Connect, where SPARK_REMOTE asks for it."""

import shlex
import sys
from pathlib import Path

from apportion.cli.doctor.finding import Finding, Result
from apportion.cli.doctor.programs import check_connect, check_programs

CHECK = "Spark Connect"


def python_without(directory: Path, module: str) -> str:
    """A program that is this Python without a module."""
    (directory / f"{module}.py").write_text(f"raise ImportError('there is no {module}')")
    program = directory / "python"
    path = shlex.quote(str(directory))
    program.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {shlex.quote(sys.executable)} "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_a_python_whose_spark_can_connect_passes() -> None:
    assert check_connect("local[2]") == Finding(CHECK, Result.OK, "SPARK_REMOTE is local[2]")


def test_a_python_without_what_spark_connect_needs_fails(tmp_path: Path) -> None:
    finding = check_connect("local[2]", python_without(tmp_path, "grpc"))
    assert (finding.result, finding.remedy) == (Result.FAILED, 'pip install "pyspark[connect]"')
    assert finding.found == (
        "SPARK_REMOTE is local[2], and [PACKAGE_NOT_INSTALLED] grpcio >= 1.48.1 must be installed; "
        "however, it was not found."
    )


def test_spark_connect_is_looked_at_where_it_is_asked_for() -> None:
    asked = [{}, {"SPARK_REMOTE": ""}, {"SPARK_REMOTE": "sc://localhost:15002"}]
    checks = [[each.check for each in check_programs(environment)] for environment in asked]
    assert [CHECK in each for each in checks] == [False, False, True]
