"""The demonstration itself, with its first 10,000 flights: the same script, processes and checks as
`make demo`.
"""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from demo.__main__ import arguments, exit_code, main, run

FLIGHTS = 10_000


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The directory of a run, and its exit code."""
    out = tmp_path_factory.mktemp("demo")
    return out, run(arguments(["--flights", str(FLIGHTS), "--seconds", "15", "--out", str(out)]))


def test_every_flight_is_in_the_table_exactly_once_although_a_host_was_lost(
    played: tuple[Path, int],
) -> None:
    out, code = played
    summary = json.loads((out / "summary.json").read_text())
    facts = {
        name: summary[name]
        for name in ("rows_in", "rows_out", "duplicates", "missing", "checks_ok", "problems")
    }
    assert (code, facts) == (
        0,
        {
            "rows_in": FLIGHTS,
            "rows_out": FLIGHTS,
            "duplicates": 0,
            "missing": 0,
            "checks_ok": True,
            "problems": [],
        },
    )


def test_every_change_of_the_membership_is_told_with_its_cause_and_its_end(
    played: tuple[Path, int],
) -> None:
    events = json.loads((played[0] / "summary.json").read_text())["events"]
    assert sorted((event["cause"], event["member"]) for event in events[:2]) == [
        ("join", "v1-a"),
        ("join", "v1-b"),
    ]
    assert [(event["cause"], event["member"]) for event in events[2:]] == [
        ("session", "v1-a"),
        ("join", "v2"),
        ("leave", "v1-b"),
        ("leave", "v2"),
    ]
    assert all(event["converged_ms"] is not None for event in events)
    lost = events[2]
    assert lost["partitions_moved"] == 6
    # a session lasts 6 s and began with the last heartbeat; nobody said goodbye
    assert lost["longest_unowned_ms"] >= 4_000


def test_the_picture_shows_who_owned_what(played: tuple[Path, int]) -> None:
    texts = "".join(ElementTree.parse(played[0] / "ownership.svg").getroot().itertext())
    assert all(f"partition {number}" in texts for number in range(12))
    assert "v1-a host lost" in texts


def test_no_process_of_the_run_is_left(played: tuple[Path, int]) -> None:
    here = [
        child
        for child in psutil.Process(os.getpid()).children(recursive=True)
        if "demo.pipeline" in command_of(child)
    ]
    assert here == []


def command_of(process: Any) -> Any:
    """Return the command line of a process; "" of one that has ended, such as another test's that
    nobody has waited for yet.
    """
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return ""


def test_a_run_that_nobody_was_lost_in_has_not_shown_what_it_should() -> None:
    lost = {"cause": "session"}
    assert [
        exit_code({"checks_ok": ok, "events": seen})
        for ok, seen in ((True, [lost]), (True, []), (False, [lost]))
    ] == [0, 1, 1]


def test_a_worker_whose_loss_cost_a_partition_its_owner_is_a_failure() -> None:
    codes = []
    for moved, settled_ms in ((0, 3_000), (1, 3_000), (0, None)):
        worker = {"cause": "worker", "partitions_moved": moved, "converged_ms": settled_ms}
        codes.append(exit_code({"checks_ok": True, "events": [{"cause": "session"}, worker]}))
    assert codes == [0, 1, 1]


def test_an_application_that_ends_by_itself_ends_the_demonstration_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # there is no Java in it
    assert main(["--flights", "1000", "--out", str(tmp_path / "out")]) == 1
    errors = capsys.readouterr().err
    assert "The demonstration stopped. v1-" in errors
    assert "ended by itself. The end of" in errors


def test_a_node_that_ends_by_itself_ends_the_demonstration_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # there is no Java in it
    assert main(["--cluster", "--flights", "1000", "--out", str(tmp_path / "out")]) == 1
    errors = capsys.readouterr().err
    assert "The demonstration stopped. " in errors
    assert f"ended by itself. The end of {tmp_path / 'out' / 'logs'}" in errors
