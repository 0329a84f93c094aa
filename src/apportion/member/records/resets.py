"""The offsets at which a consumer starts where the group has none that can be read."""

from collections.abc import Sequence

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.queries import KnownTopics, ListOffsets, MatchingTopics
from apportion.rules import Rule
from apportion.topics import TopicId, TopicIdPartition, Topics


class KnownPartitions:
    """The partitions that the topics of one consumer had when it first looked at each topic.

    A partition that appears later is new: everything in it was written while the consumer was
    subscribed, and `latest` would lose what came before the group has assigned it.
    """

    def __init__(self) -> None:
        """Know no topic yet."""
        self._counts: dict[TopicId, int] = {}
        self._subscription: tuple[tuple[str, ...], str] | None = None

    def look(self, names: tuple[str, ...], expression: str) -> Rule[None]:
        """Look at the topics of a subscription, unless it was the last one that was looked at.

        expression: of RE2; "" for none.
        """
        if (names, expression) == self._subscription:
            return
        matching: tuple[str, ...] = (yield MatchingTopics(expression)) if expression else ()
        topics: Topics = yield KnownTopics((*names, *matching))
        for topic in topics:
            self._counts.setdefault(topic.id, topic.partitions)
        self._subscription = names, expression

    def is_new(self, partition: TopicIdPartition) -> bool:
        """Return whether the partition appeared after its topic was first looked at."""
        has_looked = self._subscription is not None
        return has_looked and partition.partition >= self._counts.get(partition.topic_id, 0)


def reset_offsets(
    reset: int | None, partitions: Sequence[TopicIdPartition], why: str
) -> Rule[dict[TopicIdPartition, int]]:
    """Return the offsets that `auto_offset_reset` chooses. Raises Refused if it is "error".

    reset: the timestamp EARLIEST or LATEST; None: "error". why: the need of a reset, for the error.
    """
    if not partitions:
        return {}
    # auto.offset.reset=none in Kafka: a program that keeps its own offsets wants to hear of it.
    if reset is None:
        raise Refused(
            Code.OFFSET_OUT_OF_RANGE,
            f"auto_offset_reset is 'error', and of {partitions[0]}: {why}",
        )
    starts: dict[TopicIdPartition, int] = yield ListOffsets(tuple(partitions), reset)
    return starts


def reset_position(
    reset: int | None, partition: TopicIdPartition, position: int
) -> Rule[dict[TopicIdPartition, int]]:
    """Return the offset at which a partition starts anew whose log does not have its position.

    Raises Refused as `reset_offsets` does.
    """
    # Without the log start offset: with this error brokers answer -1 for it.
    why = f"{partition}: offset {position} is out of range"
    yield Note("warning", why)
    # Retention has deleted the position, or the log was truncated; Kafka's consumer applies
    # auto.offset.reset to both.
    return (yield from reset_offsets(reset, [partition], why))
