"""tests/units.py: a run is shared out in units, and what waits longest begins first."""

from pathlib import Path

from tests.units import APART, FIRST, TOGETHER, rank, unit_of

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_is_a_unit_unless_a_row_says_otherwise() -> None:
    apart, (together, name) = APART[0], next(iter(TOGETHER.items()))
    tests = [
        "tests/a/test_b.py::test_c",
        "tests/a/test_b.py::test_d[x::y]",
        f"{apart}::test_e",
        f"{together}::test_f",
    ]
    assert [unit_of(each) for each in tests] == [
        "tests/a/test_b.py",
        "tests/a/test_b.py",
        f"{apart}::test_e",
        name,
    ]


def test_the_longest_begin_first() -> None:
    tests = ["tests/wire/test_a.py::test_b", f"{FIRST[1]}::test_c", f"{FIRST[0]}::test_d"]
    assert sorted(tests, key=rank) == tests[::-1]


def test_every_row_names_what_is_there() -> None:
    files = {*FIRST, *APART, *TOGETHER} - {*TOGETHER.values()}
    assert [row for row in files if not (ROOT / row).exists()] == []
