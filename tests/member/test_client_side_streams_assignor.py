"""What one consumer of a Streams group of KIP-848 says, and what it makes of what it is told."""

from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Code, Refused
from apportion.member.assignors.interface import MemberFailure
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.client_side import ClientSideStreamsAssignor
from apportion.rules import run_rule
from apportion.streams.client_side import hash_of_topology
from apportion.streams.metadata.kip848 import (
    Kip848ActiveTask,
    Kip848AssignmentMetadata,
    Kip848ClientTag,
    Kip848HostPartitions,
    Kip848MemberMetadata,
    Kip848Replica,
    Kip848TaskLag,
    Kip848TopicPartitions,
    Reason,
)
from apportion.streams.metadata.model import HostInfo, TaskId
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from apportion.wire.codec import read_whole, write

LINES = topology_of([{"sources": ["lines"]}])
BOTH = topology_of([{"sources": ["lines", "more"]}])
ONE = TaskId(0, 1)
LINES_1, MORE_1 = TopicPartition("lines", 1), TopicPartition("more", 1)


def assignor(topology: Any = LINES, **settings: Any) -> ClientSideStreamsAssignor:
    return ClientSideStreamsAssignor(StreamsSettings(topology, b"p" * 16, **settings))


def said(member: ClientSideStreamsAssignor) -> Kip848MemberMetadata:
    return read_whole(Kip848MemberMetadata, 0, member.user_data(()))


def hears(
    member: ClientSideStreamsAssignor, *partitions: TopicPartition, error: int = 0, **metadata: Any
) -> TaskShare:
    """The member's tasks after it was told of its assignment at epoch 4."""
    topology_hash = hash_of_topology(member.settings.topology)
    encoded = write(Kip848AssignmentMetadata(topology_hash=topology_hash, **metadata), 0)
    assert member.on_assignment(Given(by_topic(partitions), encoded, error), 4) is None
    return member.tasks


def names(task: TaskId, times: int = 1) -> tuple[Kip848ActiveTask, ...]:
    return (Kip848ActiveTask(subtopology=task.subtopology, partition=task.partition),) * times


def test_all_that_a_process_is_is_said_and_what_it_has_only_with_a_reason() -> None:
    member = assignor(endpoint="here:1", tags={"zone": "a"})
    first = Kip848MemberMetadata(
        process_id=b"p" * 16,
        user_endpoint=b"here:1",
        client_tags=(Kip848ClientTag(key="zone", value="a"),),
        topology_hash=hash_of_topology(LINES),
    )
    assert said(member) == first
    member.change_topology(BOTH)
    assert said(member) == first
    member.update(Reason.TOPOLOGY_CHANGED, {TaskId(0, 2): 5, ONE: 0})
    assert said(member) == Kip848MemberMetadata(
        process_id=b"p" * 16,
        user_endpoint=b"here:1",
        client_tags=(Kip848ClientTag(key="zone", value="a"),),
        topology_hash=hash_of_topology(BOTH),
        task_lags=(
            Kip848TaskLag(subtopology=0, partition=1, lag=0),
            Kip848TaskLag(subtopology=0, partition=2, lag=5),
        ),
    )
    with pytest.raises(AssertionError):
        member.update(Reason.NONE, {})


def test_a_new_membership_brings_new_metadata_and_has_no_tasks() -> None:
    member = assignor()
    hears(member, LINES_1, active_tasks=names(ONE))
    member.begin_membership({ONE: 7})
    assert said(member).task_lags == (Kip848TaskLag(subtopology=0, partition=1, lag=7),)
    assert member.tasks == TaskShare()


def test_a_task_runs_when_all_of_its_partitions_have_been_handed_over() -> None:
    member = assignor(BOTH)
    both = names(ONE, times=2)
    assert hears(member, LINES_1, active_tasks=both) == TaskShare(4, 0)
    assert hears(member, LINES_1, MORE_1, active_tasks=both) == TaskShare(
        4, 0, {ONE: (LINES_1, MORE_1)}
    )
    assert hears(member, LINES_1, active_tasks=names(ONE)) == TaskShare(4, 0, {ONE: (LINES_1,)})


def test_partitions_of_no_task_that_is_listed_are_not_read() -> None:
    other = TopicPartition("other", 1)
    assert hears(assignor(), LINES_1, other, active_tasks=()) == TaskShare(4, 0)


def test_copies_and_hosts_are_told_as_they_are() -> None:
    source = (Kip848TopicPartitions(topic="lines", partitions=(1,)),)
    replica = Kip848Replica(subtopology=0, partition=1, sources=source)
    host = Kip848HostPartitions(host="one", port=1, partitions=source)
    assert hears(assignor(), standby_tasks=(replica,), partitions_by_host=(host,)) == TaskShare(
        4, 0, standby={ONE: (LINES_1,)}, hosts={HostInfo("one", 1): (LINES_1,)}
    )
    assert hears(assignor(), warmup_tasks=(replica,)) == TaskShare(4, 0, warmup={ONE: (LINES_1,)})


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (
            3,
            "this instance goes on with its older assignment: instances run different topologies, "
            "and tasks are assigned again once all run the same: finish the rolling change, or "
            "stop the instance that the log of the one that assigned names",
        ),
        (
            9,
            "this instance goes on with its older assignment: error 9, which is unknown here",
        ),
    ],
)
def test_an_error_that_ends_nobody_leaves_the_tasks_whose_partitions_stay(
    error: int, note: str
) -> None:
    member = assignor()
    two = TopicPartition("lines", 2)
    hears(member, LINES_1, two, active_tasks=(*names(ONE), *names(TaskId(0, 2))))
    assert member.on_assignment(Given(by_topic([two]), error=error), 4) is None
    assert member.tasks == TaskShare(4, 0, {TaskId(0, 2): (two,)})
    assert list(member.notes) == [note]


def test_a_broker_that_has_forgotten_tasks_which_a_member_gives_up_alarms_nobody() -> None:
    member = assignor()
    two = TopicPartition("lines", 2)
    hears(member, LINES_1, two, active_tasks=(*names(ONE), *names(TaskId(0, 2))))
    assert member.on_assignment(Given(by_topic([two])), 4) is None
    assert (member.tasks, list(member.notes)) == (TaskShare(4, 0, {TaskId(0, 2): (two,)}), [])


def test_missing_source_topics_end_a_member_as_in_a_classic_group() -> None:
    member = assignor(BOTH)
    hears(member, LINES_1, MORE_1, active_tasks=names(ONE, 2))
    assert member.on_assignment(Given(error=4), 5) == MemberFailure(
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "source topics are missing, of lines, more: the log of the instance that assigned names "
        "them; create them, and start again",
    )
    assert member.tasks == TaskShare()


def test_the_member_that_assigned_knows_which_source_topics_are_missing() -> None:
    member = assignor(BOTH)
    members = {"a": Subscription(("lines", "more"), member.user_data(("lines", "more")))}
    run_rule(member.assign({"lines": TopicShape(2)}, members), lambda query: None)
    assert member.on_assignment(Given(error=4), 5) == MemberFailure(
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "source topics are missing: more; create them, and start again",
    )


def test_a_member_that_waits_for_its_first_assignment_says_nothing_of_it() -> None:
    member = assignor()
    assert member.on_assignment(Given(), 1) is None
    assert (member.tasks, list(member.notes)) == (TaskShare(1), [])


def test_metadata_that_cannot_be_decoded_are_refused() -> None:
    with pytest.raises(Refused, match="the assignment of tasks cannot be decoded"):
        assignor().on_assignment(Given(by_topic([LINES_1]), b"\xff"), 1)


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\xff", write(Kip848MemberMetadata(process_id=b"q" * 16, user_endpoint=b"\xff"), 0)],
)
def test_the_member_that_assigns_gives_nothing_to_one_that_it_cannot_read(metadata: bytes) -> None:
    member = assignor()
    members = {
        "a": Subscription(("lines",), member.user_data(("lines",))),
        "b": Subscription(("lines",), metadata),
    }
    assigned = run_rule(member.assign({"lines": TopicShape(2)}, members), lambda query: None)
    nothing = Kip848AssignmentMetadata(topology_hash=hash_of_topology(LINES))
    assert assigned["b"] == Given((), write(nothing, 0))
    assert assigned["a"].partitions == by_topic([("lines", 0), ("lines", 1)])
    assert list(member.notes) == ["b is assigned nothing: its metadata cannot be read"]


def test_the_member_that_assigns_gives_an_error_to_all_without_metadata() -> None:
    member = assignor()
    data = member.user_data(("lines",))
    members = {
        "a": Subscription(("lines",), data),
        "b": Subscription(("lines",), data, reason=Reason.SHUTDOWN),
    }
    assigned = run_rule(member.assign({"lines": TopicShape(2)}, members), lambda query: None)
    assert assigned == {"a": Given((), b"", 1), "b": Given((), b"", 1)}
