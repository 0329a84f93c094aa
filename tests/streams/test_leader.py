"""What a Streams leader asks the cluster, and what it sends when it cannot assign."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.streams.consumer_assignments import ConsumerAssignment
from apportion.streams.leader import GroupAssignment, LeaderSettings, assign_as_leader
from apportion.streams.metadata.model import (
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    AssignorError,
    FutureInfo,
    HostInfo,
    TaskId,
)
from apportion.streams.metadata.releases import RELEASES
from apportion.streams.queries import FetchCommittedOffsets, ListEndOffsets
from apportion.streams.task_assignment.client_metadata import ConsumerMetadata
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from tests.streams.leader_runs import LINES, NEWEST, STATE, WORDS, lead, lines, subscription, tasks


def test_it_asks_for_its_topics_and_their_ends_and_nothing_that_it_does_not_need() -> None:
    queries: list[Any] = []
    lead(WORDS, {"a": subscription("a")}, ends={}, queries=queries)
    made, ends = queries
    assert [(topic.name, topic.partitions) for topic in made.topics] == [
        ("g-counts-changelog", 4),
        ("g-words", 4),
    ]
    assert ends == ListEndOffsets(
        tuple(TopicPartition("g-counts-changelog", number) for number in range(4))
    )
    queries.clear()
    lead(LINES, {"a": subscription("a")}, queries=queries)
    assert queries == []


def test_of_a_source_that_serves_as_a_changelog_it_asks_what_is_committed() -> None:
    queries: list[Any] = []
    lead(
        topology_of([{"sources": ["lines"], "changelogs": ["lines"]}]),
        {"a": subscription("a")},
        ends={},
        queries=queries,
    )
    assert queries == [FetchCommittedOffsets(lines(0, 1, 2, 3))]


def test_hosts_hear_where_partitions_are_active_and_standby() -> None:
    subscriptions = {
        "a": subscription("a", endpoint="one:1"),
        "b": subscription("b", endpoint="two:2"),
        "c": subscription("c", endpoint="nonsense"),
    }
    plan = lead(
        STATE,
        subscriptions,
        ends={},
        settings={"configs": AssignmentConfigs(num_standby_replicas=1)},
    )
    info = plan.assignments["a"].info
    assert (
        list(info.active_hosts)
        == list(info.standby_hosts)
        == [HostInfo("one", 1), HostInfo("two", 2)]
    )
    assert all(share.info.active_hosts == info.active_hosts for share in plan.assignments.values())


def test_without_ends_everybody_keeps_what_it_runs_and_the_group_looks_again() -> None:
    subscriptions = {
        "a": subscription("a", sums=dict.fromkeys(tasks(0, 1, 2, 3), RUNNING)),
        "b": subscription("b", sums={TaskId(0, 0): OFFSET_UNKNOWN}),
    }
    plan = lead(STATE, subscriptions, ends=None)
    assert plan.assignments["a"] == ConsumerAssignment(
        lines(0, 1, 2, 3),
        AssignmentInfo(11, 11, tasks(0, 1, 2, 3), next_rebalance_ms=1_000 + 600_000),
    )
    assert plan.notes == (
        "everybody keeps what it has, as the ends of changelogs are unknown: no broker",
    )


@pytest.mark.parametrize(
    ("topology", "existing", "made", "error", "why"),
    [
        (
            WORDS,
            {"other": 1},
            {},
            AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA,
            "source topics are missing: lines",
        ),
        (
            WORDS,
            {"lines": 4, "g-words": 9},
            {},
            AssignorError.ASSIGNMENT_ERROR,
            "g-words has 9 partitions and should have 4",
        ),
        (
            WORDS,
            {"lines": 4},
            {"g-words": 3},
            AssignorError.ASSIGNMENT_ERROR,
            "g-words has 3 partitions and should have 4",
        ),
        (
            topology_of([{"sources": ["lines", "x"], "copartition": [["lines", "x"]]}]),
            {"lines": 4, "x": 2},
            {},
            AssignorError.ASSIGNMENT_ERROR,
            "must have equally many partitions: lines has 4, x has 2",
        ),
    ],
)
def test_topics_that_do_not_fit_give_everybody_nothing_and_the_reason(
    topology: Topology, existing: Any, made: dict[str, int], error: AssignorError, why: str
) -> None:
    plan = lead(
        topology,
        {"a": subscription("a"), "b": subscription("b", version=9)},
        existing=existing,
        made=made,
    )
    assert plan.assignments == dict.fromkeys(
        "ab", ConsumerAssignment((), AssignmentInfo(9, 9, error=error))
    )
    assert plan.notes[0].startswith("nobody gets anything: ")
    assert why in plan.notes[0]


def test_one_that_asks_for_a_shutdown_is_heard_by_all() -> None:
    plan = lead(
        LINES,
        {"a": subscription("a"), "b": subscription("b", error=AssignorError.SHUTDOWN_REQUESTED)},
    )
    assert plan.assignments == dict.fromkeys(
        "ab", ConsumerAssignment((), AssignmentInfo(11, 11, error=AssignorError.SHUTDOWN_REQUESTED))
    )


def test_two_processes_at_one_endpoint_are_one_place_for_queries() -> None:
    subscriptions = {name: subscription(name, endpoint="one:1") for name in "abc"}
    plan = lead(
        STATE,
        subscriptions,
        ends={},
        settings={"configs": AssignmentConfigs(num_standby_replicas=2)},
    )
    assert {
        host: set(partitions)
        for host, partitions in plan.assignments["a"].info.standby_hosts.items()
    } == {HostInfo("one", 1): set(lines(0, 1, 2, 3))}
    assert len(plan.assignments["a"].info.standby_hosts[HostInfo("one", 1)]) == 4


def test_topics_that_could_not_be_made_are_asked_for_again() -> None:
    asking = assign_as_leader(
        LeaderSettings("a", WORDS, NEWEST),
        {"lines": 1},
        {"a": subscription("a")},
        0,
    )
    question = next(asking)
    assert asking.throw(Unanswerable("no broker")) == question
    assert asking.send({"g-words": 1}) == question
    assert asking.send({"g-words": 1, "g-counts-changelog": 1}) == ListEndOffsets(
        (TopicPartition("g-counts-changelog", 0),)
    )


def test_topics_that_may_not_be_made_are_told_to_everybody() -> None:
    asking = assign_as_leader(
        LeaderSettings("a", WORDS, NEWEST),
        {"lines": 1},
        {"a": subscription("a")},
        0,
    )
    next(asking)
    with pytest.raises(StopIteration) as end:
        asking.throw(Refused(Code.POLICY_VIOLATION, "no internal topics here"))
    assert end.value.value == GroupAssignment(
        {"a": ConsumerAssignment((), AssignmentInfo(11, 11, error=AssignorError.ASSIGNMENT_ERROR))},
        notes=(
            "nobody gets anything: the internal topics cannot be made: no internal topics here",
        ),
    )


def test_members_from_the_future_get_tasks_as_one_process() -> None:
    subscriptions = {
        "a": subscription("a"),
        "x": ConsumerMetadata(FutureInfo(12, 12)),
        "y": ConsumerMetadata(FutureInfo(12, 12)),
    }
    plan = lead(LINES, subscriptions)
    assert sorted(
        partition for share in plan.assignments.values() for partition in share.partitions
    ) == list(lines(0, 1, 2, 3))
    assert {(share.info.used, share.info.supported) for share in plan.assignments.values()} == {
        (11, 11)
    }


def test_in_the_manners_of_kip_268_they_get_nothing_and_the_leaders_version() -> None:
    subscriptions = {"a": subscription("a", version=3), "x": ConsumerMetadata(FutureInfo(12, 12))}
    plan = lead(LINES, subscriptions, settings={"release": RELEASES["2.0"]})
    assert plan.assignments == {
        "a": ConsumerAssignment(lines(0, 1, 2, 3), AssignmentInfo(3, 3, tasks(0, 1, 2, 3))),
        "x": ConsumerAssignment((), AssignmentInfo(3, 3)),
    }


def test_members_without_a_common_version_get_an_error_in_the_oldest_one() -> None:
    plan = lead(
        LINES, {"a": subscription("a", version=2), "x": ConsumerMetadata(FutureInfo(12, 12))}
    )
    assert plan.assignments == dict.fromkeys(
        "ax", ConsumerAssignment((), AssignmentInfo(2, error=AssignorError.ASSIGNMENT_ERROR))
    )
