"""How each application speaks with its group: the protocol, and for the classic one the assignors that it offers, in order.

All of a group can always agree on one assignor. Who offers `cooperative-sticky` beside an eager one gives up everything before it
joins, also where the cooperative one is chosen: that is the first step of the upgrade which KIP-429 describes.
"""

from random import Random
from typing import NamedTuple

from apportion.sim.kernel.scenario import CLASSIC, CONSUMER, MIXED, Scenario


class ProtocolChoice(NamedTuple):
    """One way to speak. assignors: those of a classic member, in the order in which it prefers them."""

    protocol: str
    assignors: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.protocol} {','.join(self.assignors)}".strip()


CONSUMER_PROTOCOL = ProtocolChoice(CONSUMER)
COOPERATIVE = ProtocolChoice(CLASSIC, ("cooperative-sticky",))
COOPERATIVE_BEFORE_EAGER = ProtocolChoice(CLASSIC, ("cooperative-sticky", "range"))
EAGER_BEFORE_COOPERATIVE = ProtocolChoice(CLASSIC, ("range", "cooperative-sticky"))
COMPATIBLE_CHOICES = (
    (COOPERATIVE,),
    (COOPERATIVE, COOPERATIVE_BEFORE_EAGER),
    (EAGER_BEFORE_COOPERATIVE, ProtocolChoice(CLASSIC, ("range",))),
    (ProtocolChoice(CLASSIC, ("roundrobin",)),),
    (ProtocolChoice(CLASSIC, ("sticky",)),),
)
"""What the classic members of one group may offer: any of one row, in which the group always chooses the same.

For after a restart a coordinator knows of each member only what it said in the chosen protocol, as in Kafka: who does not speak
that one is refused until the others have joined again.
"""


class ProtocolPair(NamedTuple):
    """What one application speaks first, and what it would speak instead."""

    first: ProtocolChoice
    other: ProtocolChoice

    def other_than(self, current: ProtocolChoice) -> ProtocolChoice:
        """The other of the two."""
        return self.other if current == self.first else self.first


def draw_protocols(scenario: Scenario) -> list[ProtocolPair]:
    """One row for each application: workers first. Workers hold on to what they read, so they only speak cooperatively."""
    rng = Random(f"{scenario.seed} dialects")
    style = rng.choice(COMPATIBLE_CHOICES)
    rows = []
    for index in range(scenario.members):
        classic = COOPERATIVE if index < scenario.workers else rng.choice(style)
        pair = (
            ProtocolPair(CONSUMER_PROTOCOL, classic) if scenario.protocol == CONSUMER else ProtocolPair(classic, CONSUMER_PROTOCOL)
        )
        rows.append(ProtocolPair(*reversed(pair)) if scenario.protocol == MIXED and rng.random() < 0.5 else pair)
    return rows
