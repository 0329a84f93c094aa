"""How many steps a second the simulator takes, and how many runs of a fixed size a minute."""

from contextlib import closing
from time import perf_counter, process_time
from typing import Any

from apportion.sim.kernel.scenario import draw_scenario
from apportion.sim.play import play
from apportion.sim.seed_pool import Draw, outcomes

STEP_SEEDS = range(40)  # of every size that is drawn
FLEET_SEEDS = range(100, 140)
JOBS = 2
WARM = 2  # seeds that a process plays before it is measured: it imports and makes its codecs
WORLD = Draw(
    sizes={  # 10 members x 60 partitions x 10 minutes; queries with a trigger of 20 s
        "workers": 10,
        "readers": 0,
        "topics": 1,
        "partitions": 60,
        "duration_ms": 600_000,
        "heartbeat_ms": 5_000,
        "heartbeat_budget": 0,
        "session_ms": 15_000,
        "rebalance_ms": 60_000,
        "batch_ms": 20_000,
        "produce_every_ms": 2_000,
    }
)


def steps_per_s() -> float:
    """Return the steps for each second of processor time, with all laws checked and no trace."""
    for seed in range(1_000, 1_000 + WARM):
        play(draw_scenario(seed))
    start, steps = process_time(), 0
    for seed in STEP_SEEDS:
        outcome = play(draw_scenario(seed))
        assert outcome.holds, outcome
        steps += outcome.steps
    return steps / (process_time() - start)


def seeds_per_min() -> float:
    """Return the runs of `WORLD` in a minute of real time, two at once."""
    with closing(outcomes([*range(JOBS * WARM), *FLEET_SEEDS], JOBS, WORLD)) as played:
        for _ in range(JOBS * WARM):
            next(played)
        start = perf_counter()
        broken = [outcome for outcome in played if not outcome.holds]
    assert not broken, broken
    return len(FLEET_SEEDS) / (perf_counter() - start) * 60


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    return [
        {
            "name": "sim_steps_per_s",
            "value": steps_per_s(),
            "unit": "steps/s",
            "target": 40_000,
            "better": "higher",
        },
        {
            "name": "sim_seeds_per_min",
            "value": seeds_per_min(),
            "unit": "seeds/min",
            "target": 400,
            "better": "higher",
        },
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
