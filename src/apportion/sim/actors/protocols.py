"""Draws which protocol each application uses, and the assignors that classic members list.

All members of a group have an assignor in common. A member that lists `cooperative-sticky` beside
an eager assignor revokes everything before it joins, even if the cooperative one is selected: this
is the first step of the upgrade that KIP-429 describes.
"""

from random import Random
from typing import NamedTuple

from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.settings import CLASSIC, CONSUMER, MIXED


class ProtocolChoice(NamedTuple):
    """One protocol. assignors: those of a classic member, preferred first."""

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
"""What the classic members of one group may list: any choice of one row, as a row always selects
the same assignor.

After a restart a coordinator knows only the subscription of each member for the assignor that was
selected, as in Kafka. A member that does not list this assignor is refused until the others rejoin.
"""


class ProtocolPair(NamedTuple):
    """The two protocols of one application: the first, and the one to which `switch` changes it."""

    first: ProtocolChoice
    other: ProtocolChoice

    def other_than(self, current: ProtocolChoice) -> ProtocolChoice:
        """Return the choice of this pair that is not the current one."""
        return self.other if current == self.first else self.first


def draw_protocols(scenario: Scenario) -> list[ProtocolPair]:
    """Draw the pair of protocols of each simulated application, workers first.

    Workers keep partitions through a rebalance, so their classic choice is always cooperative.
    """
    rng = Random(f"{scenario.seed} dialects")
    choices = rng.choice(COMPATIBLE_CHOICES)
    pairs = []
    for index in range(scenario.members):
        classic = COOPERATIVE if index < scenario.workers else rng.choice(choices)
        pair = (
            ProtocolPair(CONSUMER_PROTOCOL, classic)
            if scenario.protocol == CONSUMER
            else ProtocolPair(classic, CONSUMER_PROTOCOL)
        )
        pairs.append(
            ProtocolPair(*reversed(pair))
            if scenario.protocol == MIXED and rng.random() < 0.5
            else pair
        )
    return pairs
