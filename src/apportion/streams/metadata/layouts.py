"""The wire layouts of Kafka Streams' metadata in versions 1 to 11: each field and its versions.

A field that a version lacks is left out without an error, as Kafka Streams does. The name of a
topology is the exception: without it a task would become another task.
"""

from typing import Any

from apportion.settings import MAX_INT64
from apportion.streams.metadata.model import LATEST, NO_VERSION
from apportion.wire.fields import (
    array,
    chars,
    columns,
    int8,
    int32,
    int64,
    message,
    string,
    text,
    utf,
    uuid,
)

Columns = tuple[tuple[Any, ...], ...]
"""An array as columns: one tuple for each field of its elements."""
VERSIONS = range(1, LATEST + 1)
NO_REBALANCE = MAX_INT64
"""In place of the time of the next rebalance: none is scheduled."""


@message()
class StreamsUsedVersion:
    """The first field of all versions."""

    used: int = int32()


@message()
class StreamsVersions:
    """The first fields of all versions from 3 on, including those from the future (KIP-268)."""

    used: int = int32()
    supported: int = int32()


@message()
class StreamsTask:
    """A task; from version 10 on with its topology's name."""

    subtopology: int = int32()
    partition: int = int32()
    topology: str | None = chars(since=10, nullable=10, default=None)


@message()
class PartitionOffsetSum:
    """The offset sum of one task of a subtopology."""

    partition: int = int32()
    offset_sum: int = int64()


@message()
class SubtopologyOffsetSums:
    """The offset sums of the tasks of one subtopology."""

    subtopology: int = int32()
    tasks: Columns = columns(PartitionOffsetSum)


@message()
class TaskOffsetSum:
    """The offset sum of one task."""

    subtopology: int = int32()
    partition: int = int32()
    offset_sum: int = int64()
    topology: str | None = string(nullable=0, default=None)


@message()
class SubscriptionClientTag:
    """One client tag."""

    key: str = text()
    value: str = text()


@message(versions=VERSIONS)
class StreamsSubscription:
    """The user data of one consumer's subscription; see `model.SubscriptionInfo`."""

    used: int = int32()
    supported: int = int32(since=3, default=NO_VERSION, ignorable=True)
    process_id: bytes = uuid()
    # Until version 6 tasks were listed without offsets; since 7 (KIP-441) with offset sums.
    active: Columns = columns(StreamsTask, until=6)
    standby: Columns = columns(StreamsTask, until=6)
    endpoint: str = text(since=2, ignorable=True)
    subtopology_sums: tuple[SubtopologyOffsetSums, ...] = array(
        SubtopologyOffsetSums, since=7, until=9
    )
    task_sums: Columns = columns(TaskOffsetSum, since=10)
    # Kafka's uniqueField: it changes with each JoinGroup, or the coordinator would answer with the
    # present assignment and start no rebalance.
    unique: int = int8(since=8, ignorable=True)
    error: int = int32(since=9, ignorable=True)
    tags: tuple[SubscriptionClientTag, ...] = array(SubscriptionClientTag, since=11, ignorable=True)


@message()
class AssignmentPartition:
    """A partition with the name of its topic."""

    topic: str = utf()
    partition: int = int32()


@message()
class StandbyTask:
    """A standby task, and its source partitions."""

    subtopology: int = int32()
    partition: int = int32()
    topology: str | None = chars(since=10, nullable=10, default=None)
    partitions: Columns = columns(AssignmentPartition)


@message()
class NumberedTopic:
    """A topic, and the number that stands for it in the host maps (since version 5)."""

    number: int = int32()
    topic: str = utf()


@message()
class NumberedPartition:
    """A partition of a numbered topic."""

    topic: int = int32()
    partition: int = int32()


@message()
class AssignmentHostPartitions:
    """The source partitions of one host."""

    host: str = utf()
    port: int = int32()
    partitions: Columns = columns(AssignmentPartition, until=4)
    numbered: Columns = columns(NumberedPartition, since=5)


@message(versions=VERSIONS)
class StreamsAssignment:
    """The user data of one consumer's assignment; `model.AssignmentInfo` explains the fields."""

    used: int = int32()
    supported: int = int32(since=3, default=NO_VERSION, ignorable=True)
    active: Columns = columns(StreamsTask)
    standby: tuple[StandbyTask, ...] = array(StandbyTask)
    topics: Columns = columns(NumberedTopic, since=5)
    active_hosts: tuple[AssignmentHostPartitions, ...] = array(
        AssignmentHostPartitions, since=2, ignorable=True
    )
    standby_hosts: tuple[AssignmentHostPartitions, ...] = array(AssignmentHostPartitions, since=6)
    error: int = int32(since=4, ignorable=True)
    next_rebalance_ms: int = int64(since=7, default=NO_REBALANCE, ignorable=True)
