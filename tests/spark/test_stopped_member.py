"""A batch member whose driver asks it to stop, on a broker in this process and without Spark."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from apportion.client.cluster import Cluster
from apportion.client.group_membership import GroupMembership
from apportion.member.batch.span import EMPTY_SPAN, Span, parse_span
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.processes import stop_requests
from apportion.spark.processes.private_files import create_directory, digest, private_directory
from apportion.spark.processes.stop_requests import StopAnswer, StopRequest
from apportion.spark.source import GroupStreamReader
from apportion.topics import TopicIdPartition
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from tests.spark.batch_members import GroupProtocol, broker, create_topic, span_where

__all__ = ["broker"]

DONE = StopAnswer(is_committed=True, has_left=True)
UNFINISHED = StopAnswer(is_committed=False, has_left=True)


@pytest.fixture
def count_members(cluster: Cluster, protocol: GroupProtocol) -> Callable[[str], int]:
    """`count_members(group)`, as its coordinator describes it."""

    def count(group: str) -> int:
        request = (
            DescribeGroupsRequest(groups=(group,))
            if protocol == "classic"
            else ConsumerGroupDescribeRequest(group_ids=(group,))
        )
        (described,) = cluster.call(request, coordinator=group).groups
        return len(described.members)

    return count


@pytest.fixture
def stopped() -> Iterator[Callable[[Span, Span | None], None]]:
    """`stopped(planned, committed)`: the driver asks the source of `planned`, once in a test."""
    asked: list[str] = []

    def ask(planned: Span, committed: Span | None = None) -> None:
        asked.append(planned.id)
        stop_requests.write_request(planned.id, StopRequest(committed))

    yield ask
    for checkpoint_id in asked:
        stop_requests.delete_both(checkpoint_id)


@pytest.fixture
def profiler_kept() -> Iterator[None]:
    """The profiler is at the end what it was."""
    profiler = sys.getprofile()
    yield
    sys.setprofile(profiler)


def reading(cluster: Cluster, member: BatchMember) -> tuple[TopicIdPartition, Span]:
    """The one partition of the member's topic, and the batch [0, 5) of its eight records."""
    (topic,) = member.options.topics.names
    (partition,) = create_topic(cluster, topic, records=8)
    return partition, span_where(member, EMPTY_SPAN, lambda span: span.ranges, limit=5)


def test_a_source_that_is_asked_for_another_batch_commits_the_last_and_leaves(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    count_members: Callable[[str], int],
    stopped: Callable[..., None],
) -> None:
    member = batch_member_of("asked-group", "asked", startingOffsets="earliest")
    partition, batch = reading(cluster, member)
    assert count_members("asked-group") == 1
    stopped(batch)
    assert member.next_span(batch, None) is batch
    assert stop_requests.answer_or_none(batch.id) == DONE
    assert cluster.committed("asked-group", [partition]) == {partition: 5}
    assert count_members("asked-group") == 0
    assert member.next_span(batch, None) is batch
    member.close()
    assert stop_requests.answer_or_none(batch.id) == DONE


def test_a_source_that_is_ended_commits_the_batch_that_spark_has_committed(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    count_members: Callable[[str], int],
    stopped: Callable[..., None],
) -> None:
    member = batch_member_of("ended-group", "ended", startingOffsets="earliest")
    partition, batch = reading(cluster, member)
    stopped(batch, committed=batch)
    member.close()
    # Nobody hears the source any more, so the driver logs its line.
    line = "group ended-group: left the group: gave up ended 0"
    assert stop_requests.answer_or_none(batch.id) == DONE._replace(line=line)
    assert cluster.committed("ended-group", [partition]) == {partition: 5}
    assert count_members("ended-group") == 0


def test_a_batch_that_was_interrupted_is_not_committed(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    count_members: Callable[[str], int],
    stopped: Callable[..., None],
) -> None:
    member = batch_member_of("broken-group", "broken", startingOffsets="earliest")
    partition, batch = reading(cluster, member)
    following = member.next_span(batch, 1)
    stopped(following, committed=batch)
    member.close()
    line = "group broken-group: left the group: gave up broken 0"
    assert stop_requests.answer_or_none(batch.id) == UNFINISHED._replace(line=line)
    assert cluster.committed("broken-group", [partition]) == {partition: 5}
    assert count_members("broken-group") == 0


def test_a_commit_that_a_signal_interrupts_is_not_reported_as_done(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    stopped: Callable[..., None],
    profiler_kept: None,
) -> None:
    member = batch_member_of("cut-group", "cut", startingOffsets="earliest")
    partition, batch = reading(cluster, member)
    stopped(batch)

    def end_once(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is GroupMembership.request_offsets.__code__:
            sys.setprofile(None)
            sys.exit(0)

    sys.setprofile(end_once)
    with pytest.raises(SystemExit):
        member.next_span(batch, None)
    member.close()
    assert stop_requests.answer_or_none(batch.id) == UNFINISHED
    assert cluster.committed("cut-group", [partition]) == {partition: 0}


def test_a_member_leaves_where_others_may_write_to_the_private_directory(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    count_members: Callable[[str], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = batch_member_of("public-group", "public", startingOffsets="earliest")
    _, batch = reading(cluster, member)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    create_directory().chmod(0o777)
    member.begin_batch(batch)
    assert count_members("public-group") == 1
    member.close()
    assert count_members("public-group") == 0


def test_a_request_that_is_taken_back_lets_the_query_join_again_and_go_on(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], stopped: Callable[..., None]
) -> None:
    member = batch_member_of("resumed-group", "resumed", startingOffsets="earliest")
    partition, batch = reading(cluster, member)
    stopped(batch)
    assert member.next_span(batch, None) is batch
    assert member.waits_for == "it is being stopped"
    stop_requests.delete_both(batch.id)
    following = span_where(member, batch, lambda span: span != batch)
    assert member.waits_for == ""
    assert dict(following.ranges) == {partition: (5, 8)}
    stopped(following)
    assert member.next_span(following, None) is following
    assert stop_requests.answer_or_none(batch.id) == DONE
    assert cluster.committed("resumed-group", [partition]) == {partition: 8}


def test_a_query_goes_on_after_the_program_that_stops_it_was_killed(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], stopped: Callable[..., None]
) -> None:
    member = batch_member_of("left-group", "left", startingOffsets="earliest")
    partition, batch = reading(cluster, member)
    stopped(batch)
    assert member.next_span(batch, None) is batch
    (request,) = private_directory().glob(f"stop-{digest(batch.id)}.request")
    os.utime(request, (0, 0))
    following = span_where(member, batch, lambda span: span != batch)
    assert dict(following.ranges) == {partition: (5, 8)}


def test_a_query_that_starts_again_is_not_stopped_by_a_request_to_its_last_run(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], stopped: Callable[..., None]
) -> None:
    first = batch_member_of("again-group", "again", startingOffsets="earliest")
    partition, batch = reading(cluster, first)
    first.close()
    stopped(batch, committed=batch)
    again = batch_member_of("again-group", "again", startingOffsets="earliest")
    following = span_where(again, batch, lambda span: span != batch)
    assert dict(following.ranges) == {partition: (5, 8)}


def test_a_batch_that_is_repeated_and_never_handed_back_is_not_known_to_the_group(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], stopped: Callable[..., None]
) -> None:
    first = batch_member_of("repeat-group", "repeat", startingOffsets="earliest")
    partition, batch = reading(cluster, first)
    first.close()
    again = batch_member_of("repeat-group", "repeat", startingOffsets="earliest")
    again.begin_batch(batch)
    stopped(batch, committed=batch)
    again.close()
    assert stop_requests.answer_or_none(batch.id) == UNFINISHED
    assert cluster.committed("repeat-group", [partition]) == {partition: 0}


@pytest.fixture
def signals_kept(profiler_kept: None) -> Iterator[None]:
    """The handlers of the signals and the profiler are at the end what they were."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_kept")
def test_a_signal_at_the_first_line_of_stop_does_not_keep_the_member_in_the_group(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    count_members: Callable[[str], int],
) -> None:
    cluster.create_topic("signalled", 1)
    options = batch_member_of("signalled-group", "signalled").options
    reader = GroupStreamReader(options)
    offset = EMPTY_SPAN.to_json()
    while count_members("signalled-group") == 0:
        offset = reader.latestOffset(offset, ReadAllAvailable())

    def signal_once(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is GroupStreamReader.stop.__code__:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGTERM)

    sys.setprofile(signal_once)
    reader.stop()
    assert count_members("signalled-group") == 0
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.usefixtures("signals_kept")
def test_a_signal_while_the_member_leaves_in_order_does_not_interrupt_it(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    count_members: Callable[[str], int],
    stopped: Callable[..., None],
) -> None:
    cluster.create_topic("interrupted", 1)
    options = batch_member_of("interrupted-group", "interrupted").options
    reader = GroupStreamReader(options)
    offset = EMPTY_SPAN.to_json()
    while count_members("interrupted-group") == 0 or offset == EMPTY_SPAN.to_json():
        offset = reader.latestOffset(offset, ReadAllAvailable())
    planned = parse_span(offset)
    stopped(planned)

    def signal_once(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is GroupMembership.leave.__code__:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGTERM)

    sys.setprofile(signal_once)
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    assert stop_requests.answer_or_none(planned.id) == DONE
    assert count_members("interrupted-group") == 0
    reader.stop()
