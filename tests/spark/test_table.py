"""The Delta half of the exactly-once writer, without Spark: files, fences, columns, races."""

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from apportion.spark.delta import clean
from apportion.spark.delta_sink.files import (
    OffsetWindow,
    PartFileWriter,
    WrittenFile,
    delete_files,
    rewrite_part_files,
)
from apportion.spark.delta_sink.table import CommitConflict, TableAttempt
from apportion.spark.errors import NotWritable
from apportion.topics import TopicPartition

ROWS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("city", pa.string()),
    ]
)


def rows(partition: int, start: int, end: int, schema: pa.Schema = ROWS) -> pa.RecordBatch:
    columns = {
        "topic": ["t"] * (end - start),
        "partition": [partition] * (end - start),
        "offset": list(range(start, end)),
        "city": ["x"] * (end - start),
        "delay": [7] * (end - start),
    }
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)


def opened(path: str, schema: pa.Schema = ROWS) -> TableAttempt:
    while True:
        try:
            attempt = TableAttempt.on(path, None, schema)
            if missing := attempt.fit(schema).missing:
                attempt.add_columns(missing)
            return attempt
        except CommitConflict:
            continue


def written(
    path: str,
    windows: dict[Any, OffsetWindow],
    *batches: pa.RecordBatch,
    schema: pa.Schema = ROWS,
) -> list[WrittenFile]:
    files = PartFileWriter(path, None, schema, windows)
    return [
        file
        for report in files.write(batches)
        for file in starmap(WrittenFile, zip(*report.to_pydict().values(), strict=True))
    ]


def part(
    path: str, partition: int, start: int, end: int, schema: pa.Schema = ROWS
) -> list[WrittenFile]:
    """The files of these rows of a partition, whose fence is where they start."""
    windows = {("t", partition): OffsetWindow(start, start, end)}
    return written(path, windows, rows(partition, start, end, schema), schema=schema)


def append(path: str, partition: int, start: int, end: int) -> None:
    """Commit these rows, and the fence above them."""
    opened(path).commit(part(path, partition, start, end), {f"g/t/{partition}": end}, ROWS)


def stored(path: str) -> list[tuple[int, int]]:
    return sorted(
        zip(
            *DeltaTable(path)
            .to_pyarrow_table()
            .select(["partition", "offset"])
            .to_pydict()
            .values(),
            strict=True,
        )
    )


def test_one_file_holds_one_kafka_partition_and_says_its_range(path: str) -> None:
    opened(path)
    mixed = (
        pa.Table.from_batches([rows(0, 5, 8), rows(1, 0, 2), rows(0, 8, 9)])
        .combine_chunks()
        .to_batches()
    )
    files = written(
        path, {("t", 0): OffsetWindow(5, 5, 9), ("t", 1): OffsetWindow(0, 0, 2)}, *mixed
    )
    assert sorted((file.topic_partition, file.rows, file.first, file.last) for file in files) == [
        (("t", 0), 4, 5, 8),
        (("t", 1), 2, 0, 1),
    ]


def test_small_batches_of_one_partition_share_a_row_group(path: str) -> None:
    opened(path)
    (file,) = written(
        path, {("t", 0): OffsetWindow(0, 0, 9)}, rows(0, 0, 3), rows(0, 3, 4), rows(0, 4, 9)
    )
    stored_file = pq.ParquetFile(Path(path, file.path))
    assert (stored_file.num_row_groups, stored_file.read().column("offset").to_pylist()) == (
        1,
        list(range(9)),
    )


def test_rows_below_the_lower_bound_are_dropped(path: str) -> None:
    opened(path)
    (file,) = written(path, {("t", 0): OffsetWindow(7, 5, 9)}, rows(0, 5, 9))
    assert (file.rows, file.first, file.last) == (2, 7, 8)


def test_rows_that_the_span_does_not_cover_are_refused_and_leave_no_file(path: str) -> None:
    opened(path)
    with pytest.raises(
        NotWritable, match="Keep the source's columns topic, partition and offset unchanged"
    ):
        written(path, {("t", 0): OffsetWindow(5, 5, 9)}, rows(0, 5, 7), rows(0, 7, 12))
    assert list(Path(path).glob("*.parquet")) == []


def test_files_and_fences_appear_together(path: str) -> None:
    attempt = opened(path)
    assert attempt.fence_or_none("g/t/0") is None
    attempt.commit(part(path, 0, 0, 3), {"g/t/0": 3}, ROWS)
    assert (stored(path), opened(path).fence_or_none("g/t/0")) == ([(0, 0), (0, 1), (0, 2)], 3)


def test_a_batch_without_rows_moves_its_fence(path: str) -> None:
    opened(path).commit([], {"g/t/0": 12}, ROWS)
    assert (stored(path), opened(path).fence_or_none("g/t/0")) == ([], 12)


def test_a_writer_that_read_the_fence_before_it_moved_commits_nothing(path: str) -> None:
    zombie = opened(path)
    late = part(path, 0, 0, 3)
    append(path, 0, 0, 5)
    with pytest.raises(CommitConflict):
        zombie.commit(late, {"g/t/0": 3}, ROWS)
    assert (stored(path), opened(path).fence_or_none("g/t/0")) == (
        [(0, offset) for offset in range(5)],
        5,
    )


def test_writers_of_different_partitions_do_not_beat_each_other(path: str) -> None:
    one, other = opened(path), opened(path)
    one.commit(part(path, 0, 0, 2), {"g/t/0": 2}, ROWS)
    other.commit(part(path, 1, 0, 2), {"g/t/1": 2}, ROWS)
    assert stored(path) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_task_whose_second_file_the_disk_refuses_leaves_none(path: str) -> None:
    opened(path)
    large = rows(1, 0, 1).set_column(3, "city", pa.array([os.urandom(20_000).hex()]))
    windows = {("t", partition): OffsetWindow(0, 0, 1) for partition in (0, 1)}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            written(path, windows, rows(0, 0, 1), large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.name for file in Path(path).iterdir()] == ["_delta_log"]


def test_a_task_that_is_stopped_while_it_reports_deletes_its_files(path: str) -> None:
    opened(path)
    windows = {TopicPartition("t", 0): OffsetWindow(0, 0, 6)}
    reports: Any = PartFileWriter(path, None, ROWS, windows).write([rows(0, 0, 6)])
    next(reports)
    reports.close()
    assert list(Path(path).glob("*.parquet")) == []


def test_a_file_that_straddles_the_fence_is_written_again_above_it(path: str) -> None:
    opened(path)
    files = part(path, 0, 0, 6)
    windows = {TopicPartition("t", 0): OffsetWindow(4, 0, 6)}
    job = PartFileWriter(path, None, ROWS, windows)
    paths = pa.RecordBatch.from_pydict({"path": [file.path for file in files]})
    (report,) = rewrite_part_files(job, [paths])
    (again,) = starmap(WrittenFile, zip(*report.to_pydict().values(), strict=True))
    assert (again.rows, again.first, again.last) == (2, 4, 5)
    delete_files(job.filesystem(), [file.path for file in files])
    assert [file.name for file in Path(path).glob("*.parquet")] == [again.path]


def test_a_column_that_the_table_lacks_is_added_before_anything_is_written(path: str) -> None:
    append(path, 0, 0, 1)
    wider = ROWS.append(pa.field("delay", pa.int64()))
    more = part(path, 0, 1, 3, wider)
    opened(path, wider).commit(more, {"g/t/0": 3}, wider)
    append(path, 1, 0, 1)
    table = (
        DeltaTable(path)
        .to_pyarrow_table()
        .sort_by([("partition", "ascending"), ("offset", "ascending")])
    )
    assert table.column("delay").to_pylist() == [None, 7, 7, None]


def test_a_column_of_another_type_is_refused_with_both_types_named(path: str) -> None:
    opened(path)
    other = pa.schema([*list(ROWS)[:3], pa.field("city", pa.int64())])
    with pytest.raises(NotWritable, match="holds column city as string, the query writes long"):
        opened(path, other)


@pytest.mark.parametrize("race", range(3))
def test_writers_that_create_the_table_at_one_moment_lose_no_row_and_no_column(
    path: str, race: int
) -> None:
    wider = ROWS.append(pa.field("delay", pa.int64()))

    def create_and_append(partition: int) -> None:
        schema = wider if partition % 2 else ROWS
        attempt = opened(path, schema)
        files = part(path, partition, 0, 4, schema)
        while True:
            try:
                return attempt.commit(files, {f"g/t/{partition}": 4}, schema)
            except CommitConflict:
                attempt = opened(path, schema)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(create_and_append, range(6)))
    table = DeltaTable(path).to_pyarrow_table()
    delays = {(row["partition"], row["delay"]) for row in table.to_pylist()}
    assert stored(path) == [(partition, offset) for partition in range(6) for offset in range(4)]
    assert delays == {(partition, 7 if partition % 2 else None) for partition in range(6)}


def test_clean_removes_what_no_version_refers_to_and_nothing_else(path: str) -> None:
    append(path, 0, 0, 3)
    (orphan,) = part(path, 0, 3, 5)
    assert clean(path) == []  # younger than the retention
    assert clean(path, retention_hours=0) == [orphan.path]
    assert (stored(path), opened(path).fence_or_none("g/t/0")) == ([(0, 0), (0, 1), (0, 2)], 3)


@pytest.mark.parametrize("name", ["50%", "a b", "a~b", "day=2026-11-29 00:00", "#[x]?", "grün"])
def test_a_table_with_an_odd_path_is_made_written_read_and_cleaned(
    tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / name)
    append(path, 0, 0, 3)
    uri = f"file://{quote(path)}"
    append(uri, 0, 3, 5)
    orphans = [*part(path, 0, 5, 7), *part(uri, 0, 5, 7)]
    assert sorted(clean(path, retention_hours=0)) == sorted(file.path for file in orphans)
    assert stored(path) == [(0, offset) for offset in range(5)]
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_clean_leaves_alone_what_others_wrote(tmp_path: Path) -> None:
    path = str(tmp_path)
    opened(path)
    write_deltalake(str(tmp_path / "other" / "table"), pa.table({"a": [1]}))
    (tmp_path / "report.csv").write_text("x")
    (tmp_path / "part-0.parquet").write_text("x")
    (tmp_path / "other" / f"part-t-0-{'0' * 32}.parquet").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    assert clean(path, retention_hours=0) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_no_table_is_made_where_something_else_lies(tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text("x")
    with pytest.raises(
        NotWritable,
        match=(
            r"is not a Delta table and not empty, it holds report\.csv: give the Delta writer "
            r"the path"
        ),
    ):
        TableAttempt.on(str(tmp_path), None, ROWS)
    assert [file.name for file in tmp_path.iterdir()] == ["report.csv"]
    (tmp_path / "report.csv").unlink()
    assert opened(str(tmp_path)).fence_or_none("g/t/0") is None


def test_a_directory_that_cannot_be_made_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    remedy = (
        "give the Delta writer a path that the user of the driver and of the executors may write"
    )
    for path, why in (
        (f"{tmp_path}/file/lake", "Not a directory"),
        (f"{tmp_path}/file", "it is a file"),
        (f"file://{tmp_path}/file/lake", "Not a directory"),
    ):
        with pytest.raises(NotWritable) as refusal:
            TableAttempt.on(path, None, ROWS)
        assert str(refusal.value) == f"no table can be created at {path}: {why}; {remedy}"


def test_a_directory_that_cannot_be_written_is_refused_with_its_path(tmp_path: Path) -> None:
    path = f"{tmp_path}/lake"
    program = (
        "import os, sys, pyarrow\n"
        "from apportion.spark.delta_sink.table import TableAttempt\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"
        "try: TableAttempt.on(sys.argv[1], None, pyarrow.schema([('city', pyarrow.string())]))\n"
        "except ValueError as error: print(error)\n"
    )
    os.makedirs(path, mode=0o555)
    os.chmod(tmp_path, 0o755)
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60
    )
    remedy = (
        "give the Delta writer a path that the user of the driver and of the executors may write"
    )
    assert (done.stdout, done.stderr) == (
        f"no table can be created at {path}: Permission denied; {remedy}\n",
        "",
    )


def test_clean_of_a_table_that_is_not_there_does_nothing(tmp_path: Path) -> None:
    assert clean(str(tmp_path / "none")) == []
