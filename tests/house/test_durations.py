"""tests/durations.py and tools/durations.py: what a run took is kept by lane, and growth is a
decision.
"""

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tools import durations

from tests.durations import Recorder, read_record, register
from tests.lanes import EVERY, ROOT


def record_run(
    path: Path, phases: list[tuple[str, str, float]], exitstatus: int = 0, shouldstop: str = ""
) -> None:
    """Record a run with these (node id, phase, seconds)."""
    recorder = Recorder(path)
    for nodeid, phase, seconds in phases:
        report: Any = SimpleNamespace(nodeid=nodeid, when=phase, duration=seconds)
        recorder.pytest_runtest_logreport(report)
    config = SimpleNamespace(option=SimpleNamespace(numprocesses=3))
    session: Any = SimpleNamespace(config=config, shouldstop=shouldstop, shouldfail=False)
    recorder.pytest_sessionfinish(session, exitstatus)


def lane_of(before: float, tests: dict[str, list[float]], *, whole: bool = False) -> dict[str, Any]:
    """The record of a run that began at that load."""
    load = {"before": before, "mean": 1.0, "most": 2.0}
    run: dict[str, Any] = {"commit": "c0ffee", "seconds": 9.0, "workers": 3}
    return {**run, **({"whole": True} if whole else {}), "load": load, "tests": tests}


LANES = {
    "test": lane_of(
        0.2,
        {
            "tests/coord/test_a.py::test_b": [1.0, 2.0, 0.5],
            "tests/coord/test_a.py::test_c[1/2-[x]]": [0.0, 4.0, 0.0],
            "tests/test_topics.py::test_d": [0.0, 0.1, 0.0],
        },
    ),
    "busy": lane_of(5.0, {"tests/kafka/test_e.py::test_f": [20.0, 30.0, 0.0]}),
    "many": lane_of(0.2, {"tests/kafka/test_g.py::test_h": [0.5, 2.0, 0.0]}, whole=True),
}


def test_a_record_has_the_phases_of_each_test_and_the_last_run_of_each_lane(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out" / "durations.json"
    name, slow = "tests/coord/test_a.py::test_b", "tests/compat/test_kill.py::test_c"
    record_run(path, [(name, "call", 9.0), (slow, "setup", 1.0)])
    record_run(path, [(name, "setup", 1.5), (name, "call", 2.0), (name, "call", 0.25)])
    record_run(path, [])
    lanes = read_record(path)
    assert {lane: record["tests"] for lane, record in lanes.items()} == {
        "test": {name: [1.5, 2.25, 0.0]},
        "kills": {slow: [1.0, 0.0, 0.0]},
    }
    assert lanes["test"]["workers"] == 3
    assert sorted(lanes["test"]["load"]) == ["before", "mean", "most"]


def test_a_run_that_did_not_come_to_its_end_leaves_the_record_of_the_one_before(
    tmp_path: Path,
) -> None:
    path, name = tmp_path / "durations.json", "tests/coord/test_a.py::test_b"
    record_run(path, [(name, "call", 9.0)], exitstatus=1)
    before = read_record(path)
    record_run(path, [(name, "call", 1.0)], exitstatus=2)
    record_run(path, [(name, "call", 1.0)], exitstatus=1, shouldstop="stopping after 1 failures")
    assert read_record(path) == before != {}


def test_a_worker_that_dies_has_no_phase_of_its_own(tmp_path: Path) -> None:
    path, name = tmp_path / "durations.json", "tests/coord/test_a.py::test_b"
    record_run(path, [(name, "setup", 0.5), (name, "???", 0.0)], exitstatus=1)
    assert read_record(path)["test"]["tests"] == {name: [0.5, 0.0, 0.0]}


@pytest.mark.parametrize(
    ("options", "is_recorded"),
    [
        ([], True),
        (["-k", "dies"], False),
        (["-m", "hypothesis"], False),
        (["tests/coord"], False),
    ],
)
def test_a_run_of_a_part_of_a_lane_is_not_recorded(
    options: list[str], is_recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    config = pytest.Config.fromdictargs({}, options)
    register(config)
    assert config.pluginmanager.has_plugin("apportion-durations") == is_recorded


def test_every_row_of_the_ratchet_is_of_a_lane_and_a_directory_there_are() -> None:
    rows = tomllib.loads(durations.RATCHET.read_text())
    assert {*rows} <= {*EVERY}
    assert [
        each for of_lane in rows.values() for each in of_lane if not (ROOT / each).exists()
    ] == []


def test_seconds_are_summed_by_directory_and_the_longest_phases_come_first() -> None:
    assert durations.sums_by_directory(LANES["test"]) == {"tests/coord": 7.5, "tests": 0.1}
    again = {**LANES, "all": lane_of(0.2, {"tests/test_topics.py::test_d": [0.0, 20.0, 0.0]})}
    assert durations.sums_by_lane(again) == {
        "tests/kafka": {"busy": 50.0, "many": 2.5},
        "tests": {"all": 20.0, "test": 0.1},
        "tests/coord": {"test": 7.5},
    }
    assert durations.longest(LANES, 2) == [
        (30.0, "call", "busy", "tests/kafka/test_e.py::test_f"),
        (20.0, "setup", "busy", "tests/kafka/test_e.py::test_f"),
    ]


def test_a_directory_over_its_row_or_without_one_is_a_fault_of_an_idle_machine() -> None:
    assert list(durations.faults(LANES, {"test": {"tests/coord": 7.0}})) == [
        "test: tests/coord took 8 s, its row allows 7",
        "test: tests took 0 s and has no row",
    ]
    assert list(durations.faults(LANES, {"test": {"tests/coord": 8.0, "tests": 1.0}})) == []


def test_the_command_prints_what_is_recorded_and_says_what_it_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "durations.json"
    assert durations.main(["--record", str(record)]) == 0
    assert "nothing is recorded" in capsys.readouterr().out
    record.write_text(json.dumps(LANES))
    assert durations.main(["--record", str(record), "--longest", "3"]) == 0
    shown = capsys.readouterr().out
    assert "tests/coord/test_a.py::test_c[1/2-[x]]" in shown
    assert "test_b" not in shown
    assert durations.check(LANES, {"test": {"tests/coord": 8.0}}) == 1
    said = capsys.readouterr()
    assert said.out == (
        "durations: compared test\n"
        "durations: busy was recorded beside other work (load 5.0), not compared\n"
        "durations: many was recorded with all cases (load 0.2), not compared\n"
    )
    assert said.err == "durations: test: tests took 0 s and has no row (tests/durations.toml)\n"
