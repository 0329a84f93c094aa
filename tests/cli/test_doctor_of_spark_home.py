"""`apportion doctor` looks for the Spark that SPARK_HOME names."""

from pathlib import Path

from apportion.cli.doctor.finding import Finding, Result
from apportion.cli.doctor.programs import check_programs, check_spark_home


def test_a_directory_without_a_spark_is_found(tmp_path: Path) -> None:
    assert check_spark_home(str(tmp_path)) == Finding(
        "Spark's directory",
        Result.FAILED,
        f"SPARK_HOME is {tmp_path}: there is no {tmp_path}/bin/spark-submit",
        "set SPARK_HOME to the directory of a Spark, or unset it for the installed package",
    )


def test_a_directory_with_a_spark_is_right(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    assert check_spark_home(str(tmp_path)).result is Result.OK


def test_the_directory_is_looked_at_where_the_variable_has_a_value(tmp_path: Path) -> None:
    def checks(**environment: str) -> list[str]:
        return [each.check for each in check_programs(environment)]

    assert "Spark's directory" in checks(SPARK_HOME=str(tmp_path))
    assert "Spark's directory" not in checks(SPARK_HOME="")
    assert "Spark's directory" not in checks()
