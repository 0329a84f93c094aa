"""Partitions whose topic was deleted, and commits that leave them out.

For the rules of members. A topic that was created again under its name is another one (KIP-516).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.queries import CommitOffsets, ExistingTopics
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, Topics

# A broker answers these also while it does not know yet of a topic that was just created.
UNKNOWN_TOPIC = (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)


def deleted_partitions(
    partitions: Iterable[TopicIdPartition],
) -> Rule[tuple[TopicIdPartition, ...]]:
    """Return the partitions whose topic was deleted, or recreated under the same name."""
    suspects = tuple(partitions)
    if not suspects:
        return ()
    topics: Topics = yield ExistingTopics(
        tuple(dict.fromkeys(partition.topic for partition in suspects))
    )
    # By id (KIP-516): a recreated topic has the name, and none of the records.
    return tuple(
        partition
        for partition in suspects
        if (topic := topics.named(partition.topic)) is None or topic.id != partition.topic_id
    )


def commit_without_deleted(
    request: CommitOffsets, report: Callable[[tuple[TopicIdPartition, ...]], Rule[None]]
) -> Rule[None]:
    """Commit offsets, but those of topics that were deleted: their partitions are reported.

    report: run before the others are committed; what it raises keeps them from being committed.
    """
    if not request.offsets:
        return
    try:
        yield request
    except Refused as refused:
        if refused.code not in UNKNOWN_TOPIC:
            raise
        deleted = yield from deleted_partitions(request.offsets)
        if not deleted:
            raise
        yield from report(deleted)
        # A deleted topic fails the whole OffsetCommit, so the others are committed without it.
        others = {each: at for each, at in request.offsets.items() if each not in deleted}
        yield from commit_without_deleted(replace(request, offsets=others), report)


def warn_of_deleted(deleted: tuple[TopicIdPartition, ...]) -> Rule[None]:
    """Log that the offsets of these partitions are not committed."""
    partitions = ", ".join(map(str, deleted))
    yield Note("warning", f"offsets are not committed, as the topic was deleted: {partitions}")
