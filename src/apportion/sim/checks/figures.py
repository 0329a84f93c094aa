"""Figures of a history: rebalances, how long groups took to converge, how long partitions were in nobody's hands."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apportion.sim.kernel.clock import World
from apportion.sim.kernel.trace import Hand
from apportion.topics import TopicIdPartition

if TYPE_CHECKING:
    from apportion.sim.actors.member import Application


class History:
    """What is counted while a world goes on."""

    def __init__(self, world: World) -> None:
        self.rebalances = 0
        self.slowest_convergence_ms = 0
        self.longest_unowned_ms = 0
        self._world = world
        self._unsettled_since_ms: dict[str, int] = {}
        self._hands: dict[str, dict[TopicIdPartition, str]] = {}
        self._free_since_ms: dict[tuple[str, TopicIdPartition], int] = {}

    def group_changed(self, name: str, epochs: int, has_converged: bool) -> None:
        """The group is not what it was; its epoch, or generation, has grown by `epochs`."""
        now_ms = self._world.now_ms
        self.rebalances += max(0, epochs)
        if not has_converged:
            self._unsettled_since_ms.setdefault(name, now_ms)
        elif name in self._unsettled_since_ms:
            took_ms = now_ms - self._unsettled_since_ms.pop(name)
            self.slowest_convergence_ms = max(self.slowest_convergence_ms, took_ms)

    def hand_changed(self, group: str, applications: Iterable["Application"]) -> None:
        """Some owner of the group uses other places."""
        now: dict[TopicIdPartition, str] = {}
        for application in applications:
            if application.group == group and application.is_up:
                for place in application.hand[1]:
                    now[place] = f"{now[place]}+{application.name}" if place in now else application.name
        before = self._hands.get(group, {})
        self._hands[group] = now
        for place in before:
            if place not in now:
                self._free_since_ms[group, place] = self._world.now_ms
                self._tell(group, place, "")
        for place, who in now.items():
            if before.get(place) != who:
                self._taken(group, place)
                self._tell(group, place, who)

    def _taken(self, group: str, place: TopicIdPartition) -> None:
        since_ms = self._free_since_ms.pop((group, place), None)
        if since_ms is not None and self._world.now_ms < self._world.scenario.duration_ms:
            self.longest_unowned_ms = max(self.longest_unowned_ms, self._world.now_ms - since_ms)

    def _tell(self, group: str, place: TopicIdPartition, who: str) -> None:
        if self._world.chronicle is not None:
            self._world.chronicle.hands.append(Hand(self._world.now_us, group, str(place), who))
