"""Finds a minimal list of faults that still breaks a law, by delta debugging.

Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002.
"""

from collections.abc import Callable
from typing import NamedTuple

from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.play import play
from apportion.sim.seed_pool import PlayScenario

FaultIndexes = tuple[int, ...]


class Shrunk(NamedTuple):
    """A minimal list of faults.

    kept: indexes into the scenario's faults; without any one of them the law holds. outcome: of
    these alone. plays: how many histories were played.
    """

    kept: FaultIndexes
    outcome: Outcome
    plays: int


def shrink_faults(scenario: Scenario, play: PlayScenario = play) -> Shrunk | None:
    """Return a minimal list of a scenario's faults that break the same law; None if it holds.

    The same law may break in another way than before: the result is a failure of its own, and the
    easier one to read.
    """
    whole = play(scenario)
    if whole.broken is None:
        return None
    tried: dict[FaultIndexes, Outcome] = {}

    def breaks(kept: FaultIndexes) -> bool:
        if kept not in tried:
            tried[kept] = play(scenario.with_faults(scenario.faults[index] for index in kept))
        broken = tried[kept].broken
        return broken is not None and broken.law == law

    law, until_ms = whole.broken.law, whole.broken.at_ms
    every = tuple(range(len(scenario.faults)))
    tried[every] = whole
    # Faults after the violation cannot have caused it.
    before = tuple(index for index in every if scenario.faults[index].at_ms <= until_ms)
    # Checked before it is used, as fewer faults may shift what the others meet.
    kept = minimal_subset(before if breaks(before) else every, breaks)
    return Shrunk(kept, tried[kept], len(tried))


def minimal_subset(kept: FaultIndexes, breaks: Callable[[FaultIndexes], bool]) -> FaultIndexes:
    """Return a part of `kept` that breaks, of which no element can be left out.

    Delta debugging, for `apportion sim --shrink`. `kept` itself must break. Ever smaller pieces are
    left out, from all down to one at a time.
    """
    size = len(kept)
    while size:
        before, start = kept, 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if breaks(fewer):
                kept = fewer
            else:
                start += size
        if size > 1:
            size = (size + 1) // 2
        elif kept == before:
            break
    return kept
