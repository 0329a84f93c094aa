"""Many seeds in processes: each has one outcome, whatever happens to the process that plays it."""

import multiprocessing
import re
from collections.abc import Generator
from typing import Any

import pytest

from apportion.sim.kernel.outcome import Outcome, Violation
from apportion.sim.kernel.scenario import SETTABLE, Fault, ScenarioRefused
from apportion.sim.seed_pool import Draw, NoProcess, RunTotals, outcomes, play_seed
from tests.sim import stand_in


def by_seed(results: list[Outcome] | Generator[Any, Any, Any]) -> dict[int, Outcome]:
    return {outcome.seed: outcome for outcome in results}


def test_every_seed_has_its_outcome_and_failures_are_among_them() -> None:
    results = list(outcomes(range(5, 40), 2, Draw(), stand_in.breaks_at_seven))
    assert len(results) == 35
    assert by_seed(results) == {
        seed: stand_in.outcome(
            seed,
            Violation("one-hand", 1_500, f"seed {seed} says so")
            if seed in (7, 17, 27, 37)
            else None,
        )
        for seed in range(5, 40)
    }


def test_a_process_that_dies_is_reported_with_its_seed_and_the_others_go_on() -> None:
    results = by_seed(outcomes(range(12), 2, Draw(), stand_in.dies_at_seven))
    assert results.pop(7).broken == Violation(
        "process-lives", 0, "the process that played it was killed by signal 9"
    )
    assert results == {seed: stand_in.outcome(seed) for seed in range(12) if seed != 7}


def test_the_last_seed_may_kill_its_process() -> None:
    results = by_seed(outcomes([7], 3, Draw(), stand_in.dies_at_seven))
    assert [(seed, outcome.broken and outcome.broken.law) for seed, outcome in results.items()] == [
        (7, "process-lives")
    ]


def test_an_error_of_the_simulator_is_an_outcome_of_its_seed() -> None:
    assert play_seed(7, Draw(), stand_in.raises_at_seven).broken == Violation(
        "no-defect", 0, "LookupError: seven"
    )
    assert play_seed(8, Draw(), stand_in.raises_at_seven) == stand_in.outcome(8)


def test_processes_end_with_the_loop_even_in_the_midst_of_a_seed() -> None:
    running = outcomes(range(100), 2, Draw(), stand_in.never_ends)
    assert next(running) == stand_in.outcome(0)
    assert len(multiprocessing.active_children()) == 2
    running.close()
    assert multiprocessing.active_children() == []


def test_a_fleet_that_cannot_start_says_so_at_once() -> None:
    play: Any = Unreadable()
    with pytest.raises(
        NoProcess, match=r"^no process could be started to play in: it ended with exit code 1\.$"
    ):
        list(outcomes(range(100), 1, Draw(), play))


class Unreadable:
    """Cannot be made again in another process."""

    def __reduce__(self) -> tuple[type[int], tuple[str, ...]]:
        return (int, ("no number",))


def test_a_seed_that_does_not_end_is_given_up_and_the_others_go_on() -> None:
    results = by_seed(
        outcomes(range(5, 10), 2, Draw(), stand_in.never_ends_at_seven, seed_timeout_s=2)
    )
    assert results.pop(7).broken == Violation(
        "ends", 0, "it was still being played after 2 real seconds"
    )
    assert results == {seed: stand_in.outcome(seed) for seed in (5, 6, 8, 9)}


def test_no_seeds_have_no_outcomes() -> None:
    assert list(outcomes([], 2, Draw(), stand_in.holds)) == []


def test_figures_add_up() -> None:
    figures = RunTotals()
    for seed in (3, 1, 2):
        figures = figures.plus(stand_in.outcome(seed))
    assert figures == RunTotals(3, 3_006, 180_000, 6, 300, 30, 6, 9, 3)
    assert str(figures) == (
        "3,006 steps, 3 simulated minutes, 6 rebalances, 3 broker crashes, 6 rows, "
        "slowest convergence 0.3 s, "
        "longest unowned partition 0.0 s"
    )


def test_a_draw_says_sizes_and_faults_and_draws_the_rest() -> None:
    scenario = Draw(kinds=("cut", "pause"), sizes={"partitions": 3, "workers": 5}).scenario(4)
    assert (scenario.seed, scenario.partitions, scenario.workers) == (4, 3, 5)
    assert {fault.kind for fault in scenario.faults} <= {"cut", "pause"}
    assert scenario.faults
    why = r"^partitions must be a whole number from 1 to 10000, not 0\.$"
    with pytest.raises(ScenarioRefused, match=why):
        Draw(sizes={"partitions": 0}).scenario(4)


@pytest.mark.parametrize(
    "sizes",
    [
        {"heartbeat_ms": 9_000},
        {"session_ms": 1_000},
        {"rebalance_ms": 2_000},
        {"batch_ms": 9_000},
        {"workers": 0},
        {"workers": 0, "session_ms": 2_000},
    ],
)
def test_the_summary_contradicts_no_seed(sizes: dict[str, int]) -> None:
    for seed in range(200):
        scenario = Draw(sizes=sizes).scenario(seed)
        assert {name: getattr(scenario, name) for name in sizes} == sizes


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"delay_us": -1}, "delay_us must be a whole number from 0 to 100000, not -1."),
        ({"delay_us": 1_000_000}, "delay_us must be a whole number from 0 to 100000, not 1000000."),
        (
            {"heartbeat_ms": 60_000, "session_ms": 300_000},
            "heartbeat_ms must be a whole number from 100 to 15000, not 60000.",
        ),
        (
            {"batch_ms": 5_900, "rebalance_ms": 6_000},
            "batch_ms (5900) must be 500 below rebalance_ms (6000).",
        ),
        ({"partitions": 10_001}, "partitions must be a whole number from 1 to 10000, not 10001."),
        ({"workers": 100_000}, "workers must be a whole number from 0 to 1000, not 100000."),
        ({"partitions": "x"}, "partitions must be a whole number from 1 to 10000, not 'x'."),
        ({"batch_ms": "x"}, "batch_ms must be a whole number from 1 to 1200000, not 'x'."),
        ({"seconds": 3}, f"a world has no size 'seconds'; there are {', '.join(SETTABLE)}."),
    ],
)
def test_a_world_that_could_not_settle_or_is_unknown_is_refused_in_a_sentence(
    sizes: dict[str, int | str], why: str
) -> None:
    with pytest.raises(ScenarioRefused, match=f"^{re.escape(why)}$"):
        Draw(sizes=sizes).scenario(1)


def test_a_fault_before_the_beginning_is_refused() -> None:
    with pytest.raises(ScenarioRefused, match=r"its at_ms must be at least 0\.$"):
        Draw().scenario(1).with_faults([Fault(-1, "cut")])
