"""`apportion streams rehearse` plays an upgrade, tells it, draws it, and says in one sentence what
cannot be.
"""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app

PATIENT = {"COLUMNS": "132"}


def run(*arguments: str, env: dict[str, str] = PATIENT) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    result = CliRunner().invoke(app, ["streams", "rehearse", *arguments], env=env)
    return result.exit_code, result.stdout, result.stderr


def test_an_upgrade_is_told_step_by_step() -> None:
    code, out, _ = run("--from", "1.1", "--to", "4.0", "--instances", "2", "--partitions", "2")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == (
        "From 1.1 to 4.0: two rolling bounces, by way of 3.9; a leader of 1.1 fails when "
        "a member speaks metadata version 11, "
        "which upgrade.from=1.1 avoids."
    )
    assert lines[1:3] == [
        "  bounce 1, steps 1 to 2: every instance comes back as 3.9 with upgrade.from=1.1",
        "  bounce 2, steps 3 to 4: every instance comes back as 4.0",
    ]
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in lines
        if line.startswith("│")
    ]
    assert [row[:3] for row in rows] == [
        ["", "", "2"],
        ["1", "app1", "2"],
        ["2", "app2 (leads)", "2"],
        ["3", "app2", "2"],
        ["4", "app1 (leads)", "2 -> 11"],
    ]
    assert lines[-1].startswith(
        "All instances speak version 11. The longest time that a task had no owner: "
    )


@pytest.mark.parametrize(
    ("way", "rows"),
    [
        ("--from 1.1 --to 4.0 --instances 2", 5),
        ("--from 3.1 --to 4.0 --instances 3", 4),
        ("--from 2.4 --to 4.0 --instances 10 --partitions 60", 11),
        ("--from 2.4 --to 4.0 --instances 3 --crash-at 2 --victim broker", 5),
        ("--from 4.0 --to 4.4 --instances 1", 2),
    ],
)
def test_the_steps_fit_into_a_terminal_of_80_columns(way: str, rows: int) -> None:
    _, out, _ = run(*way.split(), env={"COLUMNS": "80"})
    table = [line for line in out.splitlines() if line.startswith(("│", "┃"))]
    # and its head; what is too wide takes another line
    assert [len(line) <= 80 for line in table] == [True] * (rows + 1)


def test_instances_have_as_many_threads_as_they_shall() -> None:
    _, out, _ = run("--from", "2.4", "--to", "4.0", "--instances", "2", "--threads", "3", "--json")
    report = json.loads(out)
    assert (report["held"], report["world"]["threads"]) == (True, 3)


def test_as_json_it_has_the_plan_and_every_step() -> None:
    code, out, _ = run("--from", "1.1", "--to", "4.0", "--instances", "2", "--json")
    report = json.loads(out)
    assert code == 0
    assert {
        name: report[name]
        for name in (
            "held",
            "bounces",
            "upgrade_from",
            "bridge",
            "plan",
            "version_before",
            "final_version",
        )
    } == {
        "held": True,
        "bounces": 2,
        "upgrade_from": "1.1",
        "bridge": "3.9",
        "plan": [
            {"release": "3.9", "upgrade_from": "1.1"},
            {"release": "4.0", "upgrade_from": None},
        ],
        "version_before": 2,
        "final_version": 11,
    }
    assert [(step["step"], step["release"], step["version"]) for step in report["steps"]] == [
        (1, "3.9", 2),
        (2, "3.9", 2),
        (3, "4.0", 2),
        (4, "4.0", 11),
    ]
    assert 0 < report["longest_unowned_ms"] <= 18_000
    assert (report["died"], report["broken"]) == ({}, None)


@pytest.mark.parametrize(
    ("from_", "to", "caution"),
    [
        (
            "3.1",
            "4.0",
            "If the topology has foreign-key joins or repartition topics of tables, make two "
            "rolling bounces, the first with upgrade.from=3.1: their records have changed since, "
            "and a rehearsal knows no topology.",
        ),
        ("1.1", "4.0", ""),
        ("3.5", "4.0", ""),
        ("4.0", "3.1", ""),
    ],
)
def test_where_the_topology_may_ask_for_a_second_bounce_it_is_said(
    from_: str, to: str, caution: str
) -> None:
    way = ("--from", from_, "--to", to, "--instances", "1", "--partitions", "1")
    _, out, _ = run(*way)
    assert caution in " ".join(out.split())
    assert ("topology" in out) is bool(caution)
    _, out, _ = run(*way, "--json")
    assert json.loads(out)["caution"] == (caution or None)


def test_the_wrong_way_ends_with_the_law_that_broke_and_the_way_that_is_needed() -> None:
    code, out, _ = run("--from", "2.3", "--to", "3.9", "--bounces", "1")
    lines = out.splitlines()
    assert code == 1
    assert any(line.startswith("The law one-active broke after ") for line in lines)
    assert lines[-3:] == [
        "This was not the way. Needed: two rolling bounces; members of 2.3 rebalance "
        "eagerly, which upgrade.from=2.3 avoids.",
        "  bounce 1: 3.9 with upgrade.from=2.3",
        "  bounce 2: 3.9",
    ]


def test_the_picture_has_a_row_for_each_instance_and_the_versions(tmp_path: Path) -> None:
    file = tmp_path / "upgrade.svg"
    upgrade = "--from 2.8 --to 4.4 --instances 3 --crash-at 2 --picture"
    assert run(*upgrade.split(), str(file))[0] == 0
    texts = [text.text for text in ET.parse(file).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "Kafka Streams from 2.8 to 4.4: one rolling bounce"
    for text in ("app1", "app2", "app3", "3 leader", "app1 crashes", "9", "11", "2.8", "4.4"):
        assert text in texts


def test_the_trace_has_every_thing_that_happened(tmp_path: Path) -> None:
    file = tmp_path / "trace.txt"
    assert run("--from", "2.8", "--to", "4.4", "--instances", "2", "--trace", str(file))[0] == 0
    assert "step 1: app1 comes back as 4.4" in file.read_text()


def test_the_matrix_is_a_table_of_all_upgrades(monkeypatch: pytest.MonkeyPatch) -> None:
    from apportion.cli import rehearsal_matrix
    from apportion.sim.streams.matrix import matrix_runs

    runs = matrix_runs(leaders=("last",), crashes=("nobody",))
    monkeypatch.setattr(rehearsal_matrix, "matrix_runs", lambda seed: runs)
    code, out, _ = run("--matrix", "--jobs", "1")
    rows = {
        line.split("│")[1].strip(): line.split("│")[2:-1]
        for line in out.splitlines()
        if line.startswith("│")
    }
    assert code == 0
    assert {from_: [cell.strip()[:1] for cell in row] for from_, row in rows.items()} == {
        "0.10.0": ["2"] * 7,
        "0.10.1": ["", "1", "1", "1", "1", "2", "2"],
        "0.10.2": ["", "", "1", "1", "1", "2", "2"],
        "0.11.0": ["", "", "", "1", "1", "2", "2"],
        "1.0": ["", "", "", "", "1", "2", "2"],
        "1.1": ["", "", "", "", "", "2", "2"],
        "2.0": ["", "", "", "", "", "", "1"],
    }
    assert out.splitlines()[-1] == "all hold"
    monkeypatch.setattr(rehearsal_matrix, "matrix_runs", lambda seed: runs[:2])
    monkeypatch.setattr(rehearsal_matrix, "cells", lambda: [run[:2] for run in runs[:2]])
    report = json.loads(run("--matrix", "--jobs", "1", "--json")[1])
    assert [(cell["from"], cell["to"], cell["held"]) for cell in report] == [
        ("0.10.0", "0.10.1", True),
        ("0.10.0", "0.10.2", True),
    ]
