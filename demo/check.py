"""The check at the end: the Delta table, read again from its files, against the CSV."""

from typing import NamedTuple

import pyarrow.compute as pc
from deltalake import DeltaTable

from demo.flights import Figures


class Verdict(NamedTuple):
    """How the table differs from the CSV: counts, and each problem as a sentence."""

    rows_out: int
    duplicates: int
    missing: int
    problems: tuple[str, ...]


def check_table(table: str, expected: Figures, has_version_two: bool = True) -> Verdict:
    """Compare the table with the figures of the CSV.

    Each record must be one row, so rows with the same partition and offset are duplicates.
    has_version_two: rows of version 2 must exist, with its column `day_part` filled.
    """
    rows = DeltaTable(table).to_pyarrow_table()
    record_count = (
        rows.select(["partition", "offset"])
        .group_by(["partition", "offset"])
        .aggregate([])
        .num_rows
    )
    actual_figures = Figures(
        rows.num_rows,
        pc.sum(rows["distance"]).as_py() or 0,
        pc.sum(rows["dep_delay"]).as_py() or 0,
        rows["dep_delay"].null_count,
    )
    problems = [
        f"{name}: the table has {actual:,}, the CSV {expected_value:,}"
        for name, actual, expected_value in zip(
            Figures._fields, actual_figures, expected, strict=True
        )
        if actual != expected_value
    ]
    if record_count != expected.rows:
        problems.append(
            f"distinct (partition, offset): the table has {record_count:,}, the CSV has "
            f"{expected.rows:,} rows"
        )
    if has_version_two:
        problems += _problems_of_version_two(rows)
    return Verdict(
        rows.num_rows, rows.num_rows - record_count, expected.rows - record_count, tuple(problems)
    )


def _problems_of_version_two(rows: "object") -> list[str]:
    version = rows["pipeline_version"]  # type: ignore[index]
    newer = rows.filter(pc.equal(version, 2))  # type: ignore[attr-defined]
    if newer.num_rows == 0:
        return ["version 2 of the pipeline wrote no row"]
    if "day_part" not in newer.column_names or newer["day_part"].null_count:
        return ["version 2's column day_part is not filled in all of its rows"]
    return []
