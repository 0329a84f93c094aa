"""The rule of a task of a micro-batch: a range is read, and read again until all of it is there.

The leader is asked for what is still missing until nothing has come for a whole timeout. Which rows
a batch has follows from its range, so nothing is left out unless it is gone, and then only where
failOnDataLoss allows that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from apportion.errors import UNKNOWN_TOPIC, Code, Refused, Unanswerable
from apportion.member.batch.data_loss import DataLoss
from apportion.member.cluster_queries.records import (
    FETCH_BYTES,
    FetchQuery,
    PartitionFetch,
    refusals,
)
from apportion.member.fetches import fetch_from_leader, fetch_positions
from apportion.member.metadata_cache import MetadataCache
from apportion.member.partition_leaders import list_offsets, raise_unless_retriable
from apportion.member.reactions import is_permanent
from apportion.member.time_limits import ReadClock, RetryDeadline, metadata_limit_ms, within
from apportion.rules import Rule, RuleQuery
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

V = TypeVar("V")

LEAST_FETCH_BYTES = 64 << 10
# Before the first response shows the real size: a reader asks for about as many bytes as its range
# needs, and not for everything that follows the range.
GUESSED_RECORD_BYTES = 256
RANGE_FETCH_WAIT_MS = 500
RECORDS_GONE = (Code.OFFSET_OUT_OF_RANGE, *UNKNOWN_TOPIC)


@dataclass(frozen=True, slots=True)
class DeliverBatches(RuleQuery):
    """Give these batches to the reader's caller. Answer: None, once it has taken them."""

    batches: tuple[memoryview, ...]


class ReaderTimeouts(NamedTuple):
    """The times of a range's reader.

    request_ms: of one request. silence_ms: how long nothing may come before the reader gives up.
    """

    request_ms: int
    silence_ms: int


class RangeReader:
    """The read of the offsets [start, end) of one partition.

    position: the next offset to read; `end` or above it once the range is read.
    """

    def __init__(
        self,
        cache: MetadataCache,
        partition: TopicIdPartition,
        bounds: tuple[int, int],
        timeouts: ReaderTimeouts,
    ) -> None:
        """Begin at the start of the bounds. cache: of the client that the rules are run by."""
        self._cache, self._partition, self._timeouts = cache, partition, timeouts
        self.start, self.end = bounds
        self.position = self.start
        self._record_bytes: float = GUESSED_RECORD_BYTES

    def parts(self, *, fail_on_data_loss: bool) -> Iterator[tuple[int, Rule[None]]]:
        """Yield the rules that read the range, each with the offset from which on it reads.

        A rule has to be run to its end before the next is asked for. The caller leaves out records
        of its batches that are below that offset, or not below `end`.
        """
        while self.position < self.end:
            yield self.position, self.read_remaining(fail_on_data_loss=fail_on_data_loss)

    def read_remaining(self, *, fail_on_data_loss: bool) -> Rule[None]:
        """Deliver batches up to the end of the range, or up to records that are gone.

        `position` is behind those then, and what comes next has to be read by another call: the
        first of its batches may have records that are gone.

        fail_on_data_loss: DataLoss is raised for records that are gone.
        """
        try:
            yield from self.read()
        except Refused as refused:
            # Any other error is raised, so that Spark tries the task again on another worker.
            if refused.code not in RECORDS_GONE:
                raise
            if fail_on_data_loss:
                raise DataLoss(
                    f"{refused.why}: this batch reads {self._partition} from {self.start} to "
                    f"{self.end}. "
                    "Set failOnDataLoss to false to go on without these records."
                ) from refused
            self.position = yield from self._skip_lost(refused)

    def read(self) -> Rule[None]:
        """Deliver every visible batch with records from the position up to the end, each once.

        The first may begin before the position, and the last may reach beyond the end.

        Raises Refused(OFFSET_OUT_OF_RANGE) if the range no longer exists, and the last error if
        nothing comes for `silence_ms`: it never ends early without one.
        """
        deadline = yield from self._new_deadline()
        while self.position < self.end:
            try:
                fetch = yield from self._fetch()
            except (Unanswerable, Refused) as error:
                raise_unless_retriable(error)
                yield from deadline.pause(error)
                continue
            # Never skipped here: a batch that yields less than its range would not be the same on a
            # replay.
            if fetch.code is Code.OFFSET_OUT_OF_RANGE:
                raise (yield from self._range_is_gone())
            for refused in refusals({self._partition: fetch}).values():
                if is_permanent(refused):
                    raise refused
            if fetch.batches:
                yield DeliverBatches(fetch.batches)
            if fetch.next_offset > self.position:
                self._advance(fetch)
                # The timeout is for silence: with every step forward it starts anew.
                deadline = yield from self._new_deadline()
            else:
                code = Code.REQUEST_TIMED_OUT if fetch.code is Code.NONE else fetch.code
                why = (
                    f"{self._partition}: nothing came at offset {self.position} of "
                    f"[{self.start}, {self.end})"
                )
                # The leader is not at the end of the range yet: after a failover a new leader may
                # lag in what it shows.
                yield from deadline.pause(Refused(code, why))

    def _new_deadline(self) -> Rule[RetryDeadline]:
        now_ms: int = yield ReadClock()
        return RetryDeadline(now_ms, self._timeouts.silence_ms)

    def _fetch(self) -> Rule[PartitionFetch]:
        """Fetch once from the position, at the partition's leader."""
        # A tenth more than the estimate, so that a range mostly ends in one request; at least
        # 64 KiB, as tiny ranges need no precision.
        missing_bytes = int((self.end - self.position) * self._record_bytes * 1.1)
        request_ms = self._timeouts.request_ms
        leader = self._cache.leader(self._partition)
        # Mostly it is known: a time limit would cost more than the look.
        if leader is None:
            leader = yield from within(
                self._cache.find_leader(self._partition), metadata_limit_ms(request_ms)
            )
        query = FetchQuery(
            fetch_positions({self._partition: self.position}, {self._partition: leader}),
            RANGE_FETCH_WAIT_MS,
            min(max(missing_bytes, LEAST_FETCH_BYTES), FETCH_BYTES),
            self.end,
            leader.node_id,
        )
        fetched = yield from fetch_from_leader(self._cache, query, request_ms)
        why = f"{query.api} of {self._partition}: the response leaves it out"
        absent = PartitionFetch((), self.position, Code.UNKNOWN_SERVER_ERROR, why)
        return fetched.get(self._partition, absent)

    def _advance(self, fetch: PartitionFetch) -> None:
        """Move the position behind what was fetched, and learn from it how large records are."""
        size_bytes = sum(map(len, fetch.batches))
        self._record_bytes = size_bytes / (fetch.next_offset - self.position) or self._record_bytes
        self.position = fetch.next_offset

    def _range_is_gone(self) -> Rule[Refused]:
        """Return the error of a range that the log does not hold, with what the log holds."""
        log_start = yield from self._list_offset(EARLIEST)
        log_end = yield from self._list_offset(LATEST)
        return Refused(
            Code.OFFSET_OUT_OF_RANGE,
            f"{self._partition}: offset {self.position} of [{self.start}, {self.end}) is not "
            f"there; the log holds [{log_start}, {log_end})",
        )

    def _skip_lost(self, refused: Refused) -> Rule[int]:
        """Return the offset behind the records that are gone; the end if no others are there.

        Raises `refused`, the reader's error, if the log has the position all the same.
        """
        try:
            log_start = yield from self._list_offset(EARLIEST)
            if log_start > self.position:
                return log_start
            # An unclean election has truncated the log. What was delivered before is not read
            # again: it would be in this batch twice.
            if (yield from self._list_offset(LATEST)) < self.position:
                return self.end
        except Refused as error:
            # No other error says that there is nothing to read, and this one may come from a leader
            # that has yet to learn of the topic.
            if error.code not in UNKNOWN_TOPIC or (yield from self._topic_exists()):
                raise
            return self.end
        raise refused

    def _topic_exists(self) -> Rule[bool]:
        """Return whether fresh metadata have the topic, and it was not made again."""
        topics = yield from self._look_up(
            lambda: self._cache.topics([self._partition.topic], fresh=True),
            metadata_limit_ms(self._timeouts.request_ms),
        )
        topic = topics.named(self._partition.topic)
        return topic is not None and topic.id == self._partition.topic_id

    def _list_offset(self, timestamp: int) -> Rule[int]:
        listed = yield from self._look_up(
            lambda: list_offsets(self._cache, [self._partition], timestamp),
            self._timeouts.request_ms,
        )
        return listed[self._partition]

    def _look_up(self, look_up: Callable[[], Rule[V]], limit_ms: int) -> Rule[V]:
        """Run a look-up again until a broker answers, as long as a read is tried again."""
        deadline = yield from self._new_deadline()
        while True:
            try:
                return (yield from within(look_up(), limit_ms))
            except Unanswerable as error:
                yield from deadline.pause(error)
