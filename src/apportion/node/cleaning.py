"""When the logs of `__consumer_offsets` are cleaned: one at a time, in short steps between which everybody else has their turn.

A log is looked at when something of it has become durable, so nothing is asked of one that rests. What a cleaning does, and why a
loss of power cannot hurt it, is said in `store/compact.py`.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from apportion.deadlines import Deadlines, Key
from apportion.machine import Instant, Note
from apportion.node.flush_gate import FlushGate
from apportion.node.partitions import Partition
from apportion.node.topics import OFFSETS_TOPIC
from apportion.store.compact import CleanerPause, clean_log, is_dirty_enough
from apportion.store.disk import Damaged, DiskError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.store.log import Log

CLEANING: Key = ("cleaning",)
"""The deadline of the next step."""
PAUSE_MS = 10  # between two steps of a few milliseconds each
RETRY_MS = 60_000  # how long a disk that has refused is left alone
DELETE_RETENTION_MS = 86_400_000  # Kafka's delete.retention.ms: a reader who is no slower sees every deletion


class CleaningJob:
    """One cleaning under way. mark: when that is durable it goes on; 0: it does not wait for the disk."""

    __slots__ = ("before_bytes", "flush_seq", "log", "partition", "steps")

    def __init__(self, partition: Partition, now: Instant) -> None:
        self.partition = partition
        self.log: Log = partition.log
        self.before_bytes = self.log.size_bytes
        self.steps: Iterator[CleanerPause] = clean_log(self.log, partition.high_watermark, now.wall_ms - DELETE_RETENTION_MS)
        self.flush_seq = 0

    @property
    def name(self) -> str:
        """The partition as people name it."""
        return f"{self.partition.topic.name}-{self.partition.index}"


class Cleaner:
    """The cleaning that is under way, and the partitions that wait for theirs."""

    __slots__ = ("_damaged", "_deadlines", "_job", "_journal", "_notes", "_waiting")

    def __init__(self, deadlines: Deadlines, flush_gate: FlushGate) -> None:
        self._deadlines = deadlines
        self._journal = flush_gate
        self._job: CleaningJob | None = None
        self._waiting: dict[Partition, None] = {}  # an ordered set
        self._damaged: dict[Partition, None] = {}  # likewise; they are not tried again
        self._notes: list[Note] = []

    def consider(self, partition: Partition, now: Instant) -> None:
        """What was written of the partition is durable: if too much of its log was never cleaned, it will be."""
        if partition.topic.name != OFFSETS_TOPIC or partition in self._damaged:
            return
        if self._job is not None and self._job.partition is partition:
            return
        with suppress(DiskError):  # tried again at the next look
            if partition.log.has_leftovers:
                partition.log.delete_leftovers()
        if is_dirty_enough(partition.log, partition.high_watermark):
            self._waiting[partition] = None
            if self._job is None:
                self._arm(now.mono_ms)

    def run_step(self, now: Instant) -> None:
        """The next step is done, of the cleaning that is under way or of a new one."""
        job, self._job = self._job, None
        if job is None or job.log is not job.partition.log:  # else its log was cut back, and will be looked at again
            job = self._next_job_or_none(now)
        if job is None:
            return
        self._journal.begin_write(job.partition)
        try:
            pause = next(job.steps, None)
        except Damaged as error:
            self._damaged[job.partition] = None
            self._notes.append(Note("error", f"{job.name} cannot be cleaned: {error}"))
        except DiskError as error:
            self._waiting[job.partition] = None
            self._arm(now.mono_ms + RETRY_MS)
            self._notes.append(Note("warning", f"{job.name} is not cleaned for now: {error}"))
        else:
            self._step_ended(pause, job, now)
        if self._job is None and self._waiting:
            self._arm(now.mono_ms)

    def flushed(self, durable: int, now: Instant) -> None:
        """Whatever is written up to mark `durable` is on the disk."""
        if self._job is not None and 0 < self._job.flush_seq <= durable:
            self._job.flush_seq = 0
            self._arm(now.mono_ms)

    def flush_failed(self) -> None:
        """A cleaning that waited for the disk is given up; its log was cut back with all else that was not durable."""
        if self._job is not None and self._job.flush_seq:
            self._job = None

    def rearm(self, now: Instant) -> None:
        """Arm the turn of those that still wait, though it is not known what became of the step before."""
        if self._job is None and self._waiting:
            self._arm(now.mono_ms + RETRY_MS)

    def notes(self) -> list[Note]:
        """What is to be said since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def _step_ended(self, pause: CleanerPause | None, job: CleaningJob, now: Instant) -> None:
        """The step has ended with that pause; None: the cleaning has ended."""
        if pause is None:
            text = f"{job.name} was cleaned: {job.before_bytes:,} bytes are {job.log.size_bytes:,} now"
            self._notes.append(Note("info", text))
            self.consider(job.partition, now)  # it may have grown meanwhile
            return
        self._job = job
        if pause is CleanerPause.FLUSH:
            job.flush_seq = self._journal.wrote(job.partition)
        else:
            self._arm(now.mono_ms + PAUSE_MS)

    def _next_job_or_none(self, now: Instant) -> CleaningJob | None:
        """A cleaning of the partition that has waited longest and still wants one."""
        while self._waiting:
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            if is_dirty_enough(partition.log, partition.high_watermark):
                return CleaningJob(partition, now)
        return None

    def _arm(self, at_ms: int) -> None:
        """The next step is then, unless another moment was said before."""
        if CLEANING not in self._deadlines:
            self._deadlines.arm(CLEANING, at_ms)
