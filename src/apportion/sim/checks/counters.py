"""Counts rebalances, how long groups took to converge, and how long partitions had no owner."""

from collections.abc import Iterable

from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.observer import PartitionOwner
from apportion.sim.kernel.trace import OwnershipChange
from apportion.topics import TopicIdPartition


class RunCounters:
    """Counters that go on with the simulation; `Outcome` has their final values."""

    def __init__(self, simulation: Simulation) -> None:
        self.rebalances = 0
        self.slowest_convergence_ms = 0
        self.longest_unowned_ms = 0
        self._simulation = simulation
        self._unconverged_since_ms: dict[str, int] = {}
        self._owners: dict[str, dict[TopicIdPartition, str]] = {}
        self._unowned_since_ms: dict[tuple[str, TopicIdPartition], int] = {}

    def group_changed(self, name: str, epochs: int, has_converged: bool) -> None:
        """Count a change of a group, whose epoch or generation went up by `epochs`."""
        now_ms = self._simulation.now_ms
        self.rebalances += max(0, epochs)
        if not has_converged:
            self._unconverged_since_ms.setdefault(name, now_ms)
        elif name in self._unconverged_since_ms:
            took_ms = now_ms - self._unconverged_since_ms.pop(name)
            self.slowest_convergence_ms = max(self.slowest_convergence_ms, took_ms)

    def ownership_changed(self, group: str, applications: Iterable[PartitionOwner]) -> None:
        """Trace which partitions of a group have another owner than before, or none.

        Called when an application uses other partitions, starts or ends. Measures how long
        partitions have no owner, for `longest_unowned_ms`. Two owners at once are traced as "a+b".
        """
        now: dict[TopicIdPartition, str] = {}
        for application in applications:
            if application.group == group and application.is_up:
                for topic_partition in application.in_use.partitions:
                    now[topic_partition] = (
                        f"{now[topic_partition]}+{application.name}"
                        if topic_partition in now
                        else application.name
                    )
        before = self._owners.get(group, {})
        self._owners[group] = now
        for topic_partition in before:
            if topic_partition not in now:
                self._unowned_since_ms[group, topic_partition] = self._simulation.now_ms
                self._trace_owner(group, topic_partition, "")
        for topic_partition, owner in now.items():
            if before.get(topic_partition) != owner:
                self._end_unowned(group, topic_partition)
                self._trace_owner(group, topic_partition, owner)

    def _end_unowned(self, group: str, topic_partition: TopicIdPartition) -> None:
        """Measure how long a partition had no owner, unless the scenario's time is over."""
        since_ms = self._unowned_since_ms.pop((group, topic_partition), None)
        if since_ms is not None and self._simulation.now_ms < self._simulation.scenario.duration_ms:
            self.longest_unowned_ms = max(
                self.longest_unowned_ms, self._simulation.now_ms - since_ms
            )

    def _trace_owner(self, group: str, topic_partition: TopicIdPartition, owner: str) -> None:
        if self._simulation.trace is not None:
            self._simulation.trace.ownership.append(
                OwnershipChange(self._simulation.now_us, group, str(topic_partition), owner)
            )
