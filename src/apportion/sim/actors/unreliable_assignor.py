"""A custom assignor that fails in every way that a broker has to survive, until the faults end."""

from collections.abc import Mapping
from random import Random
from typing import Any

from apportion.assign.by_name import ClusterTopics, Given, Subscription, by_topic
from apportion.sim.kernel.settings import UNRELIABLE

FAILS = 0.4  # of its answers, while it fails
FAULTY = ("raises", "nothing", "everything to everybody", "unknown partition", "unknown member")
ANSWERS_LATE = 0.1
LATE_US = 15_000_000  # longer than apportion.assignor.timeout.ms


class UnreliableAssignor:
    """Deals the partitions of each topic out to its subscribers, each time from another one on.

    rng: its own, so that the histories of other assignors stay what they are. is_failing: whether
    it fails now and then.
    """

    name = UNRELIABLE

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.is_failing = True

    def delay_us(self) -> int:
        """Return by how much its next answer is late."""
        return LATE_US if self.is_failing and self.rng.random() < ANSWERS_LATE else 0

    def assign(self, cluster: ClusterTopics, members: Mapping[str, Subscription]) -> Any:
        """Return an assignment; or raise, or return what is none."""
        fault = self.rng.choice(FAULTY) if self.is_failing and self.rng.random() < FAILS else None
        if fault == "raises":
            raise RuntimeError("the simulated assignor fails")
        if fault == "nothing":
            return None
        pairs: dict[str, list[tuple[str, int]]] = {member: [] for member in members}
        for topic, shape in cluster.items():
            subscribers = [name for name, each in members.items() if topic in each.topics]
            shift = self.rng.randrange(len(members))
            for number in range(shape.partitions):
                pairs[subscribers[(number + shift) % len(subscribers)]].append((topic, number))
        for member in members:
            if fault == "everything to everybody":
                pairs[member] += [(topic, 0) for topic in cluster]
            elif fault == "unknown partition":
                pairs[member] += [(topic, shape.partitions) for topic, shape in cluster.items()]
        given = {member: Given(by_topic(some)) for member, some in pairs.items()}
        return given | {"nobody": Given()} if fault == "unknown member" else given
