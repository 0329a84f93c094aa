"""Subscriptions and assignments that show every field, in every version: what the golden bytes are
made of.
"""

from collections.abc import Iterator

from apportion.streams.metadata.model import (
    LATEST,
    NO_VERSION,
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.topics import TopicPartition

PROCESS = bytes(range(0xF0, 0x100))
PARTITIONS = tuple(TopicPartition(topic, partition) for topic in "abc" for partition in range(2))
"""Of topics with names of one letter: Kafka Streams numbers the topics in the order of a hash
table, which is theirs, too.
"""
HERE, THERE = HostInfo("host-é", 8080), HostInfo("höst-\U0001f980\0", 2**31 - 1)


def samples() -> Iterator[SubscriptionInfo | AssignmentInfo]:
    """All samples of all versions."""
    for version in range(1, LATEST + 1):
        supported = NO_VERSION if version < 3 else LATEST
        yield from subscriptions(version, supported)
        yield from assignments(version, supported)


def subscriptions(used: int, supported: int) -> Iterator[SubscriptionInfo]:
    """Subscriptions that hold all there is, whether that version can say it or not."""
    many = {
        TaskId(n // 12, n % 12): (RUNNING, OFFSET_UNKNOWN, n * 10**15)[n % 3] for n in range(36)
    }
    yield SubscriptionInfo(used, min(used, supported))
    yield SubscriptionInfo(used, supported, PROCESS, "localhost:8080", {TaskId(0, 0): RUNNING})
    yield SubscriptionInfo(
        used,
        supported,
        PROCESS,
        "höst-\U0001f980:1",
        {TaskId(2**31 - 1, 3): OFFSET_UNKNOWN},
        unique=-128,
    )
    yield SubscriptionInfo(
        used,
        supported,
        PROCESS,
        "",
        many,
        unique=127,
        error=4,
        tags={"zone": "eu-é", "cluster": ""},
    )
    yield SubscriptionInfo(
        used, supported, offset_sums={TaskId(3, 4): 0, TaskId(3, 5): 2**63 - 1}, error=2**31 - 1
    )
    if used >= 10:
        named = {
            TaskId(0, 1): 5,
            TaskId(0, 1, "a"): RUNNING,
            TaskId(0, 1, "é\U0001f980"): 7,
            TaskId(1, 0, "a"): OFFSET_UNKNOWN,
        }
        yield SubscriptionInfo(
            used,
            supported,
            PROCESS,
            "localhost:8080",
            named,
            tags={"": "", "a": "b", "é": "\U0001f980"},
        )


def assignments(used: int, supported: int) -> Iterator[AssignmentInfo]:
    """Assignments that hold all there is, whether that version can say it or not."""
    one, two = TaskId(0, 1), TaskId(12, 2**31 - 1)
    hosts = {HERE: PARTITIONS[:3], THERE: PARTITIONS[3:], HostInfo("idle", 1): ()}
    yield AssignmentInfo(used, min(used, supported))
    yield AssignmentInfo(used, supported, (one,), next_rebalance_ms=0)
    yield AssignmentInfo(
        used, supported, (one, one, two), {two: PARTITIONS[:1], TaskId(3, 0): ()}, error=1
    )
    yield AssignmentInfo(used, supported, (), {}, hosts, {HERE: PARTITIONS[3:]}, 3, 2**63 - 2)
    yield AssignmentInfo(
        used, supported, (two,), {one: PARTITIONS}, {}, {HERE: PARTITIONS[:1]}, 4, 1_795_000_000_000
    )
    many = tuple(TaskId(n // 12, n % 12) for n in range(36))
    yield AssignmentInfo(
        used, supported, many, dict.fromkeys(many[:12], PARTITIONS[:2]), {HERE: PARTITIONS}
    )
    if used >= 10:
        named = TaskId(0, 1, "é\U0001f980")
        yield AssignmentInfo(used, supported, (one, named), {named: PARTITIONS[:1], two: ()}, hosts)
