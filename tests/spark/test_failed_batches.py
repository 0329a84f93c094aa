"""A batch that fails, for whatever reason, leaves no file of its tasks in the table's directory."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from apportion.spark.delta import Writer
from tests.spark.delta_tables import commit, field, legacy, metadata
from tests.spark.micro_batches import batch, every, orphans, rows, stored, write

CITY = field("city", "string")


def test_a_query_that_fails_in_one_task_leaves_no_file_of_another(
    path: str, spark: SparkSession
) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", "integer")))
    write(path, rows(spark, "1"), group="other")
    # More tasks than cores, so that the last one begins when others have written their files.
    frame = rows(spark, *map(str, range(8)), "cast(raise_error('no such city') as int)")
    with pytest.raises(PySparkException, match="no such city"):
        write(path, frame)
    assert (stored(path), orphans(path)) == ([(0, 0)], [])


def test_a_batch_that_finds_its_table_changed_in_every_attempt_leaves_no_file(path: str) -> None:
    commit(path, 0, legacy(2), metadata(CITY))
    with pytest.raises(RuntimeError, match="changed under 1 attempts in a row"):
        batch(Writer(path, attempts=1), (0, 0, 4), meanwhile=lambda: batch(Writer(path), (0, 0, 2)))
    assert (stored(path), orphans(path)) == (every((0, 0, 2)), [])


def test_files_that_another_batch_is_writing_stay_when_one_fails(
    path: str, spark: SparkSession
) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", "integer")))
    other = Path(path) / f"part-t-0-{'0' * 32}.parquet"
    other.write_text("x")
    with pytest.raises(PySparkException, match="no such city"):
        write(path, rows(spark, *map(str, range(8)), "cast(raise_error('no such city') as int)"))
    assert orphans(path) == [other.name]
