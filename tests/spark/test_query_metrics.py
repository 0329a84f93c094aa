"""The metrics of Spark queries: what Prometheus reads while queries run, rebalance and end.

The events are those that Spark hands to a listener, made here without Spark.
"""

from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

import apportion.spark.monitoring.prometheus_listener
from apportion.log_bounds import LogBounds
from apportion.machine import Instant
from apportion.member.batch.span import Span
from apportion.server.metric_families import prometheus_text, series_name
from apportion.spark import PrometheusListener
from apportion.spark.monitoring.query_metrics import (
    FAMILIES,
    ObservedQueries,
    QueryBatch,
    finished_batch,
)
from apportion.spark.monitoring.source_report import LogPosition, ReportedMember, SourceReport
from apportion.topics import TopicIdPartition, TopicPartition

FLIGHTS = bytes(15) + b"\x01"
Series = dict[tuple[str, ...], float]


def run(number: int) -> str:
    return str(UUID(int=number))


def span(ranges: dict[int, tuple[int, int]], question_number: int = 0) -> Span:
    partitions = {TopicIdPartition("flights", FLIGHTS, each): ranges[each] for each in ranges}
    return Span("checkpoint", partitions, (), question_number)


def report(positions: dict[int, tuple[int, int]], epoch: int = 1) -> SourceReport:
    """Of logs that begin at 0. positions: the next offset and the end of the log of each."""
    return SourceReport(
        "etl",
        ReportedMember("member-1", epoch, 300_000),
        {
            TopicPartition("flights", each): LogPosition(offset, LogBounds(0, end))
            for each, (offset, end) in positions.items()
        },
    )


def source(end: Any, latest: SourceReport | None, rows: int = 0) -> dict[str, Any]:
    """A source as it is in the progress of a query."""
    return {
        "description": "PythonMicroBatchStreamWithAdmissionControl@1",
        "startOffset": "{}",
        "endOffset": end.to_json() if isinstance(end, Span) else end,
        "latestOffset": None if latest is None else latest.to_json(),
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
    }


def progress(
    number: int, *sources: dict[str, Any], name: str | None = "etl-query", duration_ms: int = 250
) -> QueryProgressEvent:
    facts: dict[str, Any] = {
        "id": run(1000 + number),
        "runId": run(number),
        "name": name,
        "timestamp": "2026-11-26T14:00:00.000Z",
        "batchId": 1,
        "batchDuration": duration_ms,
        "stateOperators": [],
        "sources": sources,
        "sink": {"description": "sink", "numOutputRows": -1},
    }
    return QueryProgressEvent.fromJson({"progress": facts})


def ended(number: int) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(UUID(int=1000 + number), UUID(int=number), None, None)


def series(text: str) -> Series:
    """Every value by its name and the texts of its labels; without the age, which time changes."""
    labels = {series_name(family): family.labels for family in FAMILIES}
    values = {
        (sample.name, *(sample.labels[label] for label in labels[sample.name])): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    ages = [key for key in values if key[0] == "apportion_spark_batch_age_seconds"]
    assert all(0 <= values.pop(key) < 60 for key in ages)
    return values


@pytest.fixture
def listener() -> Iterator[PrometheusListener]:
    listener = PrometheusListener(port=0)
    yield listener
    listener.close()


def test_a_query_has_series_from_its_first_batch_until_it_ends(
    listener: PrometheusListener,
) -> None:
    listener.onQueryStarted(
        QueryStartedEvent(UUID(int=1001), UUID(int=1), "etl-query", "2026-11-26", set())
    )
    assert series(listener.text()) == {}
    batch = source(span({0: (0, 5), 1: (2, 9)}), report({0: (5, 8), 1: (9, 9)}), rows=12)
    listener.onQueryProgress(progress(1, batch))
    listener.onQueryProgress(progress(1, batch, duration_ms=1_500))
    assert series(listener.text()) == {
        ("apportion_spark_batches_total", "etl-query"): 2,
        ("apportion_spark_batch_duration_seconds", "etl-query"): 1.5,
        ("apportion_spark_waiting", "etl-query", "0"): 0,
        ("apportion_spark_rows_total", "etl-query", "0"): 24,
        ("apportion_spark_member_info", "etl-query", "0", "etl", "member-1"): 1,
        ("apportion_spark_member_epoch", "etl-query", "0"): 1,
        ("apportion_spark_assigned_partitions", "etl-query", "0"): 2,
        ("apportion_spark_max_poll_interval_seconds", "etl-query", "0"): 300,
        ("apportion_spark_committed_offset", "etl-query", "0", "flights", "0"): 5,
        ("apportion_spark_committed_offset", "etl-query", "0", "flights", "1"): 9,
        ("apportion_spark_latest_offset", "etl-query", "0", "flights", "0"): 8,
        ("apportion_spark_latest_offset", "etl-query", "0", "flights", "1"): 9,
        ("apportion_spark_lag", "etl-query", "0", "flights", "0"): 3,
        ("apportion_spark_out_of_range", "etl-query", "0", "flights", "0"): 0,
        ("apportion_spark_lag", "etl-query", "0", "flights", "1"): 0,
        ("apportion_spark_out_of_range", "etl-query", "0", "flights", "1"): 0,
    }
    listener.onQueryTerminated(ended(1))
    assert series(listener.text()) == {}


def test_every_family_has_its_help_even_without_a_query(listener: PrometheusListener) -> None:
    text = listener.text()
    assert [family for family in FAMILIES if f"# HELP {series_name(family)} " not in text] == []


def test_a_partition_that_moves_away_takes_its_series_with_it(
    listener: PrometheusListener,
) -> None:
    listener.onQueryProgress(
        progress(1, source(span({0: (0, 5), 1: (0, 5)}), report({0: (5, 5), 1: (5, 5)})))
    )
    listener.onQueryProgress(progress(1, source(span({0: (5, 5)}), report({0: (5, 5)}, epoch=2))))
    values = series(listener.text())
    assert [key for key in values if key[-1] == "1"] == []
    assert values["apportion_spark_assigned_partitions", "etl-query", "0"] == 1
    assert values["apportion_spark_member_epoch", "etl-query", "0"] == 2


def test_a_batch_without_a_report_has_offsets_alone(listener: PrometheusListener) -> None:
    listener.onQueryProgress(progress(1, source(span({0: (0, 5)}), None, rows=5)))
    assert series(listener.text()) == {
        ("apportion_spark_batches_total", "etl-query"): 1,
        ("apportion_spark_batch_duration_seconds", "etl-query"): 0.25,
        ("apportion_spark_rows_total", "etl-query", "0"): 5,
        ("apportion_spark_assigned_partitions", "etl-query", "0"): 1,
        ("apportion_spark_committed_offset", "etl-query", "0", "flights", "0"): 5,
    }


def test_a_source_without_a_membership_has_its_lag_and_no_member(
    listener: PrometheusListener,
) -> None:
    assigned = report({0: (5, 8)})._replace(member=None)
    listener.onQueryProgress(progress(1, source(span({0: (0, 5)}), assigned, rows=5)))
    assert series(listener.text()) == {
        ("apportion_spark_batches_total", "etl-query"): 1,
        ("apportion_spark_batch_duration_seconds", "etl-query"): 0.25,
        ("apportion_spark_waiting", "etl-query", "0"): 0,
        ("apportion_spark_rows_total", "etl-query", "0"): 5,
        ("apportion_spark_member_info", "etl-query", "0", "etl", ""): 1,
        ("apportion_spark_assigned_partitions", "etl-query", "0"): 1,
        ("apportion_spark_committed_offset", "etl-query", "0", "flights", "0"): 5,
        ("apportion_spark_latest_offset", "etl-query", "0", "flights", "0"): 8,
        ("apportion_spark_lag", "etl-query", "0", "flights", "0"): 3,
        ("apportion_spark_out_of_range", "etl-query", "0", "flights", "0"): 0,
    }


def test_a_partition_out_of_range_is_told_from_one_without_lag(
    listener: PrometheusListener,
) -> None:
    lost = report({0: (50, 10), 1: (9, 9)})
    listener.onQueryProgress(progress(1, source(span({0: (40, 50), 1: (2, 9)}), lost)))
    values = series(listener.text())
    assert {key: value for key, value in values.items() if key[-2:-1] == ("flights",)} == {
        ("apportion_spark_committed_offset", "etl-query", "0", "flights", "0"): 50,
        ("apportion_spark_committed_offset", "etl-query", "0", "flights", "1"): 9,
        ("apportion_spark_latest_offset", "etl-query", "0", "flights", "0"): 10,
        ("apportion_spark_latest_offset", "etl-query", "0", "flights", "1"): 9,
        ("apportion_spark_lag", "etl-query", "0", "flights", "1"): 0,
        ("apportion_spark_out_of_range", "etl-query", "0", "flights", "0"): 1,
        ("apportion_spark_out_of_range", "etl-query", "0", "flights", "1"): 0,
    }


def test_a_query_that_waits_says_so_until_it_reads(listener: PrometheusListener) -> None:
    waiting = source(span({0: (0, 5)}), report({0: (5, 5)}))
    waiting["latestOffset"] |= {"waitsFor": "no connection to the broker"}
    listener.onQueryProgress(progress(1, waiting))
    assert series(listener.text())["apportion_spark_waiting", "etl-query", "0"] == 1
    listener.onQueryProgress(progress(1, source(span({0: (5, 5)}), report({0: (5, 5)}))))
    assert series(listener.text())["apportion_spark_waiting", "etl-query", "0"] == 0


def test_a_query_that_waits_from_its_start_has_series_without_a_batch() -> None:
    waiting = source(span({0: (0, 5)}), None) | {"latestOffset": '{"waitsFor":"no connection"}'}
    queries = ObservedQueries()
    queries.record_idle("run", "etl-query", finished_batch(progress(1, waiting).progress), 0)
    assert series(prometheus_text(FAMILIES, queries.read(0)).decode()) == {
        ("apportion_spark_batches_total", "etl-query"): 0,
        ("apportion_spark_waiting", "etl-query", "0"): 1,
        ("apportion_spark_rows_total", "etl-query", "0"): 0,
        ("apportion_spark_assigned_partitions", "etl-query", "0"): 1,
        ("apportion_spark_committed_offset", "etl-query", "0", "flights", "0"): 5,
    }


def test_offsets_are_read_from_the_text_of_a_dictionary_of_older_releases(
    listener: PrometheusListener,
) -> None:
    listener.onQueryProgress(progress(1, source(str(span({0: (0, 5)}).to_json()), None, rows=5)))
    values = series(listener.text())
    assert values["apportion_spark_committed_offset", "etl-query", "0", "flights", "0"] == 5


def test_a_query_that_asks_its_writers_has_no_assigned_partitions_yet(
    listener: PrometheusListener,
) -> None:
    question = source(span({0: (5, 5)}, question_number=1), None)
    listener.onQueryProgress(progress(1, question))
    assert not [key for key in series(listener.text()) if "assigned_partitions" in key[0]]


def test_queries_and_sources_of_others_have_no_series(listener: PrometheusListener) -> None:
    kafka = source('{"flights":{"0":7}}', None, rows=7)
    rate = source("42", None, rows=42)
    listener.onQueryProgress(progress(1, kafka, rate, name="others"))
    assert series(listener.text()) == {}
    listener.onQueryProgress(progress(2, kafka, source(span({}), report({})), name=None))
    values = series(listener.text())
    # Without a name it is the query's id.
    assert {key[1:] for key in values} == {
        (run(1002),),
        (run(1002), "1"),
        (run(1002), "1", "etl", "member-1"),
    }


def test_nothing_is_kept_of_runs_whose_end_was_not_told(listener: PrometheusListener) -> None:
    first = source(span({0: (0, 5)}), report({0: (5, 5)}), rows=5)
    for number in range(100):
        listener.onQueryProgress(progress(number, first))
    values = series(listener.text())
    assert len(values) == 12
    # The run that is the query's now counts anew, and the end of an earlier one is not its own.
    assert values["apportion_spark_batches_total", "etl-query"] == 1
    listener.onQueryTerminated(ended(98))
    assert series(listener.text()) == values


def test_an_idle_query_keeps_its_batch_and_has_new_reports() -> None:
    def batch(epoch: int, rows: int = 0, duration_ms: int = 250) -> QueryBatch:
        its_source = source(span({0: (0, 5)}), report({0: (5, 5)}, epoch), rows=rows)
        return finished_batch(progress(1, its_source, duration_ms=duration_ms).progress)

    queries = ObservedQueries()
    queries.record_batch("run", "etl-query", batch(1, rows=5), 1_000)
    before = series(prometheus_text(FAMILIES, queries.read(1_000)).decode())
    queries.record_idle("run", "etl-query", batch(2, duration_ms=3), 2_000)
    after = series(prometheus_text(FAMILIES, queries.read(2_000)).decode())
    assert after == before | {("apportion_spark_member_epoch", "etl-query", "0"): 2}
    queries.record_idle("run", "", None, 3_000)
    assert series(prometheus_text(FAMILIES, queries.read(3_000)).decode()) == after


def ages(listener: PrometheusListener) -> list[float]:
    return [
        sample.value
        for family in text_string_to_metric_families(listener.text())
        for sample in family.samples
        if sample.name == "apportion_spark_batch_age_seconds"
    ]


def test_the_age_of_the_batch_begins_anew_with_each_event(
    listener: PrometheusListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_ms = [1_000]
    monkeypatch.setattr(
        apportion.spark.monitoring.prometheus_listener, "now", lambda: Instant(clock_ms[-1], 0)
    )
    listener.onQueryIdle(QueryIdleEvent(UUID(int=1001), UUID(int=1), "2026-11-26"))
    assert ages(listener) == []
    listener.onQueryProgress(progress(1, source(span({0: (0, 5)}), report({0: (5, 5)}))))
    clock_ms.append(8_500)
    assert ages(listener) == [7.5]
    listener.onQueryIdle(QueryIdleEvent(UUID(int=1001), UUID(int=1), "2026-11-26"))
    assert ages(listener) == [0]


def read(address: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection(address, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_prometheus_reads_the_text_over_http_until_the_listener_is_closed() -> None:
    listener = PrometheusListener(port=0)
    host, port = listener.address.split(":")
    assert host == "127.0.0.1"
    listener.onQueryProgress(progress(1, source(span({0: (0, 5)}), report({0: (5, 8)}))))
    status, text = read(listener.address, "/metrics")
    assert (status, series(text)) == (200, series(listener.text()))
    assert read(listener.address, "/") == (404, "There is only /metrics.\n")
    with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
        PrometheusListener(port=int(port))
    listener.close()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        read(listener.address, "/metrics")


def test_metrics_that_other_hosts_can_read_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    PrometheusListener(port=0, host="0.0.0.0").close()
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        "metrics are reachable from other machines, without TLS, login or ACLs: any client that "
        "connects may read the names of queries, groups and topics (docs/security.md)"
    ]
