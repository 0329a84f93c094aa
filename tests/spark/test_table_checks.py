"""A Delta writer's table is looked at before its query begins, and nothing is changed by that."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from apportion.spark.delta_sink.columns import SOURCE_COLUMNS
from apportion.spark.delta_sink.table import TableAttempt
from apportion.spark.delta_sink.table_checks import refuse_unfit_local_table, refuse_unfit_table
from apportion.spark.errors import NotWritable
from tests.spark.error_page import assert_on_page

WRITABLE = "give the Delta writer a path that the user of the driver and of the executors may write"
OTHER_OFFSETS = pa.schema([("offset", pa.string())])


def of_reports(path: Path) -> None:
    path.mkdir()
    (path / "report.csv").write_text("x")


def partitioned(path: Path) -> None:
    DeltaTable.create(str(path), Schema.from_arrow(SOURCE_COLUMNS), partition_by=["topic"])


def of_other_offsets(path: Path) -> None:
    DeltaTable.create(str(path), Schema.from_arrow(OTHER_OFFSETS))


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (of_reports, "a table's directory that holds other things"),
        (lambda path: path.write_text("x"), "a table that cannot be created"),
        (partitioned, "a partitioned table"),
        (of_other_offsets, "a column that has another type in the table"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused(
    path: str, made: Callable[[Path], None], wrong: str
) -> None:
    made(Path(path))
    with pytest.raises(NotWritable) as refused:
        refuse_unfit_local_table(path, SOURCE_COLUMNS)
    assert_on_page(wrong, refused.value)


@pytest.mark.parametrize("name", ["a%20b", "day=2026-11-29 00%3A00", "a%2Fb", r"a\b"])
def test_a_path_that_delta_rs_would_decode_is_refused_and_nothing_is_made(
    tmp_path: Path, name: str
) -> None:
    for table in (str(tmp_path / name), f"file://{quote(str(tmp_path / name))}"):
        with pytest.raises(NotWritable) as refused:
            refuse_unfit_local_table(table, SOURCE_COLUMNS)
        assert_on_page("a table's path with escapes", refused.value)
        with pytest.raises(NotWritable):
            TableAttempt.on(table, None, SOURCE_COLUMNS)
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_cannot_be_opened_is_refused_with_the_reason_and_what_to_do(path: str) -> None:
    (Path(path) / "_delta_log").mkdir(parents=True)
    (Path(path) / "_delta_log" / f"{0:020}.json").write_text("{")
    with pytest.raises(NotWritable) as refused:
        refuse_unfit_local_table(path, SOURCE_COLUMNS)
    assert_on_page("a table whose log is damaged", refused.value)


def test_a_table_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotWritable) as refused:
        refuse_unfit_local_table(f"{tmp_path}/file/lake", SOURCE_COLUMNS)
    assert str(refused.value) == (
        f"no table can be created at {tmp_path}/file/lake: {tmp_path}/file is a file; {WRITABLE}"
    )


def test_a_directory_of_another_user_is_refused() -> None:
    # Another user may not enter pytest's own temporary directory, nor perhaps what TMPDIR names.
    with TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        refuse_as_another_user(Path(directory))


def refuse_as_another_user(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from apportion.spark.delta_sink.columns import SOURCE_COLUMNS\n"
        "from apportion.spark.delta_sink.table_checks import refuse_unfit_local_table\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "for path in sys.argv[1:]:\n"
        "    try: refuse_unfit_local_table(path, SOURCE_COLUMNS)\n"
        "    except ValueError as error: print(error)\n"
    )
    table = tmp_path / "table"
    DeltaTable.create(str(table), Schema.from_arrow(SOURCE_COLUMNS))
    (tmp_path / "closed").mkdir(mode=0o555)
    for each in (table, table / "_delta_log"):
        os.chmod(each, 0o555)
    done = subprocess.run(
        [sys.executable, "-c", program, str(table), f"{tmp_path}/closed/lake"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert_on_page("a table that this user may not write to", done.stdout)
    assert (done.stdout, done.stderr) == (
        f"this user may not write to {table}: change its owner or its rights, or give the Delta "
        "writer another path\n"
        f"no table can be created at {tmp_path}/closed/lake: this user may not write to "
        f"{tmp_path}/closed; {WRITABLE}\n",
        "",
    )


def test_a_table_that_fits_and_a_new_one_are_let_through_and_left_as_they_are(
    path: str, tmp_path: Path
) -> None:
    refuse_unfit_local_table(path, SOURCE_COLUMNS)
    assert list(tmp_path.iterdir()) == []
    DeltaTable.create(path, Schema.from_arrow(SOURCE_COLUMNS))
    refuse_unfit_table(path, None, SOURCE_COLUMNS.append(pa.field("city", pa.string())))
    assert DeltaTable(path).version() == 0


def test_a_table_of_another_file_system_is_not_waited_for() -> None:
    refuse_unfit_local_table("s3://no-such-bucket/lake", SOURCE_COLUMNS)
