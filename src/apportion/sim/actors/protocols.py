"""How each application speaks with its group: the protocol, and for the classic one the assignors that it offers, in order.

All of a group can always agree on one assignor. Who offers `cooperative-sticky` beside an eager one gives up everything before it
joins, also where the cooperative one is chosen: that is the first step of the upgrade which KIP-429 describes.
"""

from random import Random
from typing import NamedTuple

from apportion.sim.kernel.scenario import CLASSIC, CONSUMER, MIXED, Scenario


class Dialect(NamedTuple):
    """One way to speak. assignors: those of a classic member, in the order in which it prefers them."""

    protocol: str
    assignors: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.protocol} {','.join(self.assignors)}".strip()


MODERN = Dialect(CONSUMER)
COOPERATIVE = Dialect(CLASSIC, ("cooperative-sticky",))
ON_ITS_WAY = Dialect(CLASSIC, ("cooperative-sticky", "range"))
SETTING_OUT = Dialect(CLASSIC, ("range", "cooperative-sticky"))
STYLES = (
    (COOPERATIVE,),
    (COOPERATIVE, ON_ITS_WAY),
    (SETTING_OUT, Dialect(CLASSIC, ("range",))),
    (Dialect(CLASSIC, ("roundrobin",)),),
    (Dialect(CLASSIC, ("sticky",)),),
)
"""What the classic members of one group may offer: any of one row, in which the group always chooses the same.

For after a restart a coordinator knows of each member only what it said in the chosen protocol, as in Kafka: who does not speak
that one is refused until the others have joined again.
"""


class Dialects(NamedTuple):
    """What one application speaks first, and what it would speak instead."""

    first: Dialect
    other: Dialect

    def after(self, spoken: Dialect) -> Dialect:
        """The other of the two."""
        return self.other if spoken == self.first else self.first


def dialects(scenario: Scenario) -> list[Dialects]:
    """One row for each application: workers first. Workers hold on to what they read, so they only speak cooperatively."""
    dice = Random(f"{scenario.seed} dialects")
    style = dice.choice(STYLES)
    rows = []
    for index in range(scenario.members):
        classic = COOPERATIVE if index < scenario.workers else dice.choice(style)
        pair = Dialects(MODERN, classic) if scenario.protocol == CONSUMER else Dialects(classic, MODERN)
        rows.append(Dialects(*reversed(pair)) if scenario.protocol == MIXED and dice.random() < 0.5 else pair)
    return rows
