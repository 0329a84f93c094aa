"""When records are deleted by age and by size: Kafka's `retention.ms` and `retention.bytes`, whole segments at a time.

Every `log.retention.check.interval.ms` all partitions whose `cleanup.policy` has `delete` are looked at, a slice of them a step,
and each of them in an act of its own (see `node/node.py`): one that fails undoes nothing of the others.
The oldest segments go while their largest timestamp is older than `retention.ms`, or while what is left is still as large as
`retention.bytes`. The segment that is written goes too when it comes to that, and an empty one takes its place. How a partition
comes to begin later, durably and without a reader noticing too early, is said in `node/partitions.py` and `store/log.py`.
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
"""The deadline of the next slice."""
INITIAL_DELAY_MS = 30_000  # after a start, as Kafka's log.initial.task.delay.ms
PARTITIONS_PER_STEP = 1000  # partitions that one step looks at
PAUSE_MS = 10  # between two slices


class SegmentInfo(NamedTuple):
    """What the rule asks of a segment."""

    next_offset: int
    size_bytes: int
    max_timestamp_ms: int


def expired_before(spans: Sequence[SegmentInfo], rules: TopicRules, now_ms: int, visible_to: int) -> int:
    """Return the offset below which all segments of `spans` have expired at wall clock `now_ms`; 0 if none has.

    visible_to: the high watermark; a segment that ends behind it stays. Batches without a timestamp never grow old.
    """
    offset = 0
    excess_bytes = sum(span.size_bytes for span in spans) - rules.retention_bytes
    for span in spans:
        is_old = 0 <= rules.retention_ms < now_ms - span.max_timestamp_ms and span.max_timestamp_ms >= 0
        is_too_much = rules.retention_bytes >= 0 and excess_bytes >= span.size_bytes
        if not span.size_bytes or span.next_offset > visible_to or not (is_old or is_too_much):
            break
        excess_bytes -= span.size_bytes
        offset = span.next_offset
    return offset


class RetentionCheck:
    """The round over all partitions that is under way, or the deadline of the next one."""

    __slots__ = ("_broker", "_notes", "_waiting")

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._waiting: list[Partition] = []
        self._notes: list[Note] = []

    def arm_if_needed(self, now: Instant) -> None:
        """Begin the first round soon, once there is a topic whose records are deleted: without one there is nothing to wake for."""
        if self._broker.topic_service.has_retention and EXPIRY not in self._broker.deadlines:
            interval_ms = self._broker.settings.log_retention_check_interval_ms
            self._broker.deadlines.arm(EXPIRY, now.mono_ms + min(INITIAL_DELAY_MS, interval_ms))

    def next_partitions(self, now: Instant) -> list[Partition]:
        """Return the partitions to `delete_expired` now, of the round that is under way or of a new one, and arm the next slice."""
        broker = self._broker
        if not self._waiting:
            self._waiting = list(reversed(list(broker.partitions)))
        partitions = [self._waiting.pop() for _ in range(min(PARTITIONS_PER_STEP, len(self._waiting)))]
        pause_ms = PAUSE_MS if self._waiting else broker.settings.log_retention_check_interval_ms
        broker.deadlines.arm(EXPIRY, now.mono_ms + pause_ms)
        return partitions

    def delete_expired(self, partition: Partition, now: Instant) -> None:
        """Delete what has expired of the partition."""
        topic_service = self._broker.topic_service
        if topic_service.topics.with_id(partition.topic.id) is None:  # deleted while the round was under way
            return
        rules = topic_service.rules(partition.topic)
        if not rules.is_deleted:
            return
        spans = [SegmentInfo(each.next_offset, each.size_bytes, each.max_timestamp_ms) for each in partition.log.segments()]
        offset = expired_before(spans, rules, now.wall_ms, partition.high_watermark)
        if offset <= partition.log.start_offset:
            return
        name = f"{partition.topic.name}-{partition.index}"
        try:
            partition.delete_expired(offset)
        except DiskError as error:  # the next round tries it again
            self._notes.append(Note("warning", f"records of {name} have expired and are not deleted for now: {error}"))
        else:
            self._notes.append(Note("info", f"the records of {name} below offset {offset} have expired"))

    def notes(self) -> list[Note]:
        """What is to be said since the last call."""
        notes, self._notes = self._notes, []
        return notes
