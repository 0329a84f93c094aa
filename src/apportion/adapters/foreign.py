"""The common part of the adapters: an assignor of ours inside another client's consumer.

The consumer's coordinator knows the generation, and its metadata the topics.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from apportion.assign.by_name import ClusterTopics, TopicShape
from apportion.member.assignors.builtin import CooperativeSticky, Sticky

NO_GENERATION = -1


class SingleConsumerAssignor:
    """One of our assignors for one consumer of another client.

    A sticky assignor remembers its consumer's partitions, so consumers cannot share one.
    """

    kind: type[Sticky] | type[CooperativeSticky]
    home = ""
    """Which consumer calls `bind`."""

    def __init__(self) -> None:
        self._assignor = self.kind()
        self._coordinator: Any = None
        self._generation = NO_GENERATION

    @property
    def name(self) -> str:
        """The assignor's protocol name."""
        return self._assignor.name

    def bind(self, coordinator: Any) -> None:
        """Set the coordinator of the consumer that this assignor belongs to.

        Called by the adapter's consumer. Raises ValueError for a second consumer.
        """
        if self._coordinator is not None and self._coordinator is not coordinator:
            raise ValueError(
                f"a {type(self).__name__} remembers one consumer's partitions: give each "
                "consumer its own."
            )
        self._coordinator = coordinator

    def _bound(self) -> Any:
        """Return the coordinator. Raises RuntimeError before `bind`."""
        if self._coordinator is None:
            raise RuntimeError(
                f"{type(self).__name__} does not know its consumer: use the {self.home}."
            )
        return self._coordinator


class ForeignCluster(Protocol):
    """The part of a client's metadata that the assignors read."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partition numbers; None for an unknown topic."""
        ...


def to_cluster(foreign: ForeignCluster, topics: Iterable[str]) -> ClusterTopics:
    """Return the topics that exist, without racks, which these clients do not expose."""
    counts = {topic: foreign.partitions_for_topic(topic) for topic in sorted(dict.fromkeys(topics))}
    return {
        topic: TopicShape(len(partitions)) for topic, partitions in counts.items() if partitions
    }
