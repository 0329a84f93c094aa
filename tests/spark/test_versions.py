"""What apportion does by the release of Spark; the lane spark-releases runs the releases."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import apportion.spark
from apportion.spark.versions import (
    SparkTooOld,
    connect_shows_queries,
    newest_java_or_none,
    refuse_if_old,
    stateful_operator_class,
    to_utc_arrow_schema,
)
from tests.spark.error_page import assert_on_page

TOO_OLD = (
    "apportion.spark works with Spark 4.0, 4.1, 4.2 and 4.3, and this Python has pyspark 3.5.9: "
    "pip install 'pyspark>=4.0'"
)


def test_a_spark_without_sources_in_python_is_refused_in_one_sentence() -> None:
    with pytest.raises(SparkTooOld) as refusal:
        refuse_if_old("3.5.9")
    assert str(refusal.value) == TOO_OLD
    assert_on_page("a Spark that is too old", refusal.value)


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0", "4.4.0.dev0", "5.0.1", "10.1"])
def test_no_later_spark_is_refused(version: str) -> None:
    refuse_if_old(version)


def test_importing_apportion_spark_beside_an_old_spark_ends_with_that_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "version.py").write_text('__version__ = "3.5.9"\n')
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    program = subprocess.run(
        [sys.executable, "-c", "from apportion.spark import delta"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert program.returncode == 1
    assert program.stderr.splitlines()[-1] == f"apportion.spark.versions.SparkTooOld: {TOO_OLD}"


@pytest.mark.parametrize(
    ("version", "package"),
    [
        ("4.0.5", "streaming"),
        ("4.1.0", "streaming.operators.stateful"),
        ("4.3.0", "streaming.operators.stateful"),
        ("5.0.0", "streaming.operators.stateful"),
    ],
)
def test_the_supertype_of_stateful_operators_moved_with_spark_4_1(
    version: str, package: str
) -> None:
    assert (
        stateful_operator_class(version)
        == f"org.apache.spark.sql.execution.{package}.StatefulOperator"
    )


@pytest.mark.parametrize(
    ("version", "shows"),
    [
        ("4.1.3", False),
        ("4.2.0", True),
        ("4.2-vendor7", True),
        ("4.10.0", True),
        ("5.0.0", True),
    ],
)
def test_spark_connect_shows_a_writer_its_query_from_4_2_on(version: str, shows: bool) -> None:
    assert connect_shows_queries(version) is shows


@pytest.mark.parametrize(
    ("version", "newest"),
    [("4.0.5", 21), ("4.1.4-vendor7", 21), ("4.2.0", None), ("4.4.0.dev0", None)],
)
def test_spark_has_a_newest_java_until_4_2(version: str, newest: int | None) -> None:
    assert newest_java_or_none(version) == newest


def test_timestamps_of_a_table_are_in_utc() -> None:
    columns = StructType().add("at", "timestamp").add("local", "timestamp_ntz")
    assert to_utc_arrow_schema(columns) == pa.schema(
        [("at", pa.timestamp("us", tz="UTC")), ("local", pa.timestamp("us"))]
    )


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("import pyspark.sql.streaming.datasource", "admission_control.py"),
        ("from pyspark.sql.streaming.datasource import", "admission_control.py"),
        ("to_arrow_schema(", "versions.py"),
    ],
)
def test_one_module_uses_what_some_releases_do_not_have(name: str, user: str) -> None:
    sources = Path(apportion.spark.__file__).parent.rglob("*.py")
    users = {path.name for path in sources if name in path.read_text()}
    assert users <= {user}
