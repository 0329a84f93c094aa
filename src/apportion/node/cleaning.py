"""The log cleaner of `__consumer_offsets`: which log is compacted when.

The cleaner compacts one log at a time, in short steps between which requests are served. A log is
considered when something of it has become durable, so idle logs cost nothing. Compaction itself,
and why a power loss cannot hurt it, is explained in `store/compact.py`.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from apportion.deadlines import Key
from apportion.machine import Instant, Note
from apportion.node.broker import BrokerContext
from apportion.node.config_entries import OFFSETS_TOPIC, TOPIC_SETTINGS
from apportion.node.partitions import Partition
from apportion.store.compact import CleanerPause, clean_log, is_dirty_enough
from apportion.store.disk import Damaged, DiskError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.store.log import Log

CLEANING: Key = ("cleaning",)
"""The deadline of the next step."""
PAUSE_MS = 10  # between two steps of a few milliseconds each
RETRY_MS = 60_000  # the pause after an error of the disk
# Without the day, a reader that follows the log and is late would keep a member that has left
# (decision 26).
DELETE_RETENTION_MS = int(TOPIC_SETTINGS["delete.retention.ms"])  # how long tombstones are kept


class CleaningJob:
    """One cleaning under way. flush_seq: the flush that it waits for; 0 if it waits for none."""

    __slots__ = ("before_bytes", "flush_seq", "log", "partition", "steps")

    def __init__(self, partition: Partition, now: Instant) -> None:
        """Begin a cleaning (log compaction) of a partition of `__consumer_offsets`."""
        self.partition = partition
        self.log: Log = partition.log
        self.before_bytes = self.log.size_bytes
        self.steps: Iterator[CleanerPause] = clean_log(
            self.log, partition.high_watermark, now.wall_ms - DELETE_RETENTION_MS
        )
        self.flush_seq = 0

    @property
    def name(self) -> str:
        """The partition's name for the log."""
        return f"{self.partition.topic.name}-{self.partition.index}"


class Cleaner:
    """The cleaning under way, and the partitions that wait for theirs."""

    __slots__ = ("_broker", "_damaged", "_job", "_waiting")

    def __init__(self, broker: BrokerContext) -> None:
        """Begin the log cleaner of `__consumer_offsets` with no partition to clean."""
        self._broker = broker
        self._job: CleaningJob | None = None
        self._waiting: dict[Partition, None] = {}  # an ordered set
        self._damaged: dict[Partition, None] = {}  # likewise; they are not tried again

    def consider(self, partition: Partition, now: Instant) -> None:
        """Queue a partition of `__consumer_offsets` for log compaction if enough of it is dirty.

        The node calls it after each flush of the partition.
        """
        # No other topic: the producers' sequence numbers in its batches would have to be kept
        # (decision 26).
        if partition.topic.name != OFFSETS_TOPIC or partition in self._damaged:
            return
        if self._job is not None and self._job.partition is partition:
            return
        with suppress(DiskError):  # tried again after the next flush
            if partition.log.has_leftovers:
                partition.log.delete_leftovers()
        if is_dirty_enough(partition.log, partition.high_watermark):
            self._waiting[partition] = None
            if self._job is None:
                self._arm(now.mono_ms)

    def run_step(self, now: Instant) -> None:
        """Run the next step of the log cleaning under way, or begin the next cleaning.

        The node calls it when the deadline CLEANING is due.
        """
        job, self._job = self._job, None
        # a log that was cut back is another object: its cleaning is void, and it is considered
        # again after the next flush
        if job is None or job.log is not job.partition.log:
            job = self._take_next_job_or_none(now)
        if job is None:
            return
        # A step that fails between two changes of the files is rolled back like any other write.
        self._broker.flush_gate.begin_write(job.partition)
        try:
            pause = next(job.steps, None)
        except Damaged as error:
            # Not again: each try would read the whole log up to the same bytes.
            self._damaged[job.partition] = None
            self._note("error", f"{job.name} cannot be cleaned: {error}")
        except DiskError as error:
            self._waiting[job.partition] = None
            self._arm(now.mono_ms + RETRY_MS)
            self._broker.disk_failures.add(str(error), now.mono_ms, error.errno)
        else:
            self._step_ended(pause, job, now)
        if self._job is None and self._waiting:
            self._arm(now.mono_ms)

    def flushed(self, durable_seq: int, now: Instant) -> None:
        """Go on with a log cleaning that waited for a flush up to `durable_seq`."""
        if self._job is not None and 0 < self._job.flush_seq <= durable_seq:
            self._job.flush_seq = 0
            self._arm(now.mono_ms)

    def flush_failed(self) -> None:
        """Give up a log cleaning that waited for the flush which the disk refused.

        The cleaned log was cut back with everything that was not durable.
        """
        if self._job is not None and self._job.flush_seq:
            self._job = None

    def rearm(self, now: Instant) -> None:
        """Arm the next step of log cleaning after a failed step of the node, if partitions wait."""
        if self._job is None and self._waiting:
            self._arm(now.mono_ms + RETRY_MS)

    def _step_ended(self, pause: CleanerPause | None, job: CleaningJob, now: Instant) -> None:
        """Go on after a step of a log cleaning. pause: why it stopped; None when all is done."""
        if pause is None:
            self._note(
                "info",
                f"{job.name} was cleaned: {job.before_bytes:,} bytes are "
                f"{job.log.size_bytes:,} now",
            )
            self.consider(job.partition, now)  # it may have grown meanwhile
            return
        self._job = job
        if pause is CleanerPause.FLUSH:
            # By the same flush as everybody's writes: a cleaning costs no sync of its own.
            job.flush_seq = self._broker.flush_gate.wrote(job.partition)
        else:
            self._arm(now.mono_ms + PAUSE_MS)

    def _take_next_job_or_none(self, now: Instant) -> CleaningJob | None:
        """Begin the log cleaning that has waited longest and is still worth it."""
        while self._waiting:
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            if is_dirty_enough(partition.log, partition.high_watermark):
                return CleaningJob(partition, now)
        return None

    def _note(self, level: str, text: str) -> None:
        """Log a line that waits for no flush: a cleaning changes nothing that a log says."""
        self._broker.notes.append((0, Note(level, text)))

    def _arm(self, at_ms: int) -> None:
        """Arm the next step of log cleaning, unless it is armed already."""
        if CLEANING not in self._broker.deadlines:
            self._broker.deadlines.arm(CLEANING, at_ms)
