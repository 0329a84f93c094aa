"""Few records are decoded without Numba, and many with it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from apportion.columns import read
from apportion.columns.plain_rows import FEW_RECORDS, PlainBudget, PlainRows
from apportion.columns.read import to_arrow
from apportion.columns.room import OffsetRange
from apportion.wire.batch import encode_batch

PROGRAM = """
import sys
from apportion.columns.read import to_arrow
from apportion.wire.batch import encode_batch
batch = encode_batch([(b"k", None, (("h", b"v"),)), (None, b"v", ())], timestamp_ms=1)
rows = to_arrow(batch, topic="t", partition=0, from_offset=0, before_offset=BEFORE,
                include_headers=True)
print(sum(batch.num_rows for batch in rows), *sys.modules)
"""


@pytest.fixture(autouse=True)
def budget() -> Iterator[None]:
    before, read.budget = read.budget, PlainBudget()
    yield
    read.budget = before


def decoded_with(before_offset: int) -> set[str]:
    """What a new interpreter has imported once it has decoded two records."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("BEFORE", str(before_offset))],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, *modules = done.stdout.split()
    assert rows == "2"
    return {"numba", "pandas"} & set(modules)


def test_a_task_of_few_records_imports_neither_numba_nor_pandas() -> None:
    assert decoded_with(FEW_RECORDS) == set()


def test_a_task_of_many_records_imports_numba_at_once() -> None:
    assert decoded_with(FEW_RECORDS + 1) == {"numba"}


def test_plain_python_decodes_no_more_once_its_records_are_spent() -> None:
    budget = PlainBudget(10)
    assert budget.covers(OffsetRange(90, 100))
    assert not budget.covers(OffsetRange(90, 101))
    budget.spend(4)
    assert budget.covers(OffsetRange(0, 6))
    assert not budget.covers(OffsetRange(0, 7))
    budget.spend(100)
    assert not budget.covers(OffsetRange(0, 1))


def test_each_batch_is_counted_and_the_kernels_take_over_for_good() -> None:
    read.budget = PlainBudget(5)
    batch = encode_batch([(b"k", b"v", ())] * 3, timestamp_ms=1)

    def rows(before_offset: int) -> int:
        batches = to_arrow(
            batch, topic="t", partition=0, from_offset=0, before_offset=before_offset
        )
        return sum(each.num_rows for each in batches)

    assert rows(3) == 3
    assert read.budget.covers(OffsetRange(0, 2))
    assert rows(3) == 3
    assert not read.budget.covers(OffsetRange(0, 1))


def test_nulls_of_more_than_a_byte_of_rows_are_where_they_were() -> None:
    keys = [None if n % 3 else b"%d" % n for n in range(20)]
    batch = encode_batch([(key, b"", ()) for key in keys], timestamp_ms=1)
    (rows,) = to_arrow(batch, topic="t", partition=0, from_offset=0, before_offset=20)
    rows.validate(full=True)
    assert rows["key"].to_pylist() == keys
    assert rows["key"].null_count == keys.count(None)
    assert isinstance(PlainRows(1, include_headers=False).arrays(), list)
