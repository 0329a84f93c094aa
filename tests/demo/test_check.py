from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from demo.check import Verdict, check_table
from demo.flights import Figures

GOOD = {
    "distance": [100, 200, 300],
    "dep_delay": [1, None, 3],
    "partition": [0, 0, 1],
    "offset": [0, 1, 0],
    "pipeline_version": [1, 2, 2],
    "day_part": [None, "night", "evening"],
}
EXPECTED = Figures(3, 600, 4, 1)


def judged(
    tmp_path: Path, change: dict[str, list[int | str | None]], expected: Figures = EXPECTED
) -> Verdict:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({**GOOD, **change}))
    return check_table(path, expected)


def test_a_table_that_equals_the_csv_has_no_problems(tmp_path: Path) -> None:
    assert judged(tmp_path, {}) == Verdict(3, 0, 0, ())


def test_a_record_written_twice_is_a_duplicate_and_a_missing_one(tmp_path: Path) -> None:
    verdict = judged(tmp_path, {"offset": [0, 0, 0]})
    assert (verdict.duplicates, verdict.missing, len(verdict.problems)) == (1, 1, 1)


def test_a_changed_sum_is_a_problem_that_says_both_figures(tmp_path: Path) -> None:
    assert judged(tmp_path, {"distance": [100, 200, 301]}).problems == (
        "distance: the table has 601, the CSV 600",
    )


def test_an_empty_column_of_version_two_is_a_problem(tmp_path: Path) -> None:
    verdict = judged(tmp_path, {"day_part": [None, "night", None]})
    assert verdict.problems == ("version 2's column day_part is not filled in all of its rows",)
