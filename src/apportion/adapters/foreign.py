"""What both foreign clients have in common: consumers whose coordinator knows the generation, and a view of the cluster."""

from collections.abc import Iterable
from typing import Any, Protocol

from apportion.member.assignors.builtin import CooperativeSticky, Sticky
from apportion.member.assignors.interface import Cluster, TopicShape

NO_GENERATION = -1


class SingleConsumerAssignor:
    """One of our assignors for one foreign consumer, which `bind` names."""

    kind: type[Sticky] | type[CooperativeSticky]
    home = ""
    """Which consumer calls `bind`."""

    def __init__(self) -> None:
        self._assignor = self.kind()
        self._coordinator: Any = None
        self._generation = NO_GENERATION

    @property
    def name(self) -> str:
        """What members vote for."""
        return self._assignor.name

    def bind(self, coordinator: Any) -> None:
        """The assignor speaks for the consumer that has this coordinator."""
        if self._coordinator is not None and self._coordinator is not coordinator:
            raise ValueError(f"a {type(self).__name__} remembers one consumer's partitions: give each consumer its own.")
        self._coordinator = coordinator

    def _bound(self) -> Any:
        """The coordinator. Raises RuntimeError before `bind`."""
        if self._coordinator is None:
            raise RuntimeError(f"{type(self).__name__} does not know its consumer: use the {self.home}.")
        return self._coordinator


class ForeignCluster(Protocol):
    """The metadata of a client."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of that topic; None for one that is not known."""
        ...


def to_cluster(foreign: ForeignCluster, topics: Iterable[str]) -> Cluster:
    """Those of these topics that exist. Racks of replicas are not told by these clients."""
    counts = {topic: foreign.partitions_for_topic(topic) for topic in sorted(dict.fromkeys(topics))}
    return {topic: TopicShape(len(partitions)) for topic, partitions in counts.items() if partitions}
