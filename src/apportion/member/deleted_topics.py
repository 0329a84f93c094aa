"""Partitions whose topic was deleted, and commits that leave them out.

For the rules of members. A topic that was created again under its name is another one (KIP-516).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from apportion.errors import UNKNOWN_TOPIC, Code, Refused
from apportion.member.queries import CommitOffsets, ExistingTopics
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, Topics


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
    request: CommitOffsets,
    report: Callable[[tuple[TopicIdPartition, ...]], Rule[None]] | None = None,
) -> Rule[tuple[TopicIdPartition, ...]]:
    """Commit offsets without those of topics that were deleted; return the partitions left out.

    report: run before the others are committed; what it raises keeps them from being committed.
    """
    if not request.offsets:
        return ()
    try:
        yield request
        return ()
    except Refused as refused:
        # A broker answers these also while it does not know yet of a topic that was just created.
        if refused.code not in UNKNOWN_TOPIC:
            raise
        deleted = yield from deleted_partitions(request.offsets)
        if not deleted:
            raise
    if report is not None:
        yield from report(deleted)
    # A deleted topic fails the whole OffsetCommit, so the others are committed without it.
    others = {each: at for each, at in request.offsets.items() if each not in deleted}
    more = yield from commit_without_deleted(replace(request, offsets=others), report)
    return (*deleted, *more)


def deleted_topic(deleted: tuple[TopicIdPartition, ...]) -> Refused:
    """Return the error of a commit that left these partitions out."""
    partitions = ", ".join(map(str, deleted))
    why = f"offsets are not committed, as the topic was deleted: {partitions}"
    return Refused(Code.UNKNOWN_TOPIC_ID, why)
