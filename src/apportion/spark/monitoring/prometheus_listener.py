"""A listener of Spark's queries from which Prometheus reads their metrics over HTTP."""

import asyncio
import atexit
import threading
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from apportion.drive.clocks import now
from apportion.node.listeners import Address
from apportion.server.metrics_listener import MetricsListener
from apportion.server.sockets import bind_socket
from apportion.spark.monitoring.query_metrics import (
    FORMATS,
    ObservedQueries,
    QueryMetrics,
    finished_batch,
)

SHOWN = "the names of queries, groups and topics"
LAST_EVENTS_MS = 2_000
"""How long the end of the program waits for events that Spark has begun to deliver."""


class PrometheusListener(StreamingQueryListener):
    """The metrics of a session's queries, at http://HOST:PORT/metrics for Prometheus.

    `spark.streams.addListener(PrometheusListener(port=9405))` before the queries are started. Each
    query with a source of apportion has series from its first event until it ends.
    """

    def __init__(self, *, port: int, host: str = "127.0.0.1") -> None:
        """Listen on an address of the driver's host, until `close` or the end of the process.

        port: 0 for any that is free; `address` tells it. Raises OSError if it cannot be bound.
        """
        # With Spark Connect, addListener sets the session where there is none; a classic session
        # does not.
        self.spark = SparkSession.getActiveSession()
        self._queries, self._lock = ObservedQueries(), threading.Lock()
        bound = bind_socket(host, port)
        self.address = str(Address(host, bound.getsockname()[1]))
        self._metrics_listener = MetricsListener(self._read, FORMATS, SHOWN)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="apportion-spark-metrics", daemon=True
        )
        self._thread.start()
        starting = self._metrics_listener.start(bound)
        asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        atexit.register(self._end_events)

    def close(self) -> None:
        """Stop listening, as `removeListener` alone does not; the queries run on."""
        if not self._loop.is_closed():
            stopping = self._metrics_listener.stop()
            asyncio.run_coroutine_threadsafe(stopping, self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def text(self) -> str:
        """Return what Prometheus would read now, for a file or a push."""
        return FORMATS["/metrics"].write(self._metrics()).decode()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: its progress has the first metrics of a query."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the metrics of a micro-batch that has ended."""
        progress = event.progress
        run_id, name, batch = str(progress.runId), _query_name(progress), finished_batch(progress)
        with self._lock:
            self._queries.record_batch(run_id, name, batch, now().mono_ms)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Take what a query that has nothing to read says of its membership."""
        progress = self._idle_progress(str(event.id), str(event.runId))
        name, found = "", None
        if progress is not None:
            name, found = _query_name(progress), finished_batch(progress)
        with self._lock:
            self._queries.record_idle(str(event.runId), name, found, now().mono_ms)

    def _idle_progress(self, query_id: str, run_id: str) -> StreamingQueryProgress | None:
        """Return the progress of an idle query; None if Spark does not tell it.

        The event has no progress, but the query has a new one just before it.
        """
        try:
            query = None if self.spark is None else self.spark.streams.get(query_id)
            progress = None if query is None else query.lastProgress
        # The query or its session has just ended, and what ends it does not wait for this.
        except (Py4JError, PySparkException):
            return None
        return progress if progress is not None and str(progress.runId) == run_id else None

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget a query that has ended."""
        with self._lock:
            self._queries.remove(str(event.runId))

    def _end_events(self) -> None:
        """Take the last events and no more, as the program ends.

        Spark delivers them some time after a query has ended, on a thread of its Java process. One
        that finds no program any more is an error there, with its stack trace.
        """
        session: Any = self.spark or SparkSession.getActiveSession()
        # Spark Connect's events come to a thread of this process.
        if not hasattr(session, "_jsparkSession") or session.sparkContext._jsc is None:
            return
        # Java may have ended before.
        with suppress(Py4JError, PySparkException, OSError):
            session.streams.removeListener(self)
            session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(LAST_EVENTS_MS)

    async def _read(self) -> QueryMetrics:
        return self._metrics()

    def _metrics(self) -> QueryMetrics:
        with self._lock:
            return self._queries.read(now().mono_ms)


def _query_name(progress: StreamingQueryProgress) -> str:
    """Return the name by which the metrics tell a query from others."""
    return progress.name or str(progress.id)
