"""What a planted bug is: something faulty in the place of something right, and the worlds in which
it shows.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from apportion.sim.kernel.scenario import Scenario, draw_scenario


class Patch(Protocol):
    """Whoever can put something in the place of a module's, or a class's, attribute."""

    def setattr(self, target: object, name: str, value: object) -> Any:
        """`target.name` is `value`."""
        ...


@dataclass(frozen=True, slots=True)
class Planted:
    """One bug. why: what its author thought. swaps: what is replaced, as (module or class,
    attribute, faulty value).
    sizes: what is said of the worlds in which it is searched. kinds: the faults that befall them;
    None: all.
    """

    name: str
    why: str
    swaps: tuple[tuple[object, str, Any], ...]
    sizes: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] | None = None

    def scenario(self, seed: int) -> Scenario:
        """The world of that seed."""
        return draw_scenario(seed, kinds=self.kinds, **self.sizes)

    def plant(self, patch: Patch) -> None:
        """The code of this process has the bug."""
        for target, name, value in self.swaps:
            patch.setattr(target, name, value)
