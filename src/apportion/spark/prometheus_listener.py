"""A listener of Spark's queries from which Prometheus reads their metrics over HTTP."""

import asyncio
import threading

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
from apportion.spark.query_metrics import (
    FORMATS,
    QueryMetrics,
    RunningQueries,
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
        self._queries, self._lock = RunningQueries(), threading.Lock()
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
        """Note that a query has nothing to read."""
        with self._lock:
            self._queries.record_idle(str(event.runId), now().mono_ms)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget a query that has ended."""
        with self._lock:
            self._queries.remove(str(event.runId))

    async def _read(self) -> QueryMetrics:
        return self._metrics()

    def _metrics(self) -> QueryMetrics:
        with self._lock:
            return self._queries.read(now().mono_ms)
