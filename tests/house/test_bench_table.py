"""bench/run.py: what a row must say, and what an earlier run leaves."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location(
        "bench_run", Path(__file__).resolve().parents[2] / "bench" / "run.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(name, value, target, better="lower"):
    return {"name": name, "value": value, "unit": "ms", "target": target, "better": better}


def test_a_target_is_met_from_its_own_side(bench):
    rows = [
        row("a", 3, 3),
        row("b", 4, 3),
        row("c", 4, 3, "higher"),
        row("d", 2, 3, "higher"),
        row("e", 1, None),
    ]
    assert [bench.met_or_none(each) for each in rows] == [True, False, True, False, None]


def test_a_row_that_says_less_is_refused(bench):
    with pytest.raises(ValueError, match="a bench row has the fields"):
        bench.check_rows([{"name": "a", "value": 1}])


def test_rows_of_an_earlier_run_stay_unless_measured_again(bench):
    assert bench.merge([row("b", 1, None), row("a", 1, None)], [row("b", 2, None)]) == [
        row("a", 1, None),
        row("b", 2, None),
    ]
