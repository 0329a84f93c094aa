"""Deletion of records by age and by size, a whole segment at a time.

Every `log.retention.check.interval.ms` all partitions whose `cleanup.policy` has `delete` are
checked, some in each step, and each in a unit of work of its own (`node/unit_of_work.py`), so that
a failure undoes nothing of the others. The oldest segments go while their largest timestamp is
older than `retention.ms`, or while the rest is still as large as `retention.bytes`. The active
segment goes as well, and an empty one takes its place. How the log start offset moves durably is
explained in `node/partitions.py` and `store/log.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from apportion.deadlines import Key
from apportion.machine import Instant, Note
from apportion.node.broker import BrokerContext
from apportion.node.partitions import Partition
from apportion.node.topic_rules import TopicRules
from apportion.store.disk import DiskError

EXPIRY: Key = ("expiry",)
"""The deadline of the next partitions to check."""
INITIAL_DELAY_MS = 30_000  # after a start, as Kafka's log.initial.task.delay.ms
PARTITIONS_PER_STEP = 1000  # partitions that one step looks at
PAUSE_MS = 10  # between two steps of one check


class SegmentInfo(NamedTuple):
    """The facts of a log segment that the retention rule needs."""

    next_offset: int
    size_bytes: int
    max_timestamp_ms: int


def expired_before(
    segments: Sequence[SegmentInfo], rules: TopicRules, now_ms: int, high_watermark: int
) -> int:
    """Return the offset below which a log's segments have expired by retention, or 0.

    now_ms: wall clock. high_watermark: a segment that ends behind it stays. Batches without a
    timestamp never grow old.
    """
    offset = 0
    # Kafka's rule: a segment goes only if the rest is still as large as `retention.bytes`.
    excess_bytes = sum(segment.size_bytes for segment in segments) - rules.retention_bytes
    for segment in segments:
        is_old = (
            0 <= rules.retention_ms < now_ms - segment.max_timestamp_ms
            and segment.max_timestamp_ms >= 0
        )
        is_too_much = rules.retention_bytes >= 0 and excess_bytes >= segment.size_bytes
        is_visible = segment.next_offset <= high_watermark
        # Not past a segment that stays: a log has no holes, so everything goes from its start on.
        if not segment.size_bytes or not is_visible or not (is_old or is_too_much):
            break
        excess_bytes -= segment.size_bytes
        offset = segment.next_offset
    return offset


class RetentionCheck:
    """The check of all partitions that is under way, or the deadline of the next one."""

    __slots__ = ("_broker", "_waiting")

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._waiting: list[Partition] = []

    def arm_if_needed(self, now: Instant) -> None:
        """Arm the first retention check once there is a topic with retention.

        Without one there is nothing to wake for.
        """
        if self._broker.topic_service.has_retention and EXPIRY not in self._broker.deadlines:
            interval_ms = self._broker.settings.log_retention_check_interval_ms
            self._broker.deadlines.arm(EXPIRY, now.mono_ms + min(INITIAL_DELAY_MS, interval_ms))

    def take_next_partitions(self, now: Instant) -> list[Partition]:
        """Take the partitions whose retention this step checks off the list, and arm the next step.

        An empty list is filled with all partitions first: a new check begins.
        """
        broker = self._broker
        if not self._waiting:
            # Reversed for `pop`; a list of its own, since topics come and go between two steps.
            self._waiting = list(reversed(list(broker.partitions)))
        partitions = [
            self._waiting.pop() for _ in range(min(PARTITIONS_PER_STEP, len(self._waiting)))
        ]
        pause_ms = PAUSE_MS if self._waiting else broker.settings.log_retention_check_interval_ms
        broker.deadlines.arm(EXPIRY, now.mono_ms + pause_ms)
        return partitions

    def delete_expired(self, partition: Partition, now: Instant) -> None:
        """Delete the partition's segments that have expired by `retention.ms` or `.bytes`."""
        topic_service = self._broker.topic_service
        # deleted while the round was under way
        if topic_service.topics.with_id(partition.topic.id) is None:
            return
        rules = topic_service.rules(partition.topic)
        if not rules.is_deleted:
            return
        segments = [
            SegmentInfo(segment.next_offset, segment.size_bytes, segment.max_timestamp_ms)
            for segment in partition.log.segments()
        ]
        offset = expired_before(segments, rules, now.wall_ms, partition.high_watermark)
        if offset <= partition.log.start_offset:
            return
        try:
            partition.delete_expired(offset)
        except DiskError as error:  # the next round tries it again
            self._broker.disk_failures.add(str(error), now.mono_ms, error.errno)
        else:
            name = f"{partition.topic.name}-{partition.index}"
            text = f"the records of {name} below offset {offset} have expired"
            self._broker.notes.append((partition.flush_seq, Note("info", text)))
