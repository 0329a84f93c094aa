"""What a planted bug is: something faulty in the place of something right, and the worlds in which
it shows.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import pytest

from apportion.sim.kernel.outcome import Violation
from apportion.sim.kernel.scenario import Scenario, draw_scenario
from apportion.sim.play import play

Swap = tuple[object, str, Any]
"""What is replaced: module or class, attribute, faulty value."""


class Patch(Protocol):
    """Whoever can put something in the place of a module's, or a class's, attribute."""

    def setattr(self, target: object, name: str, value: object) -> Any:
        """`target.name` is `value`."""
        ...


@dataclass(frozen=True, slots=True)
class Planted:
    """One bug. why: what its author thought.

    sizes: what is said of the worlds in which it is searched. kinds: the faults that befall them;
    None: all.
    """

    name: str
    why: str
    swaps: tuple[Swap, ...]
    sizes: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] | None = None

    def scenario(self, seed: int) -> Scenario:
        """The world of that seed."""
        return draw_scenario(seed, kinds=self.kinds, **self.sizes)

    def plant(self, patch: Patch) -> None:
        """The code of this process has the bug."""
        for target, name, value in self.swaps:
            patch.setattr(target, name, value)


@cache
def violation_or_none(scenario: Scenario) -> Violation | None:
    """The law that breaks without a bug; a scenario that several tests have is played once."""
    return play(scenario).broken


def violation(scenario: Scenario, *swaps: Swap) -> Violation:
    """The law that breaks with these replacements. Without them the scenario breaks none."""
    assert violation_or_none(scenario) is None
    with pytest.MonkeyPatch.context() as patch:
        for swap in swaps:
            patch.setattr(*swap)
        broken = play(scenario).broken
    assert broken is not None
    return broken
