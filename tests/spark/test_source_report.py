"""What the source of a query reports to Spark, and what is read from a query's progress."""

import json
from typing import Any

import pytest

from apportion.log_bounds import LogBounds
from apportion.spark.monitoring.source_report import (
    LogPosition,
    ReportedMember,
    SourceReport,
    is_waiting,
    parse_report,
)
from apportion.topics import TopicPartition

REPORT = SourceReport(
    "etl",
    ReportedMember("member-1", 4, 300_000),
    {
        TopicPartition("flights", 10): LogPosition(7, LogBounds(0, 7)),
        TopicPartition("flights", 2): LogPosition(10, LogBounds(4, 15)),
        TopicPartition("events", 0): LogPosition(9, LogBounds(0, 3)),
        TopicPartition("events", 1): LogPosition(2, LogBounds(8, 10)),
    },
)


def test_a_report_has_the_membership_and_the_lag_of_each_partition() -> None:
    assert REPORT.to_json() == {
        "group": "etl",
        "memberId": "member-1",
        "memberEpoch": 4,
        "maxPollIntervalMs": 300_000,
        "assignedPartitions": 4,
        "metrics": {
            "partitionsOutOfRange": "2",
            "avgOffsetsBehindLatest": "2.5",
            "maxOffsetsBehindLatest": "5",
            "minOffsetsBehindLatest": "0",
        },
        "topics": {
            # Of these the log was truncated below what the query has read, or retention has
            # deleted what it had still to read.
            "events": {
                "0": {"next": 9, "start": 0, "latest": 3, "lag": None, "outOfRange": "after-end"},
                "1": {
                    "next": 2,
                    "start": 8,
                    "latest": 10,
                    "lag": None,
                    "outOfRange": "before-start",
                },
            },
            "flights": {
                "2": {"next": 10, "start": 4, "latest": 15, "lag": 5},
                "10": {"next": 7, "start": 0, "latest": 7, "lag": 0},
            },
        },
    }


def test_a_report_without_partitions_has_no_metrics() -> None:
    idle = REPORT._replace(positions={}).to_json()
    assert (idle["assignedPartitions"], idle["metrics"], idle["topics"]) == (0, {}, {})


def test_a_report_of_partitions_out_of_range_has_no_lags() -> None:
    lost = REPORT._replace(positions={TopicPartition("t", 0): LogPosition(9, LogBounds(0, 3))})
    assert lost.to_json()["metrics"] == {"partitionsOutOfRange": "1"}
    assert parse_report(lost.to_json()) == lost


def test_a_report_without_a_membership_has_no_member_and_is_read_back() -> None:
    assigned = SourceReport(
        "etl", None, {TopicPartition("flights", 2): LogPosition(10, LogBounds(4, 15))}
    )
    assert assigned.to_json() == {
        "group": "etl",
        "assignedPartitions": 1,
        "metrics": {
            "partitionsOutOfRange": "0",
            "avgOffsetsBehindLatest": "5.0",
            "maxOffsetsBehindLatest": "5",
            "minOffsetsBehindLatest": "5",
        },
        "topics": {"flights": {"2": {"next": 10, "start": 4, "latest": 15, "lag": 5}}},
    }
    assert parse_report(json.dumps(assigned.to_json())) == assigned


def test_a_report_is_read_back_from_a_progress() -> None:
    assert parse_report(json.dumps(REPORT.to_json())) == REPORT
    assert parse_report(REPORT.to_json()) == REPORT


@pytest.mark.parametrize(
    "other",
    [
        None,
        "",
        "7",
        "null",
        '{"flights":{"0":7}}',
        '{"group":"etl"}',
        {**REPORT.to_json(), "topics": {"flights": 7}},
        {**REPORT.to_json(), "topics": {"flights": {"0": 7}}},
        {**REPORT.to_json(), "topics": {"flights": {"x": {"next": 1, "start": 0, "latest": 2}}}},
    ],
)
def test_the_latest_offset_of_another_source_is_no_report(other: Any) -> None:
    assert parse_report(other) is None
    assert is_waiting(other) is None


def test_a_source_waits_if_its_latest_offset_says_what_for() -> None:
    reading = REPORT.to_json()
    assert is_waiting(json.dumps(reading)) is False
    assert is_waiting(json.dumps(reading | {"waitsFor": "no connection"})) is True
    assert is_waiting('{"waitsFor":"no connection"}') is True
    # The latest offset of Spark's own source for a topic of that name.
    assert is_waiting('{"waitsFor":{"0":7}}') is None
