"""A local table whose directory the hosts of a cluster do not share. Only Spark is played: what an
executor writes on a disk of its own is taken away before the driver looks.
"""

from pathlib import Path
from socket import gethostname

import pytest
from deltalake import DeltaTable

from apportion.spark.delta import Writer
from apportion.spark.delta_sink.files import PartFileWriter
from apportion.spark.delta_sink.shared_directory import TableNotShared, require_shared
from tests.spark.micro_batches import ARROW, batch, every, stored

ADVICE = (
    "Let the table be in an object store, or in a file system that is mounted at this path on the "
    "driver's host and on every executor's"
)


def part_files(path: str) -> list[Path]:
    return sorted(Path(path).glob("part-*.parquet"))


def test_files_that_the_driver_does_not_find_are_not_committed(path: str) -> None:
    batch(Writer(path), (0, 0, 5))
    before = part_files(path)
    gone: list[Path] = []

    def on_another_disk() -> None:
        for file in part_files(path):
            if file not in before:
                gone.append(file.rename(file.with_suffix(".elsewhere")))

    with pytest.raises(TableNotShared) as refused:
        batch(Writer(path), (0, 5, 9), meanwhile=on_another_disk)
    assert str(refused.value) == (
        f"the driver does not find {gone[0].with_suffix('.parquet')}, which an executor has just "
        f"written, so {path} is not one directory for both; nothing of the batch was committed. "
        f"{ADVICE}"
    )
    batch(Writer(path), (0, 5, 9))  # the fence has not moved
    assert (stored(path), DeltaTable(path).version()) == (every((0, 0, 9)), 2)


@pytest.mark.parametrize("host", ["", "localhost"])
def test_a_table_is_written_to_the_directory_that_its_uri_names(tmp_path: Path, host: str) -> None:
    writer = Writer(f"file://{host}{tmp_path}/my%20lake")
    batch(writer, (0, 0, 5))
    batch(writer, (0, 5, 9))
    assert [each.name for each in tmp_path.iterdir()] == ["my lake"]
    assert stored(str(tmp_path / "my lake")) == every((0, 0, 9))


def test_a_file_of_another_size_is_not_the_one_that_was_written(path: str) -> None:
    Path(path).mkdir()
    Path(path, "part").write_text("four")
    for location in (path, f"file://{path}"):
        require_shared(location, {"part": 4})
        with pytest.raises(TableNotShared):
            require_shared(location, {"part": 5})


def test_a_table_that_is_in_no_file_system_is_not_looked_at() -> None:
    require_shared("s3://lake/flights", {"part": 4})


def test_an_executor_without_the_directory_of_the_table_names_its_host(path: str) -> None:
    with pytest.raises(TableNotShared) as refused:
        PartFileWriter(path, None, ARROW, {}).filesystem()
    assert str(refused.value) == (
        f"an executor on {gethostname()} cannot write files of the table: its host has no "
        f"directory {path}. {ADVICE}"
    )
