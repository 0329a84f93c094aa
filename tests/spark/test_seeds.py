"""Seeds of the simulator on Spark: the same outcomes as anywhere, a row each."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from apportion.cli.sim import run
from apportion.cli.sim_options import SimOptions
from apportion.sim.kernel.scenario import ScenarioRefused
from apportion.spark.seeds import FIGURES, seeds, summary
from tests.sim import stand_in


def row(seed: int, **also: Any) -> dict[str, float | str | None]:
    """The row of a stand-in's outcome."""
    return {
        "seed": seed,
        "steps": 1_000 + seed,
        "simulated_s": 60.0,
        "rebalances": 2,
        "slowest_convergence_s": seed / 10,
        "longest_unowned_s": seed / 100,
        "rows": seed,
        "commits": 3,
        "crashes": 1,
        "digest": f"digest of {seed}",
        "verdict": "holds",
        "broken_at_s": None,
        "why": None,
        **also,
    }


def test_each_seed_is_a_row_and_the_figures_sum_up(spark: SparkSession) -> None:
    played = seeds(spark, 100, first=5, play=stand_in.breaks_at_seven).cache()
    failing = {"verdict": "one-hand", "broken_at_s": 1.5}
    assert [read_row.asDict() for read_row in played.orderBy("seed").collect()] == [
        row(seed, **failing, why=f"seed {seed} says so") if seed % 10 == 7 else row(seed)
        for seed in range(5, 105)
    ]
    rows = [read_row.asDict() for read_row in summary(played).collect()]
    assert [each["figure"] for each in rows] == list(FIGURES)
    assert rows[0] == {
        "figure": "steps",
        "seeds": 100,
        "total": 105_450.0,
        "median": 1_054.0,
        "p99": 1_103.0,
        "most": 1_104.0,
    }


@pytest.mark.parametrize(("runs", "tasks"), [(3, 3), (100, 8), (2_000, 63)])
def test_tasks_are_four_for_each_core_and_more_for_many_seeds(
    spark: SparkSession, runs: int, tasks: int
) -> None:
    assert seeds(spark, runs, play=stand_in.holds).rdd.getNumPartitions() == tasks


def test_a_world_that_cannot_be_is_refused_before_anything_runs(spark: SparkSession) -> None:
    why = r"^partitions must be a whole number from 1 to 10000, not 0\.$"
    with pytest.raises(ScenarioRefused, match=why):
        seeds(spark, 10, partitions=0)
    with pytest.raises(ScenarioRefused, match=r"^runs must be at least 1, not 0\.$"):
        seeds(spark, 0)
    with pytest.raises(ScenarioRefused, match=r"^there is no fault 'zebra'"):
        seeds(spark, 10, kinds=["zebra"])


def test_the_real_simulator_gives_the_same_rows_on_spark(spark: SparkSession) -> None:
    from apportion.sim.seed_pool import Draw, play_seed

    digests = {
        each.seed: each.digest
        for each in seeds(spark, 4, duration_ms=5_000, kinds=["cut"]).collect()
    }
    draw = Draw(("cut",), {"duration_ms": 5_000})
    assert digests == {seed: play_seed(seed, draw).digest for seed in range(4)}


def test_the_command_prints_a_summary_failing_seeds_and_writes_parquet(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "seeds"
    code = run(
        SimOptions(runs=20, spark="local[2]", out=str(out), sizes={"seconds": 5}),
        stand_in.breaks_at_seven,
    )
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert code == 1
    assert next(line.replace("│", " ").split() for line in lines if "steps" in line) == [
        "steps",
        "20,190",
        "1,009",
        "1,019",
        "1,019",
    ]
    assert lines[-5:-1] == [
        "seed 7 breaks one-hand at 1.500 s: seed 7 says so",
        "    apportion sim --seed 7 --seconds 5",
        "seed 17 breaks one-hand at 1.500 s: seed 17 says so",
        "    apportion sim --seed 17 --seconds 5",
    ]
    assert lines[-1].startswith("2 of 20 seeds fail: 20,190 steps, 20 simulated minutes, ")
    assert pq.read_table(out).num_rows == 20
    assert run(SimOptions(runs=20, spark="local[2]", out=str(out)), stand_in.holds) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message == f"apportion sim: --out {out} is there already: name a directory that is not."


def test_the_command_says_as_json_what_a_fleet_of_processes_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(SimOptions(runs=9, spark="local[2]", as_json=True), stand_in.breaks_at_seven) == 1
    on_spark = json.loads(capsys.readouterr().out)
    assert run(SimOptions(runs=9, jobs=1, as_json=True), stand_in.breaks_at_seven) == 1
    assert on_spark == json.loads(capsys.readouterr().out)
