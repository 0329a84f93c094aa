"""`apportion.spark.stop(query)`: a query finishes its batch, commits it, and leaves its group.

Spark's own `query.stop()` interrupts the batch, whose records are then read again, and leaves the
batch before it uncommitted in the group. Here the source is asked first to plan no further batch
(`processes/stop_requests.py`). Then one of two things happens:

- Spark asks the source for the next batch. So the last one is in the sink: the source commits it,
  leaves the group, and says so.
- No batch runs, as the query waits for its next trigger, which may be hours away. Then the driver
  says which batch Spark has committed last, and ends the query; the source commits that batch and
  leaves as its process ends.

Both end with `query.stop()`, which interrupts nothing.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from pyspark.errors import StreamingQueryException

from apportion.member.batch.span import Span, SpanError, parse_span
from apportion.spark.monitoring.log_lines import log_like_spark, rebalance_log
from apportion.spark.processes import stop_requests
from apportion.spark.processes.stop_requests import StopAnswer, StopRequest
from apportion.spark.queries.checkpoints import warn_of_query
from apportion.spark.queries.spark_query import SparkQuery
from apportion.spark.versions import offset_value

STOP_TIMEOUT_S = 300.0  # as kafka.max.poll.interval.ms: a longer batch has lost its partitions
LEAVE_TIMEOUT_S = 10.0  # for a commit and a leave, each with its retries
POLL_INTERVAL_S = 0.05

log = logging.getLogger("apportion.spark")


def stop(*queries: SparkQuery, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop Spark queries in order: finish the batch that runs, commit it to the group, and leave.

    timeout_s: how long a batch may still take; a longer one is interrupted, as by `query.stop()`,
    and its records are read again. Interrupted itself, as by Ctrl-C, it lets the queries go on.

    Returns whether every query ended in order. One that has ended before did, unless it failed.
    """
    log_like_spark()
    for query in queries:
        warn_of_query(query)
    return stop_in_time(queries, lambda: False, timeout_s)


def stop_in_time(
    queries: Sequence[SparkQuery], is_urgent: Callable[[], bool], timeout_s: float
) -> bool:
    """Stop the queries as `stop` does; once `is_urgent`, wait for no batch any more."""
    deadline_s = monotonic() + timeout_s
    stopping = [StoppingQuery(query) for query in queries]
    try:
        waiting = stopping
        while True:
            for each in waiting:
                each.ask()
            # After the request: a batch that began before it shows in the status, and one that
            # would begin after it has nothing to read.
            waiting = [each for each in waiting if not each.is_at_rest()]
            if not waiting or is_urgent() or monotonic() > deadline_s:
                break
            await_end([each.query for each in waiting], POLL_INTERVAL_S)
        for each in waiting:
            log.warning(
                "%s: the batch that runs %s: it is interrupted, and its records are read again",
                each.name,
                "is not waited for" if is_urgent() else f"was not finished in {timeout_s:g} s",
            )
        for each in stopping:
            each.end()
        for each in stopping:
            each.await_answers(is_urgent)
        results = [each.has_ended_in_order() for each in stopping]
    finally:
        for each in stopping:
            each.take_back()
    return all(results) and not waiting


def await_end(queries: Sequence[SparkQuery], timeout_s: float) -> None:
    """Wait for the end of the first query that runs, for `timeout_s` at the most.

    The end of a batch is no event of Spark's: who waits for that looks again after this.
    """
    timeout: Any = timeout_s  # PySpark's annotation wants an int, its code takes a float
    for query in queries:
        if query.isActive:
            # A failure is read afterwards, from the query.
            with suppress(StreamingQueryException):
                query.awaitTermination(timeout)
            return


class StoppingQuery:
    """One query on its way from running to stopped.

    name: the query's own name, or else its id.
    """

    def __init__(self, query: SparkQuery) -> None:
        self.query = query
        self._asked: set[str] = set()  # ids of the checkpoints whose sources were asked
        self._cannot_ask = False
        self.name = f"query {query.name or query.id}"

    def ask(self) -> None:
        """Ask each source that is known by now to plan no further batch."""
        if not self.query.isActive:
            return
        try:
            self._write_requests()
        except OSError as error:
            if not self._cannot_ask:
                self._cannot_ask = True
                log.warning(
                    "%s: its source cannot be asked to commit its last batch: let TMPDIR name a "
                    "directory where this user may write, the same for the driver and its Java "
                    "process (%s)",
                    self.name,
                    error,
                )

    def is_at_rest(self) -> bool:
        """Return whether no batch runs, and none will."""
        if not self.query.isActive:
            return True
        if self._asked and all(map(stop_requests.answer_or_none, sorted(self._asked))):
            return True
        status = self.query.status
        if self._asked:
            return not status["isTriggerActive"]
        # Its sources have no id yet, so this run has planned no batch, or is at its first one; or
        # they cannot be asked, and the moment between two batches is as good as any.
        return not (status["isTriggerActive"] and status["isDataAvailable"])

    def end(self) -> None:
        """Let Spark end the query."""
        if self.query.isActive:
            # Once more, as the request now says which batch was committed last.
            self.ask()
            self.query.stop()

    def await_answers(self, is_urgent: Callable[[], bool]) -> None:
        """Wait until the sources have said what they did; log what is missing."""
        deadline_s = monotonic() + LEAVE_TIMEOUT_S
        while None in (answers := self._answers()):
            if is_urgent() or monotonic() > deadline_s:
                log.warning("%s: its source has not said that it left the group", self.name)
                break
            # Spark's awaitTermination knows no more: the query has ended, and its source writes a
            # file in a process of its own. Nothing of Python's library waits for a file.
            sleep(POLL_INTERVAL_S)
        if any(answer is not None and not answer.is_committed for answer in answers):
            log.warning(
                "%s: its last batch is not committed to the group, so it is read again", self.name
            )
        for line in dict.fromkeys(answer.line for answer in answers if answer is not None):
            if line:
                rebalance_log.info("%s", line)

    def has_ended_in_order(self) -> bool:
        """Return whether the sources have committed the last batch and left."""
        in_order = all(answer is not None and answer.is_in_order for answer in self._answers())
        return in_order and not self._cannot_ask and self.query.exception() is None

    def take_back(self) -> None:
        """Remove the requests: a query that was not ended goes on."""
        for each in sorted(self._asked):
            stop_requests.delete_both(each)

    def _answers(self) -> list[StopAnswer | None]:
        return [stop_requests.answer_or_none(each) for each in sorted(self._asked)]

    def _write_requests(self) -> None:
        """Write what is to be asked of each source, and keep it fresh. Raises OSError."""
        requests = {each: StopRequest() for each in planned_checkpoints(self.query)}
        requests |= {span.id: StopRequest(span) for span in committed_spans(self.query)}
        for checkpoint_id, request in requests.items():
            if checkpoint_id not in self._asked:
                # A source that was slow to end may have answered when nobody listened any more.
                stop_requests.delete_both(checkpoint_id)
            # Looked at each time: a source that starts removes what it finds.
            if stop_requests.request_or_none(checkpoint_id) == request:
                stop_requests.refresh_request(checkpoint_id)
            else:
                stop_requests.write_request(checkpoint_id, request)
            self._asked.add(checkpoint_id)


def committed_spans(query: SparkQuery) -> list[Span]:
    """Return the spans of the last batch that Spark has committed in this run of the query."""
    progress = query.lastProgress
    offsets = [] if progress is None else [source.endOffset for source in progress.sources]
    return list(_spans(offsets))


def planned_checkpoints(query: SparkQuery) -> list[str]:
    """Return the checkpoint ids of the query's sources, which Spark Connect does not tell.

    They are known before the first batch of this run is finished, unlike `committed_spans`.
    """
    java_query = getattr(query, "_jsq", None)
    if java_query is None:
        return []
    values = java_query.streamingQuery().availableOffsets().values().iterator()
    offsets = []
    while values.hasNext():
        offsets.append(values.next().json())
    return [span.id for span in _spans(offsets)]


def _spans(offsets: Iterable[str | None]) -> Iterator[Span]:
    """Yield those of the offsets that are spans with an id: a query may have other sources."""
    for offset in offsets:
        with suppress(SpanError):
            span = parse_span(offset_value(offset or ""))
            if span.id:
                yield span
