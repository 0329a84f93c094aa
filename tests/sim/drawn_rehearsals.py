"""Rolling upgrades of Streams applications, drawn from a seed."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from apportion.sim.kernel.scenario import draw_faults
from apportion.sim.streams.rehearsal import Rehearsal
from apportion.sim.streams.settings import LEADERS

FAULTS = (
    *("broker-crash", "broker-pause", "disk-refuses", "crash", "restart", "roll", "pause", "slow"),
    *("cut", "half-open-up", "half-open-down", "lost-reply", "clock-jump"),
)
"""The faults that a rehearsal may have: those that change neither topics nor subscriptions."""

UPGRADES = (
    ("0.10.0", "1.1"),
    ("1.1", "2.0"),
    ("2.0", "post-2.0"),
    ("2.0", "2.3"),
    ("2.3", "3.9"),
    ("1.1", "4.0"),
    ("2.4", "4.3"),
    ("4.3", "future"),
    ("future", "4.3"),
    ("4.0", "2.3"),
    ("3.9", "1.1"),
    ("2.3", "1.1"),
    ("post-2.0", "2.0"),
)


def draw_rehearsal(seed: int, kinds: Sequence[str] = FAULTS, threads: int = 1) -> Rehearsal:
    """Draw a rolling upgrade to rehearse from the seed, with simulated faults of these kinds."""
    rng = Random(f"{seed} rehearsal")
    from_, to = rng.choice(UPGRADES)
    quiet = Rehearsal(
        from_=from_,
        to=to,
        instances=rng.randint(2, 5),
        partitions=rng.randint(1, 6),
        standbys=rng.choice((0, 0, 1, 2)),
        threads=threads,
        leader=rng.choice(LEADERS),
        seed=seed,
        away_ms=rng.choice((500, 3_000, 15_000)),
        session_ms=rng.choice((4_000, 6_000, 10_000)),
        probing_ms=rng.choice((20_000, 600_000)),
    )
    steps = quiet.instances * len(quiet.upgrade.bounces)
    scenario = replace(
        quiet.scenario, duration_ms=steps * (quiet.away_ms + quiet.scenario.session_ms)
    )
    return replace(quiet, faults=draw_faults(scenario, tuple(kinds)))
