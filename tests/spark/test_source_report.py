"""What the source of a query reports to Spark, and what is read from a query's progress."""

import json
from typing import Any

import pytest

from apportion.spark.monitoring.source_report import (
    LogPosition,
    ReportedMember,
    SourceReport,
    parse_report,
)
from apportion.topics import TopicPartition

REPORT = SourceReport(
    "etl",
    ReportedMember("member-1", 4, 300_000),
    {
        TopicPartition("flights", 10): LogPosition(7, 7),
        TopicPartition("flights", 2): LogPosition(10, 15),
        TopicPartition("events", 0): LogPosition(9, 3),
    },
)


def test_a_report_has_the_membership_and_the_lag_of_each_partition() -> None:
    assert REPORT.to_json() == {
        "group": "etl",
        "memberId": "member-1",
        "memberEpoch": 4,
        "maxPollIntervalMs": 300_000,
        "assignedPartitions": 3,
        "metrics": {
            "avgOffsetsBehindLatest": "1.6666666666666667",
            "maxOffsetsBehindLatest": "5",
            "minOffsetsBehindLatest": "0",
        },
        "topics": {
            # The log of this one was cut below what the query has read.
            "events": {"0": {"next": 9, "latest": 3, "lag": 0}},
            "flights": {
                "2": {"next": 10, "latest": 15, "lag": 5},
                "10": {"next": 7, "latest": 7, "lag": 0},
            },
        },
    }


def test_a_report_without_partitions_has_no_metrics() -> None:
    idle = REPORT._replace(positions={}).to_json()
    assert (idle["assignedPartitions"], idle["metrics"], idle["topics"]) == (0, {}, {})


def test_a_report_without_a_membership_has_no_member_and_is_read_back() -> None:
    assigned = SourceReport("etl", None, {TopicPartition("flights", 2): LogPosition(10, 15)})
    assert assigned.to_json() == {
        "group": "etl",
        "assignedPartitions": 1,
        "metrics": {
            "avgOffsetsBehindLatest": "5.0",
            "maxOffsetsBehindLatest": "5",
            "minOffsetsBehindLatest": "5",
        },
        "topics": {"flights": {"2": {"next": 10, "latest": 15, "lag": 5}}},
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
        {**REPORT.to_json(), "topics": {"flights": {"x": {"next": 1, "latest": 2}}}},
    ],
)
def test_the_latest_offset_of_another_source_is_no_report(other: Any) -> None:
    assert parse_report(other) is None
