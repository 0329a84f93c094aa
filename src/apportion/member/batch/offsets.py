"""The offsets of a micro-batch that are due for commit."""

from collections.abc import Container, Mapping

from apportion.member.batch.span import Span
from apportion.topics import TopicIdPartition


def due_commits(
    previous: Span,
    owned: Container[TopicIdPartition],
    committed: Mapping[TopicIdPartition, int | None],
) -> dict[TopicIdPartition, int]:
    """Return the end offsets of a micro-batch that the group does not have yet.

    owned: the partitions that the member still owns; others must not be committed.
    Everything below these offsets must be durable in the sink: a span that Spark hands to
    latestOffset is.
    """
    return {
        partition: end
        for partition, end in previous.end_offsets().items()
        if partition in owned and ((offset := committed.get(partition)) is None or end > offset)
    }
