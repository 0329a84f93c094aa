"""The last word: the Delta table, read again from its files, against the CSV."""

from typing import NamedTuple

import pyarrow.compute as pc
from deltalake import DeltaTable

from demo.flights import Figures


class Verdict(NamedTuple):
    """What the table holds, and every difference from the CSV as a sentence."""

    rows_out: int
    duplicates: int
    missing: int
    problems: tuple[str, ...]


def verdict(table: str, expected: Figures, rolled: bool = True) -> Verdict:
    """The table at `table` judged against `expected`. rolled: version 2 wrote too, and its column
    must be filled in its rows.
    """
    rows = DeltaTable(table).to_pyarrow_table()
    places = (
        rows.select(["partition", "offset"])
        .group_by(["partition", "offset"])
        .aggregate([])
        .num_rows
    )
    found = Figures(
        rows.num_rows,
        pc.sum(rows["distance"]).as_py() or 0,
        pc.sum(rows["dep_delay"]).as_py() or 0,
        rows["dep_delay"].null_count,
    )
    problems = [
        f"{name}: the table has {have:,}, the CSV {want:,}"
        for name, have, want in zip(Figures._fields, found, expected, strict=True)
        if have != want
    ]
    if places != expected.rows:
        problems.append(
            f"distinct (partition, offset): the table has {places:,}, the CSV has "
            f"{expected.rows:,} rows"
        )
    if rolled:
        problems += _of_version_two(rows)
    return Verdict(rows.num_rows, rows.num_rows - places, expected.rows - places, tuple(problems))


def _of_version_two(rows: "object") -> list[str]:
    version = rows["pipeline_version"]  # type: ignore[index]
    newer = rows.filter(pc.equal(version, 2))  # type: ignore[attr-defined]
    if newer.num_rows == 0:
        return ["version 2 of the pipeline wrote no row"]
    if "day_part" not in newer.column_names or newer["day_part"].null_count:
        return ["version 2's column day_part is not filled in all of its rows"]
    return []
