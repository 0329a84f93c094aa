"""`apportion.spark.run(query)`: run queries until a signal, and stop them in order.

A program that has started its queries ends with `sys.exit(run(query))`. On SIGTERM, as Docker,
Kubernetes and systemd send it, and on Ctrl-C the queries are stopped as by `stopping.stop`.
"""

import logging
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from apportion.spark.monitoring.log_lines import log_like_spark
from apportion.spark.processes.plain_errors import reason_of
from apportion.spark.queries.checkpoints import warn_of_query
from apportion.spark.queries.java_shutdown import JavaShutdown
from apportion.spark.queries.spark_query import SparkQuery
from apportion.spark.queries.stopping import await_end, stop_in_time

RUN_TIMEOUT_S = 25.0  # Kubernetes kills what still runs 30 s after SIGTERM, unless it is told else
POLL_INTERVAL_S = 0.2
STDERR = 2  # the file descriptor
STOPPED, FAILED, KILLED = 0, 1, 128  # exit codes; the number of the signal is added to the last

OWN_CHECKPOINT = (
    "Another query runs with this checkpoint: give each application a checkpointLocation of its "
    "own, and all of them the same group and table"
)

log = logging.getLogger("apportion.spark")


def run(*queries: SparkQuery, timeout_s: float = RUN_TIMEOUT_S) -> int:
    """Wait until SIGTERM or Ctrl-C, or until the queries end; return the program's exit code.

    At the signal the queries are stopped in order: the batch that runs is finished, for up to
    `timeout_s`, and committed, and the query leaves its group. A second signal stops them at once,
    and a third ends the program. If one query fails, the others are stopped in order.

    Returns 0 if every query ended in order, 1 if one failed or a batch took longer, and 128 and the
    number of the signal after a second signal. Raises ValueError outside of the main thread, which
    alone gets signals; use `stop` there.
    """
    if not queries:
        raise ValueError("run() needs a query: give what writeStream...start() returned")
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(
            "run() must be called in the main thread, which alone gets signals: call "
            "apportion.spark.stop(query) in another thread"
        )
    log_like_spark()
    for query in queries:
        warn_of_query(query)
    try:
        return _run(queries, timeout_s)
    except (Py4JNetworkError, ConnectionError):
        log.error("Spark's Java process has ended, and the queries with it")
        return FAILED
    except PySparkException as error:
        if any(hasattr(query, "_jsq") for query in queries):
            raise
        # Of a server that is gone gRPC tells in several lines.
        reason = " ".join(str(error).split())
        log.error("Spark Connect does not tell of the queries any more: %s", reason)
        return FAILED


def _run(queries: Sequence[SparkQuery], timeout_s: float) -> int:
    """Wait until the queries end or are to end, stop them, and return the exit code."""
    with StopSignals(timeout_s) as signals, JavaShutdown(timeout_s) as shutdown:
        while not (signals.numbers or shutdown.has_begun or _failed(queries)):
            if not any(query.isActive for query in queries):
                break
            await_end(queries, POLL_INTERVAL_S)
        if shutdown.has_begun and not signals.numbers:
            log.warning(
                "Spark's Java process is told to end: the batch that runs is finished first, for "
                "up to %g s",
                timeout_s,
            )
        in_order = stop_in_time(queries, lambda: len(signals.numbers) > 1, timeout_s)
        # Within the block, behind which a Java process that was told to end is gone. And last,
        # where it is seen: Spark has printed its own report before.
        failed = _failed(queries)
        for query in failed:
            text = advised(reason_of(str(query.exception())))
            log.error("query %s has failed: %s", query.name or query.id, text)
    if failed:
        return FAILED
    if len(signals.numbers) > 1:
        return KILLED + signals.numbers[1]
    if in_order and signals.numbers:
        # The source has a line of its own, but its process may end before anybody reads that.
        with suppress(OSError):
            os.write(STDERR, b"stopped: the last batch is committed, and the group is left\n")
    return STOPPED if in_order else FAILED


def advised(reason: str) -> str:
    """Return why a query has failed, and what to do where only Spark's words say why."""
    if "[CONCURRENT_STREAM_LOG_UPDATE]" in reason:
        return f"{reason.rstrip('.')}. {OWN_CHECKPOINT}"
    return reason


def _failed(queries: Sequence[SparkQuery]) -> list[SparkQuery]:
    """Return the queries that have ended with an error."""
    return [query for query in queries if not query.isActive and query.exception() is not None]


class StopSignals:
    """SIGTERM and SIGINT while `run` waits, in place of the program's handlers.

    PySpark's own handler of SIGINT would cancel the batch.

    numbers: the signals that came, in their order.
    """

    def __init__(self, timeout_s: float) -> None:
        self.numbers: list[int] = []
        self._timeout_s = timeout_s
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handlers[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.numbers.append(number)
        if len(self.numbers) > 2:
            # A client of Spark Connect that has lost its server asks it for ten minutes, and
            # returns to nobody meanwhile.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        if len(self.numbers) == 1:
            # Not by logging: its lock may be held by the code that the signal interrupts.
            text = f"the batch that runs is finished first, for up to {self._timeout_s:g} s"
            remedy = f"{name} again stops at once"
        else:
            text, remedy = "stops at once", "the batch that runs is read again"
        # Nor by print: the file sys.stderr allows no write within another one.
        with suppress(OSError):
            os.write(STDERR, f"{name}: {text}; {remedy}\n".encode())
