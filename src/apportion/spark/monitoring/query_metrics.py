"""The metrics of Spark queries, as Prometheus reads them, from the progress of their batches.

FAMILIES is the one list of what there is; docs/spark-metrics.md prints it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from apportion.member.batch.span import Span, SpanError, parse_span
from apportion.server.metric_families import CONTENT_TYPE, Family, Samples, prometheus_text
from apportion.server.metrics_listener import MetricsFormat
from apportion.spark.monitoring.source_report import (
    LogPosition,
    ReportedMember,
    SourceReport,
    is_waiting,
    parse_report,
)
from apportion.spark.versions import offset_value
from apportion.topics import TopicPartition

QUERY_LABELS = ("query",)
SOURCE_LABELS = ("query", "source")
PARTITION_LABELS = (*SOURCE_LABELS, "topic", "partition")


class SourceBatch(NamedTuple):
    """The part of a micro-batch that one source of a query has read.

    source: its place among the query's sources, from 0 on. rows: as Spark counts them.
    report: None where Spark shows none (`source_report.py`). is_waiting: the same.
    """

    source: int
    span: Span
    rows: int
    report: SourceReport | None
    is_waiting: bool | None

    @property
    def assigned_partitions(self) -> int | None:
        """The number of its member's partitions; None while it asks whether it may join."""
        if self.report is not None:
            return len(self.report.positions)
        return None if self.span.question_number else len(self.span.ranges)


class QueryBatch(NamedTuple):
    """A micro-batch that a query has finished. sources: those of apportion."""

    duration_ms: int
    sources: tuple[SourceBatch, ...]


def finished_batch(progress: Mapping[str, Any]) -> QueryBatch:
    """Return the micro-batch of a StreamingQueryProgress."""
    sources = (
        SourceBatch(number, span, source["numInputRows"], parse_report(latest), is_waiting(latest))
        for number, source in enumerate(progress["sources"])
        for latest in [source["latestOffset"]]
        if (span := _span_or_none(source["endOffset"])) is not None
    )
    return QueryBatch(progress["batchDuration"], tuple(sources))


def _span_or_none(end_offset: Any) -> Span | None:
    """Return the span of a source's end offset; None if it is one of another kind of source."""
    try:
        return parse_span(offset_value(end_offset) if isinstance(end_offset, str) else end_offset)
    except SpanError:
        return None


class ObservedQuery(NamedTuple):
    """A query as of its last event.

    batches, rows: since the first event; rows by source. last: its last micro-batch, with its
    sources as they are since. seen_ms: when it last finished a batch or had nothing to read
    (monotonic).
    """

    name: str
    batches: int
    rows: Mapping[int, int]
    last: QueryBatch
    seen_ms: int


class ObservedQueries:
    """The queries with a source of apportion that run now, by their run id."""

    def __init__(self) -> None:
        self._queries: dict[str, ObservedQuery] = {}

    def record_batch(self, run_id: str, name: str, batch: QueryBatch, at_ms: int) -> None:
        """Record a micro-batch. name: of the query, or its id, unless another one runs with it."""
        if not batch.sources:
            return
        before = self._queries.get(run_id) or self._begin(name, batch, at_ms)
        rows = {each.source: before.rows.get(each.source, 0) + each.rows for each in batch.sources}
        self._queries[run_id] = ObservedQuery(before.name, before.batches + 1, rows, batch, at_ms)

    def record_idle(self, run_id: str, name: str, found: QueryBatch | None, at_ms: int) -> None:
        """Record that a query has found nothing to read, as one that waits does from its start.

        name: as for a batch. found: its sources as they are now, if that is known.
        """
        if found is None or not found.sources:
            query = self._queries.get(run_id)
            if query is not None:
                self._queries[run_id] = query._replace(seen_ms=at_ms)
            return
        query = self._queries.get(run_id) or self._begin(name, found, at_ms)
        last = query.last._replace(sources=found.sources)
        self._queries[run_id] = query._replace(last=last, seen_ms=at_ms)

    def _begin(self, name: str, batch: QueryBatch, at_ms: int) -> ObservedQuery:
        """Return a query that is seen for the first time."""
        # Prometheus refuses two values of one series. A name is free again when its query has
        # ended, so another run with it is one whose end nobody has told.
        self._queries = {
            other: query for other, query in self._queries.items() if query.name != name
        }
        return ObservedQuery(name, 0, {}, batch, at_ms)

    def remove(self, run_id: str) -> None:
        """Forget a query, which has ended."""
        self._queries.pop(run_id, None)

    def read(self, now_ms: int) -> "QueryMetrics":
        """Return the metrics of all of them, as of now (monotonic ms)."""
        return QueryMetrics(
            tuple(sorted(self._queries.values(), key=lambda query: query.name)), now_ms
        )


class QueryMetrics(NamedTuple):
    """The queries that run, and when they were read (monotonic ms)."""

    queries: tuple[ObservedQuery, ...]
    read_at_ms: int


def _of_queries(
    value: Callable[[ObservedQuery, QueryMetrics], float | None],
) -> Callable[[QueryMetrics], Samples]:
    """Return what reads one value of each query, but not of those for which it is None."""

    def samples(metrics: QueryMetrics) -> Samples:
        for query in metrics.queries:
            found = value(query, metrics)
            if found is not None:
                yield (query.name,), found

    return samples


def _of_sources(
    value: Callable[[SourceBatch, ObservedQuery], float | None],
) -> Callable[[QueryMetrics], Samples]:
    """Return what reads one value of each source, but not of those for which it is None."""

    def samples(metrics: QueryMetrics) -> Samples:
        for query, batch in _sources(metrics):
            found = value(batch, query)
            if found is not None:
                yield (query.name, str(batch.source)), found

    return samples


def _of_members(value: Callable[[ReportedMember], float]) -> Callable[[QueryMetrics], Samples]:
    """Return what reads one value of each source that has reported a member."""

    def value_or_none(batch: SourceBatch, _query: ObservedQuery) -> float | None:
        member = None if batch.report is None else batch.report.member
        return None if member is None else value(member)

    return _of_sources(value_or_none)


def _of_positions(
    value: Callable[[LogPosition], int | None],
) -> Callable[[QueryMetrics], Samples]:
    """Return what reads one value of each partition in the sources' reports, unless it is None."""

    def samples(metrics: QueryMetrics) -> Samples:
        for query, batch in _sources(metrics):
            positions = {} if batch.report is None else batch.report.positions
            for partition, position in positions.items():
                found = value(position)
                if found is not None:
                    yield _partition_labels(query, batch, partition), found

    return samples


def _sources(metrics: QueryMetrics) -> Iterable[tuple[ObservedQuery, SourceBatch]]:
    return ((query, batch) for query in metrics.queries for batch in query.last.sources)


def _partition_labels(
    query: ObservedQuery, batch: SourceBatch, partition: TopicPartition
) -> tuple[str, ...]:
    return query.name, str(batch.source), partition.topic, str(partition.partition)


def _member_info(metrics: QueryMetrics) -> Samples:
    for query, batch in _sources(metrics):
        if batch.report is not None:
            # Without a member too: by the group's name its lag is joined with others'.
            group, member = batch.report.group_id, batch.report.member
            member_id = "" if member is None else member.id
            yield (query.name, str(batch.source), group, member_id), 1


def _committed_offsets(metrics: QueryMetrics) -> Samples:
    """Return where the next batch begins, by the batch itself, which needs no report."""
    for query, batch in _sources(metrics):
        for partition, to in batch.span.end_offsets().items():
            yield _partition_labels(query, batch, partition.topic_partition), to


FAMILIES: tuple[Family[QueryMetrics], ...] = (
    Family(
        "apportion_spark_batches",
        True,
        QUERY_LABELS,
        "Micro-batches that the query has finished.",
        _of_queries(lambda query, _metrics: query.batches),
    ),
    Family(
        "apportion_spark_batch_duration_seconds",
        False,
        QUERY_LABELS,
        "How long the last micro-batch took, from its trigger to its commit in the checkpoint.",
        # A query that waits from its start has finished none.
        _of_queries(
            lambda query, _metrics: query.last.duration_ms / 1000 if query.batches else None
        ),
    ),
    Family(
        "apportion_spark_batch_age_seconds",
        False,
        QUERY_LABELS,
        "Seconds since the query last finished a micro-batch or had nothing to read: at least the "
        "age of the batch that runs.",
        _of_queries(lambda query, metrics: (metrics.read_at_ms - query.seen_ms) / 1000),
    ),
    Family(
        "apportion_spark_waiting",
        False,
        SOURCE_LABELS,
        "1 while the source waits, for a broker or a topic say, and 0 while it reads; `waitsFor` "
        "in the progress says what for.",
        _of_sources(lambda batch, _query: batch.is_waiting),
    ),
    Family(
        "apportion_spark_rows",
        True,
        SOURCE_LABELS,
        "Rows that the source has read, as Spark counts them: again for each time that a batch "
        "is read.",
        _of_sources(lambda batch, query: query.rows.get(batch.source, 0)),
    ),
    Family(
        "apportion_spark_member_info",
        False,
        (*SOURCE_LABELS, "group", "member"),
        "1, with the group and the id of the member that the source is; without an id where "
        "`assign` gives the partitions.",
        _member_info,
    ),
    Family(
        "apportion_spark_member_epoch",
        False,
        SOURCE_LABELS,
        "The member epoch; in a classic group the generation.",
        _of_members(lambda member: member.epoch),
    ),
    Family(
        "apportion_spark_assigned_partitions",
        False,
        SOURCE_LABELS,
        "Partitions that the member has.",
        _of_sources(lambda batch, _query: batch.assigned_partitions),
    ),
    Family(
        "apportion_spark_max_poll_interval_seconds",
        False,
        SOURCE_LABELS,
        "How long a micro-batch may take before the member loses its partitions "
        "(`kafka.max.poll.interval.ms`).",
        _of_members(lambda member: member.max_poll_interval_ms / 1000),
    ),
    Family(
        "apportion_spark_committed_offset",
        False,
        PARTITION_LABELS,
        "The offset at which the next micro-batch begins: everything below is in the sink. The "
        "group's committed offset follows with the next trigger.",
        _committed_offsets,
    ),
    Family(
        "apportion_spark_latest_offset",
        False,
        PARTITION_LABELS,
        "The end of the partition's log when the last micro-batch was planned.",
        _of_positions(lambda position: position.log.end),
    ),
    Family(
        "apportion_spark_lag",
        False,
        PARTITION_LABELS,
        "The latest offset less the committed one; no series while that is out of range.",
        _of_positions(lambda position: position.log.lag(position.next)),
    ),
    Family(
        "apportion_spark_out_of_range",
        False,
        PARTITION_LABELS,
        "1 while the committed offset is outside of the partition's log, so that there is no lag: "
        "its records were deleted, or the log was truncated below it. Else 0.",
        _of_positions(lambda each: int(each.log.out_of_range(each.next) is not None)),
    ),
)

FORMATS: dict[str, MetricsFormat[QueryMetrics]] = {
    "/metrics": MetricsFormat(CONTENT_TYPE, lambda metrics: prometheus_text(FAMILIES, metrics)),
}
"""The formats of the metrics of Spark queries, by path."""
