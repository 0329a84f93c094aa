"""The subscribed topics of a consumer group, laid end to end, as assignors on vectors need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apportion.coord.consumer.units import PARTITION, SHIFT
from apportion.lazy_imports import lazy_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from apportion.assign import racks as assignor_racks
    from apportion.assign.racks import Racks
    from apportion.assign.subscriptions import Vector
    from apportion.coord.consumer.state import ConsumerGroup
    from apportion.coord.consumer.units import UnitArray
    from apportion.topics import Topic, TopicId, Topics

    Positions = NDArray[np.int64]
else:
    np = lazy_module("numpy")
    assignor_racks = lazy_module("apportion.assign.racks")


def subscribed_topics(group: ConsumerGroup, topics: Topics) -> tuple[Topic, ...]:
    """Return the topics that a consumer group subscribes to and that exist, by name."""
    return tuple(
        topic
        # By name: the target depends on the group and the topics, not on the order of its history.
        for name in sorted(group.saved.subscriber_counts)
        if (topic := topics.named(name)) is not None
    )


class TopicLayout(NamedTuple):
    """The subscribed topics that exist, by name, laid end to end as the assignors need them.

    topics[t] has the positions starts[t]..starts[t + 1], one for each partition.
    """

    topics: tuple[Topic, ...]
    starts: Vector

    @classmethod
    def of(cls, topics: tuple[Topic, ...]) -> TopicLayout:
        """Return these topics laid end to end."""
        return cls(topics, np.cumsum([0, *(topic.partitions for topic in topics)]).astype(np.int32))

    def positions(self, units: UnitArray, ids: Sequence[TopicId]) -> Positions:
        """Return the assignor's position of each unit, or -1.

        The position is -1 if the topic or the partition is not in the layout. ids: of the topics
        from which the units were made, by number.
        """
        number_of = {topic_id: number for number, topic_id in enumerate(ids)}
        # The last entry is for UNKNOWN_UNIT, whose topic number is -1, so it gets position -1.
        starts = np.full(len(ids) + 1, -1, np.int64)
        counts = np.zeros(len(ids) + 1, np.int64)
        for index, topic in enumerate(self.topics):
            number = number_of.get(topic.id)
            if number is not None:
                starts[number], counts[number] = self.starts[index], topic.partitions
        topics, partitions = units >> SHIFT, units & PARTITION
        return np.where(partitions < counts[topics], starts[topics] + partitions, -1)

    def racks_or_none(self, rack_ids: Sequence[str | None]) -> Racks | None:
        """Return the racks of members and replicas; None unless both have some."""
        if not (any(topic.racks for topic in self.topics) and any(rack_ids)):
            return None
        replicas: Iterable[tuple[int, tuple[str, ...]]] = (
            (start + number, racks)
            for start, topic in zip(self.starts.tolist(), self.topics, strict=False)
            for number, racks in enumerate(topic.racks)
        )
        return assignor_racks.racks_of(rack_ids, replicas, int(self.starts[-1]))
