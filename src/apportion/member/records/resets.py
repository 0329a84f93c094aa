"""The offsets at which a consumer starts where the group has none that can be read."""

from collections.abc import Sequence

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.queries import ListOffsets
from apportion.rules import Rule
from apportion.topics import TopicIdPartition


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
