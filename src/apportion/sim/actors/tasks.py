"""The tasks of a simulated query, which read the ranges of its micro-batches.

They run `member.batch.range_reader.RangeReader`, as `spark.reading.slices` does, one after the
other on the query's own host. Like Spark they begin a range anew if its read fails.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from apportion.errors import Refused, Unanswerable
from apportion.member.batch.range_reader import DeliverBatches, RangeReader, ReaderTimeouts
from apportion.member.metadata_cache import MetadataCache
from apportion.member.reactions import is_permanent
from apportion.member.time_limits import LONGEST_PAUSE_MS
from apportion.rules import rule_script
from apportion.sim.actors.member_answers import at_once
from apportion.sim.actors.requests import answer_request
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, Sleep
from apportion.sim.kernel.clock import Script
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition
from apportion.wire.batch import decode_batch

SILENCE_MS = 4 * REQUEST_TIMEOUT_MS  # as many requests as a real task's may end without an answer
TASK_RETRY_MS = 500


class TaskReads:
    """The reads of the tasks of one process, by a client of their own.

    interruptions: of this client; the query does not count them.
    """

    def __init__(self, name: str, mono_ms: Callable[[], int]) -> None:
        """Begin without any metadata. name: of the query. mono_ms: reads the process's clock."""
        self.name, self.mono_ms = name, mono_ms
        self.interruptions = 0
        self._metadata = MetadataCache()

    def read(self, partition: TopicIdPartition, bounds: tuple[int, int]) -> Script:
        """Return the offsets of the range's records, as they come, without those that are gone."""
        while True:
            attempt = RangeRead(self, partition, bounds)
            try:
                return (yield from attempt.run(self._metadata))
            except (Refused, Unanswerable) as error:
                attempt.check_patience(error)
            yield Sleep(TASK_RETRY_MS)


class RangeRead:
    """One attempt to read one range. offsets: of the records that have come."""

    def __init__(
        self, reads: TaskReads, partition: TopicIdPartition, bounds: tuple[int, int]
    ) -> None:
        """Begin now."""
        self._reads, self._partition, self._bounds = reads, partition, bounds
        self.offsets: list[int] = []
        self._heard_ms = reads.mono_ms()

    def run(self, metadata: MetadataCache) -> Script:
        """Read the range by the rule; return `offsets`. metadata: of the tasks' client."""
        timeouts = ReaderTimeouts(REQUEST_TIMEOUT_MS, SILENCE_MS)
        reader = RangeReader(metadata, self._partition, self._bounds, timeouts)
        for from_offset, rule in reader.parts(fail_on_data_loss=False):
            yield from rule_script(rule, partial(self._answer, from_offset))
        return self.offsets

    def _answer(self, from_offset: int, query: Any) -> Script:
        """Answer a query of the rule, which reads from this offset on."""
        if not isinstance(query, DeliverBatches):
            return answer_request(self._reads, query)
        self._heard_ms = self._reads.mono_ms()
        # A batch may begin before that offset, and end behind the range.
        self.offsets += [
            record.offset
            for batch in query.batches
            for record in decode_batch(batch)
            if from_offset <= record.offset < self._bounds[1]
        ]
        return at_once(None)

    def check_patience(self, error: Exception) -> None:
        """Check that the error may end a task: nothing has come for the whole time."""
        silent_ms = self._reads.mono_ms() - self._heard_ms
        # It ends before a pause that would last until its time is up.
        if is_permanent(error) or silent_ms < SILENCE_MS - LONGEST_PAUSE_MS:
            raise LawBroken(
                "task-goes-on",
                f"a task of {self._reads.name} that read {self._partition} ended {silent_ms} ms "
                f"after it had begun or had heard something: {error}.",
            )
