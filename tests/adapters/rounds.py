"""Rounds of a group whose members are foreign clients' assignors, without a broker: who joins, who
leads, what everybody gets.
"""

from types import SimpleNamespace
from typing import Any

PARTITIONS = 4
TOPIC = "moths"


class Cluster:
    """The metadata that a client shows its assignor."""

    def topics(self) -> set[str]:
        return {TOPIC}

    def partitions_for_topic(self, topic: str) -> Any:
        return set(range(PARTITIONS)) if topic == TOPIC else None


class Coordinator:
    """As much of a client's coordinator as an assignor looks at."""

    def __init__(self) -> None:
        self.rejoins = 0
        self.assigned: list[Any] = []
        self.generation = -1
        self._subscription = SimpleNamespace(assigned_partitions=lambda: self.assigned)

    @property
    def _generation(self) -> SimpleNamespace:
        return SimpleNamespace(generation_id=self.generation)

    def request_rejoin(self) -> None:
        self.rejoins += 1


def moved(before: dict[str, list[int]], after: dict[str, list[int]]) -> int:
    """How many partitions have another owner than before."""
    owner = {number: member for member, numbers in before.items() for number in numbers}
    return sum(
        owner.get(number, member) != member
        for member, numbers in after.items()
        for number in numbers
    )
