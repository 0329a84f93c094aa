"""A listener of Spark's queries from which Prometheus reads their metrics over HTTP."""

import asyncio
import threading

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from apportion.drive.clocks import now
from apportion.node.listeners import Address
from apportion.server.metrics_listener import MetricsListener
from apportion.server.sockets import bind_socket
from apportion.spark.monitoring.query_metrics import (
    FORMATS,
    ObservedQueries,
    QueryBatch,
    QueryMetrics,
    finished_batch,
)

SHOWN = "the names of queries, groups and topics"


class PrometheusListener(StreamingQueryListener):
    """The metrics of a session's queries, at http://HOST:PORT/metrics for Prometheus.

    `spark.streams.addListener(PrometheusListener(port=9405))` before the queries are started. Each
    query with a source of apportion has series from its first micro-batch until it ends.
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
        """Do nothing: a query has its first metrics with its first micro-batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the metrics of a micro-batch that has ended."""
        progress = event.progress
        with self._lock:
            self._queries.record_batch(
                str(progress.runId),
                progress.name or str(progress.id),
                finished_batch(progress),
                now().mono_ms,
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Take what a query that has nothing to read says of its membership."""
        found = self._idle_sources(str(event.id), str(event.runId))
        with self._lock:
            self._queries.record_idle(str(event.runId), found, now().mono_ms)

    def _idle_sources(self, query_id: str, run_id: str) -> QueryBatch | None:
        """Return the sources of an idle query; None if Spark does not tell them.

        The event has no progress, but the query has a new one just before it.
        """
        try:
            query = None if self.spark is None else self.spark.streams.get(query_id)
            progress = None if query is None else query.lastProgress
        # The query or its session has just ended, and what ends it does not wait for this.
        except (Py4JError, PySparkException):
            return None
        is_of_run = progress is not None and str(progress.runId) == run_id
        return finished_batch(progress) if progress is not None and is_of_run else None

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget a query that has ended."""
        with self._lock:
            self._queries.remove(str(event.runId))

    async def _read(self) -> QueryMetrics:
        return self._metrics()

    def _metrics(self) -> QueryMetrics:
        with self._lock:
            return self._queries.read(now().mono_ms)
