"""One seed is one history: in another process, under another order of hashes, watched or not."""

import os
import subprocess
import sys
from typing import Any

import pytest

from apportion.coord.consumer import heartbeat_api
from apportion.sim.kernel.clock import SimulatedProcess, Simulation
from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import draw_scenario
from apportion.sim.kernel.trace import Trace
from apportion.sim.play import play

SEEDS = (5, 6, 11)  # with static members and without, with encoding and without
SIZES: dict[str, Any] = {"duration_ms": 30_000}


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """Every figure of the seeds, digest included."""
    results = [play(draw_scenario(seed, **SIZES)) for seed in SEEDS]
    assert len({outcome.digest for outcome in results}) == len(SEEDS)
    return results


@pytest.mark.parametrize("hash_seed", ["0", "1234"])
def test_another_process_with_other_hashes_plays_the_same_history(
    outcomes: list[Outcome], hash_seed: str
) -> None:
    script = (
        "from apportion.sim.kernel.scenario import draw_scenario\n"
        "from apportion.sim.play import play\n"
        f"print([play(draw_scenario(seed, **{SIZES})) for seed in {SEEDS}])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=environment,
    )
    assert done.stdout == f"{outcomes}\n"


def test_a_history_that_is_watched_is_the_same(outcomes: list[Outcome]) -> None:
    chronicles = [Trace() for _ in SEEDS]
    assert [
        play(draw_scenario(seed, **SIZES), trace)
        for seed, trace in zip(SEEDS, chronicles, strict=True)
    ] == outcomes
    assert all(trace.lines and trace.ownership for trace in chronicles)


def test_a_history_in_which_every_heartbeat_takes_all_steps_is_the_same(
    outcomes: list[Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat_api, "steady_heartbeat_or_none", lambda turn, arrived: None)
    assert [play(draw_scenario(seed, **SIZES)) for seed in SEEDS] == outcomes


def test_the_trace_says_who_creates_topics() -> None:
    trace = Trace()
    play(draw_scenario(5, **SIZES), trace)
    requests = {line.process for line in trace.lines if line.text == "CreateTopicsRequest: NONE"}
    assert requests == {"topic-admin"}


def test_a_process_with_a_newer_name_keeps_its_key_in_the_digest_and_its_streams() -> None:
    renamed, unnamed = (
        SimulatedProcess(Simulation(draw_scenario(5, **SIZES)), name, key)
        for name, key in (("new", "old"), ("old", None))
    )
    for process in (renamed, unnamed):
        process.simulation.write_trace(process.name, "starts", process.key)
    assert renamed.simulation.digest() == unnamed.simulation.digest()
    assert renamed.rng.getstate() == unnamed.rng.getstate()


def test_a_second_time_in_one_process_is_the_same(outcomes: list[Outcome]) -> None:
    assert [play(draw_scenario(seed, **SIZES)) for seed in SEEDS] == outcomes
