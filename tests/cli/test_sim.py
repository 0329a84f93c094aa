"""`apportion sim` tells a history, counts many, and says in one sentence what cannot be."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.cli.sim import run
from apportion.cli.sim_options import SimOptions
from apportion.sim.kernel.outcome import Outcome, Violation
from apportion.sim.kernel.scenario import FAULTS, SETTABLE, Scenario
from apportion.sim.seed_pool import Draw, RunTotals
from tests.sim import stand_in

FIGURES = {
    "steps": 1_007,
    "simulated_ms": 30_000,
    "rebalances": 2,
    "slowest_convergence_ms": 700,
    "longest_unowned_ms": 70,
    "rows": 7,
    "commits": 3,
    "crashes": 1,
}


def run_sim(
    capsys: pytest.CaptureFixture[str],
    options: SimOptions,
    play: Callable[..., Any] = stand_in.tells,
) -> tuple[int, str]:
    """Exit code and stdout of a run."""
    code = run(options, play)
    return code, capsys.readouterr().out


def test_the_help_names_every_kind_of_fault() -> None:
    result = CliRunner().invoke(app, ["sim", "--help"], env={"COLUMNS": "200"})
    words = set(re.findall(r"[a-z-]+", result.output))
    assert words >= FAULTS.keys()


def test_an_unknown_fault_is_named_with_those_there_are() -> None:
    result = CliRunner().invoke(app, ["sim", "--seed", "1", "--fault", "zebra"])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "apportion sim: there is no fault 'zebra'; there are broker-crash, "
    )


def test_a_seed_that_breaks_a_law_is_told_with_the_end_of_its_trace_and_the_picture(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = run_sim(capsys, SimOptions(seed=7, faults=["none"]))
    lines = text.splitlines()
    assert code == 1
    assert lines[0] == "... 100 lines before these: --all shows them, --trace FILE keeps them"
    assert lines[1] == "    10.0000 s  worker-0     line 100"
    assert lines[200] == "    29.9000 s  worker-0     line 299"
    assert [line for line in lines if line.startswith("etl t1-2 ")]
    assert lines[-1] == "seed 7 breaks one-hand at 1.500 s: seed 7 says so"


def test_a_seed_that_holds_is_told_without_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run_sim(capsys, SimOptions(seed=8))
    first, *others = text.splitlines()
    assert (code, first) == (0, "300 lines of trace: --all shows them, --trace FILE keeps them")
    assert not [line for line in others if "worker-0     line" in line]
    assert [line for line in others if line.startswith("etl t1-2 ")]
    assert others[-1] == "seed 8 holds"


def test_all_of_a_trace_none_of_it_or_a_file_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, text = run_sim(capsys, SimOptions(seed=8, whole=True))
    assert (code, text.count("worker-0     line")) == (0, 300)
    assert text.endswith("seed 8 holds\n")
    for seed in (7, 8):
        code, text = run_sim(capsys, SimOptions(seed=seed, quiet=True))
        assert (code, text.count("lines"), text.count("worker-0     line")) == (seed == 7, 0, 0)
    code, text = run_sim(capsys, SimOptions(seed=8, trace=tmp_path / "trace"))
    assert (code, text.count("worker-0     line")) == (0, 0)
    assert text.startswith(f"300 lines in {tmp_path / 'trace'}\n")
    assert len((tmp_path / "trace").read_text().splitlines()) == 300
    assert run(SimOptions(seed=8, trace=tmp_path), stand_in.tells) == 2
    assert (
        capsys.readouterr().err
        == f"apportion sim: --trace {tmp_path} cannot be written: Is a directory.\n"
    )


def test_json_has_all_that_replays_a_seed_and_no_other_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = run_sim(
        capsys, SimOptions(seed=7, as_json=True, only_faults="2,0", sizes={"partitions": 3})
    )
    scenario = Draw(sizes={"partitions": 3}).scenario(7)
    chosen = [scenario.faults[0], scenario.faults[2]]
    assert code == 1
    assert json.loads(text) == {
        "verdict": "broken",
        "broken": {"law": "one-hand", "at_ms": 1_500, "why": "seed 7 says so"},
        "figures": FIGURES,
        "digest": "digest of 7",
        "command": "apportion sim --seed 7 --partitions 3 --only-faults 0,2",
        "scenario": asdict(scenario) | {"faults": [fault._asdict() for fault in chosen]},
    }


def test_a_fleet_that_holds_ends_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    figures = RunTotals()
    for seed in range(10, 16):
        figures = figures.plus(stand_in.outcome(seed))
    assert run_sim(capsys, SimOptions(runs=6, first=10, jobs=2), stand_in.holds) == (
        0,
        f"6 seeds hold: {figures}\n",
    )


def test_failing_seeds_stand_above_the_verdict_with_their_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = run_sim(
        capsys,
        SimOptions(runs=20, jobs=2, sizes={"topics": 2, "seconds": 9}, faults=["cut"]),
        stand_in.breaks_at_seven,
    )
    assert code == 1
    assert text.splitlines()[:4] == [
        "seed 7 breaks one-hand at 1.500 s: seed 7 says so",
        "    apportion sim --seed 7 --topics 2 --seconds 9 --fault cut",
        "seed 17 breaks one-hand at 1.500 s: seed 17 says so",
        "    apportion sim --seed 17 --topics 2 --seconds 9 --fault cut",
    ]
    assert text.splitlines()[4].startswith(
        "2 of 20 seeds fail: 20,190 steps, 20 simulated minutes, "
    )


def test_a_fleet_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run_sim(capsys, SimOptions(runs=8, jobs=2, as_json=True), stand_in.dies_at_seven)
    report = json.loads(text)
    assert (
        code,
        report["verdict"],
        report["first"],
        report["runs"],
        report["figures"]["seeds"],
    ) == (
        1,
        "broken",
        0,
        8,
        8,
    )
    assert report["failed"] == [
        {
            "seed": 7,
            "law": "process-lives",
            "at_ms": 0,
            "why": "the process that played it was killed by signal 9",
            "command": "apportion sim --seed 7",
        }
    ]


def test_ctrl_c_ends_a_fleet_with_what_was_played() -> None:
    script = (
        "import signal, sys\n"
        "from apportion.cli.sim import run; from apportion.cli.sim_options import "
        "SimOptions; from tests.sim import stand_in\n"
        # what a shell starts behind it ignores Ctrl-C
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "if __name__ == '__main__': sys.exit(run(SimOptions(runs=100, jobs=1), "
        "stand_in.told_then_never_ends))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "seed 0 was played\n"  # said by the process of the fleet
    assert process.stderr is not None
    assert process.stderr.readline() == "seed 1 is being played\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert out.startswith("interrupted before 100: 1 seed holds: 1,000 steps, ")


def test_a_shrunk_seed_is_a_table_and_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    faults = Draw().scenario(3).faults
    wanted = faults[4].kind

    def play(scenario: Scenario, trace: Any = None) -> Outcome:
        broken = Violation("one-hand", 99_000_000, "why") if faults[4] in scenario.faults else None
        return stand_in.outcome(3, broken)

    code, text = run_sim(capsys, SimOptions(shrink=3), play)
    lines = text.splitlines()
    assert code == 1
    assert [line.replace("│", " ").split()[:4] for line in lines if wanted in line] == [
        ["4", f"{faults[4].at_ms / 1000:.3f}", "s", wanted]
    ]
    assert lines[-2] == "seed 3 breaks one-hand at 99000.000 s: why"
    assert lines[-1].startswith(f"1 of {len(faults)} faults suffices (")
    assert lines[-1].endswith(": apportion sim --seed 3 --only-faults 4")


def test_a_seed_that_needs_no_fault_is_replayed_without_any(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = run_sim(
        capsys, SimOptions(shrink=7, as_json=True, sizes={"topics": 1}), stand_in.breaks_at_seven
    )
    report = json.loads(text)
    assert (code, report["faults"], report["command"]) == (
        1,
        [],
        "apportion sim --seed 7 --topics 1 --fault none",
    )


def test_a_seed_that_holds_has_nothing_to_shrink(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sim(capsys, SimOptions(shrink=8), stand_in.holds) == (
        0,
        "seed 8 holds: there is nothing to shrink\n",
    )


def test_every_size_that_can_be_said_has_its_option_and_its_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = {
        **dict.fromkeys(
            [
                "workers",
                "readers",
                "statics",
                "topics",
                "partitions",
                "delay_us",
                "flush_us",
                "shards",
            ],
            2,
        ),
        "streams": 0,
        "seconds": 5,
        "heartbeat_ms": 500,
        "assignment_interval_ms": 250,
        "offload_size": 30,
        "heartbeat_budget": 40,
        "session_ms": 4_000,
        "rebalance_ms": 5_000,
        "batch_ms": 300,
        "produce_every_ms": 700,
        "assignor": "range",
        "local_assignor": "sticky",
        "protocol": "mixed",
        "looks": True,
        "encodes": True,
    }
    assert {"duration_ms" if name == "seconds" else name for name in sizes} == set(SETTABLE)
    command = SimOptions(seed=8, sizes=sizes).command(8)
    result = CliRunner().invoke(app, [*command.split()[1:], "--json"])
    report = json.loads(result.output)
    assert (result.exit_code, sorted(report["command"].split(" --"))) == (
        0,
        sorted(command.split(" --")),
    )
    del sizes["seconds"]
    assert {name: report["scenario"][name] for name in sizes} == sizes
    assert (
        SimOptions(seed=8, sizes={"encodes": False}).command(8)
        == "apportion sim --seed 8 --no-encodes"
    )


def test_help_teaches_by_examples() -> None:
    result = CliRunner().invoke(app, ["sim", "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert "apportion sim --runs 10000 --jobs 2 " in result.output


def test_simulating_imports_neither_numba_nor_pyarrow_nor_pyspark() -> None:
    look = (
        "import sys, apportion.cli.sim; print([m for m in ('numba', 'pyarrow', 'pyspark', "
        "'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_without_pyspark_the_remedy_is_said() -> None:
    call = "app(['sim', '--spark', 'local', '--runs', '3'])"
    hidden = (
        f"import sys; sys.modules['pyspark'] = None\nfrom apportion.cli.main import app\n{call}"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, timeout=60
    )
    sentence = (
        "apportion sim: --spark needs pyspark, which is not installed: pip install "
        "'.[spark]' in a clone of apportion.\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


APPORTION = (sys.executable, "-m", "apportion.cli.main", "sim", "--seed", "7", "--seconds", "5")


def test_a_reader_who_has_seen_enough_is_no_broken_law() -> None:
    with subprocess.Popen(
        [*APPORTION, "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdout is not None
        command.stdout.close()
        assert command.stderr is not None
        assert (command.stderr.read(), command.wait()) == (b"", 0)


def test_a_full_disk_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*APPORTION, "--quiet"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.stderr, done.returncode) == (
        "apportion sim: stdout cannot be written: No space left on device.\n",
        2,
    )
