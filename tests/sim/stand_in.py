"""Functions in the place of `play`, for tests of what surrounds it: importable by name, as
processes want it.
"""

import os
import signal
import sys
import time
from typing import Any

from apportion.sim.kernel.outcome import Outcome, Violation
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.trace import OwnershipChange, Trace, TraceLine


def outcome(seed: int, broken: Violation | None = None) -> Outcome:
    """An outcome whose figures say their seed."""
    return Outcome(
        seed=seed,
        steps=1_000 + seed,
        simulated_ms=60_000,
        rebalances=2,
        slowest_convergence_ms=100 * seed,
        longest_unowned_ms=10 * seed,
        rows=seed,
        commits=3,
        crashes=1,
        digest=f"digest of {seed}",
        broken=broken,
    )


def holds(scenario: Scenario, trace: Trace | None = None) -> Outcome:
    """Every law holds."""
    return outcome(scenario.seed)


def breaks_at_seven(scenario: Scenario, trace: Trace | None = None) -> Outcome:
    """Each seed that ends in 7 breaks a law."""
    broken = (
        Violation("one-hand", 1_500, f"seed {scenario.seed} says so")
        if scenario.seed % 10 == 7
        else None
    )
    return outcome(scenario.seed, broken)


def raises_at_seven(scenario: Scenario, trace: Any = None) -> Outcome:
    """Seed 7 raises."""
    if scenario.seed == 7:
        raise LookupError("seven")
    return outcome(scenario.seed)


def dies_at_seven(scenario: Scenario, trace: Any = None) -> Any:
    """Seed 7 kills the process in which it is played, without a word."""
    if scenario.seed == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(scenario.seed)


def never_ends(scenario: Scenario, trace: Any = None) -> Any:
    """Seed 0 is told at once, every other is played for ever."""
    while scenario.seed:
        time.sleep(60)
    return outcome(scenario.seed)


def tells(scenario: Scenario, trace: Trace | None = None) -> Outcome:
    """Half a minute: two applications and two partitions, each with a history; 300 lines; the law
    breaks in seeds that end in 7.
    """
    if trace is not None:
        trace.lines += [
            TraceLine(number * 100_000, "worker-0", f"line {number}") for number in range(300)
        ]
        trace.ownership += [
            OwnershipChange(0, "etl", "t1-2", ""),
            OwnershipChange(0, "etl", "t1-10", "worker-0"),
            OwnershipChange(10_000_000, "etl", "t1-2", "worker-0"),
            OwnershipChange(15_000_000, "etl", "t1-10", ""),
            OwnershipChange(20_000_000, "etl", "t1-2", "worker-1"),
            OwnershipChange(20_000_000, "etl", "t1-10", "worker-0+worker-1"),
            OwnershipChange(20_000_001, "etl", "t1-10", "worker-1"),
            OwnershipChange(24_000_000, "etl", "t2-0", ""),
        ]
    return breaks_at_seven(scenario)._replace(simulated_ms=30_000)


def told_then_never_ends(scenario: Scenario, trace: Any = None) -> Any:
    """Seed 0 is told at once, seed 1 played for ever; stderr says so."""
    if scenario.seed:
        print("seed 0 was played\nseed 1 is being played", file=sys.stderr, flush=True)
    return never_ends(scenario)


def never_ends_at_seven(scenario: Scenario, trace: Any = None) -> Any:
    """Seed 7 is played for ever."""
    return never_ends(scenario) if scenario.seed == 7 else outcome(scenario.seed)
