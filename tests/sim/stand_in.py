"""Functions in the place of `play`, for tests of what surrounds it: importable by name, as processes want it."""

import os
import signal
import time

from apportion.sim.outcome import Broken, Outcome


def outcome(seed, broken=None):
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


def holds(scenario, chronicle=None):
    """Every law holds."""
    return outcome(scenario.seed)


def breaks_at_seven(scenario, chronicle=None):
    """Each seed that ends in 7 breaks a law."""
    broken = Broken("one-hand", 1_500, f"seed {scenario.seed} says so") if scenario.seed % 10 == 7 else None
    return outcome(scenario.seed, broken)


def raises_at_seven(scenario, chronicle=None):
    """Seed 7 raises."""
    if scenario.seed == 7:
        raise LookupError("seven")
    return outcome(scenario.seed)


def dies_at_seven(scenario, chronicle=None):
    """Seed 7 kills the process in which it is played, without a word."""
    if scenario.seed == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(scenario.seed)


def never_ends(scenario, chronicle=None):
    """Seed 0 is told at once, every other is played for ever."""
    while scenario.seed:
        time.sleep(60)
    return outcome(scenario.seed)
