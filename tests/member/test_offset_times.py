"""Reads that begin or end at a time: which offsets are asked for, and what they give way to."""

from typing import Any

import pytest

from apportion.member.batch.bounded_read import BoundedRead
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.offset_times import NoRecordAtTime, OffsetTimes
from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.queries import CommitOffsets, ListOffsets
from apportion.wire.messages.list_offsets import EARLIEST, LATEST
from tests.member.planner_host import BEGUN, P0, P1, PlannerHost, held, read
from tests.member.test_bounded_read import P0 as LOG_P0
from tests.member.test_bounded_read import P1 as LOG_P1
from tests.member.test_bounded_read import Logs, T

SINCE_400 = OffsetTimes("startingTimestamp", 400)


class TimedHost(PlannerHost):
    """The record at offset n has the time 100 n."""

    def answer(self, ask: Any) -> Any:
        match ask:
            case ListOffsets(partitions, timestamp) if timestamp >= 0:
                return {each: self.offset_at(each, timestamp) for each in partitions}
        return super().answer(ask)

    def offset_at(self, partition: Any, timestamp: int) -> int:
        offset = -(-timestamp // 100)
        return offset if offset < self.ends[partition] else -1


def planner_from(times: OffsetTimes) -> BatchPlanner:
    starting = StartingOffsets(EARLIEST, times=times)
    return BatchPlanner(
        BatchGroup("g", TopicChoice(("t",)), classic_session_ms=None),
        checkpoint="c",
        starting=starting,
    )


@pytest.fixture
def host() -> TimedHost:
    made = TimedHost()
    made.sees(target=held(P0, P1))
    return made


def test_a_stream_begins_at_the_time_only_where_its_group_has_no_offset(host: TimedHost) -> None:
    host.offsets = {P1: 6}
    planner = planner_from(SINCE_400)
    span = host.attempt(planner.plan_next(BEGUN))
    assert span == read("c", {P0: (4, 10), P1: (6, 10)}, P0)
    listed = [query for query in host.asked if isinstance(query, ListOffsets)]
    # The ends come last: an offset that was found is within its log then.
    assert listed[-3:] == [
        ListOffsets((P0,), 400),
        ListOffsets((P0, P1), EARLIEST),
        ListOffsets((P0, P1), LATEST),
    ]
    commits = [query.offsets for query in host.asked if isinstance(query, CommitOffsets)]
    assert {P0: 4} in commits


def test_a_partition_that_is_read_already_is_not_asked_for_a_time(host: TimedHost) -> None:
    planner = planner_from(SINCE_400)
    span = host.attempt(planner.plan_next(BEGUN))
    host.attempt(planner.plan_next(span))
    assert not [
        query for query in host.asked if isinstance(query, ListOffsets) and query.timestamp >= 0
    ]


def test_each_partition_may_have_a_time_and_the_others_begin_at_the_earliest(
    host: TimedHost,
) -> None:
    times = OffsetTimes("startingOffsetsByTimestamp", by_partition={("t", 1): 700})
    span = host.attempt(planner_from(times).plan_next(BEGUN))
    assert span == read("c", {P0: (0, 10), P1: (7, 10)}, P1)


def test_without_a_record_of_that_time_the_stream_ends_and_commits_no_start(
    host: TimedHost,
) -> None:
    with pytest.raises(NoRecordAtTime) as missing:
        host.attempt(planner_from(OffsetTimes("startingTimestamp", 5_000)).plan_next(BEGUN))
    assert str(missing.value) == (
        "option startingTimestamp: t-0 has no record at or after 5000 ms; give an earlier time, "
        "or startingOffsetsByTimestampStrategy=latest to begin at the end of such a partition"
    )
    assert host.offsets == {}


def test_the_strategy_latest_begins_at_the_end_instead(host: TimedHost) -> None:
    times = OffsetTimes("startingTimestamp", 5_000, latest_if_none=True)
    span = host.attempt(planner_from(times).plan_next(BEGUN))
    assert span == read("c", {P0: (10, 10), P1: (10, 10)}, P0, P1)


class TimedLogs(Logs):
    """The record at offset n has the time 100 n."""

    def answer(self, query: Any) -> Any:
        match query:
            case ListOffsets(partitions, timestamp) if timestamp >= 0:
                return {
                    each: offset if (offset := timestamp // 100) < self.held[each][1] else -1
                    for each in partitions
                }
        return super().answer(query)


def test_a_batch_read_is_bounded_by_times_and_ends_at_the_end_where_none_is_found() -> None:
    starting = StartingOffsets(EARLIEST, times=OffsetTimes("startingTimestamp", 300))
    ending = OffsetTimes("endingTimestamp", 600, latest_if_none=True)
    assert TimedLogs().ranges(BoundedRead(T, starting, {}, ending)) == {
        LOG_P0: (3, 6),
        LOG_P1: (3, 4),
    }


def test_the_groups_offset_comes_before_a_time_in_a_batch_read() -> None:
    logs = TimedLogs()
    logs.committed = {LOG_P0: 8}
    starting = StartingOffsets(EARLIEST, times=OffsetTimes("startingTimestamp", 300))
    read = BoundedRead(T, starting, {}, from_committed=True)
    assert logs.ranges(read) == {LOG_P0: (8, 9), LOG_P1: (3, 4)}
