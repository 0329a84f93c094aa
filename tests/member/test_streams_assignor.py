"""What one consumer of a Streams group says, and what it makes of what it is told."""

from itertools import pairwise
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Code, Refused
from apportion.member.assignors.interface import FollowUp, MemberFailure
from apportion.member.streams.assignor import StreamsAssignor, StreamsSettings, TaskShare
from apportion.rules import Rule, run_rule
from apportion.streams.metadata.codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from apportion.streams.metadata.model import (
    RUNNING,
    AssignmentInfo,
    AssignorError,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.streams.metadata.releases import NEWEST_RELEASE, known_release
from apportion.streams.queries import CreateInternalTopics
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition

LINES = topology_of([{"sources": ["lines"]}])
HERE, THERE = HostInfo("here", 1), HostInfo("there", 2)
RUNS = {TaskId(0, 1): RUNNING}
TASK, PLACE = TaskId(0, 1), TopicPartition("lines", 1)


def assignor(release: str = NEWEST_RELEASE, **settings: Any) -> StreamsAssignor:
    return StreamsAssignor(
        StreamsSettings(LINES, b"p" * 16, release=known_release(release), **settings)
    )


def hears(
    member: StreamsAssignor, generation: int = 1, **info: Any
) -> MemberFailure | FollowUp | None:
    """What the member wants next after an assignment of task 0_1 with these words."""
    defaults: dict[str, Any] = {"used": 11, "supported": 11, "active": (TASK,)}
    assignment = AssignmentInfo(**defaults | info)
    return member.on_assignment(Given(by_topic([PLACE]), encode_assignment(assignment)), generation)


def subscription_of(member: StreamsAssignor) -> SubscriptionInfo:
    """What the member says with its subscription."""
    info = decode_subscription(member.user_data(("lines",)))
    assert isinstance(info, SubscriptionInfo)
    return info


def test_all_that_a_process_is_and_has_is_said() -> None:
    member = assignor(endpoint="here:1", tags={"zone": "a"})
    member.offset_sums = {TASK: 7}
    assert decode_subscription(member.user_data(("lines",))) == SubscriptionInfo(
        11, 11, b"p" * 16, "here:1", {TASK: 7}, unique=1, tags={"zone": "a"}
    )


def test_from_version_8_on_no_two_words_in_a_row_are_the_same() -> None:
    member = assignor()
    suffixes = [subscription_of(member).unique for _ in range(258)]
    assert suffixes[:3] == [1, 2, 3]
    assert (min(suffixes), max(suffixes)) == (-128, 127)
    assert all(first != second for first, second in pairwise(suffixes))


def test_versions_1_and_2_do_not_say_what_their_sender_supports() -> None:
    assert (
        decode_subscription(assignor("3.9", upgrade_from="1.1").user_data(("lines",))).supported
        == -1
    )


def test_the_assigned_tasks_are_those_of_the_last_generation() -> None:
    member = assignor()
    hosts = {HERE: (PLACE,)}
    assert (
        hears(member, 7, standby={TaskId(0, 2): (TopicPartition("lines", 2),)}, active_hosts=hosts)
        is None
    )
    assert member.tasks == TaskShare(
        7, 11, {TASK: (PLACE,)}, {TaskId(0, 2): (TopicPartition("lines", 2),)}, hosts, {}
    )


def test_tasks_of_an_earlier_incarnation_are_not_reported_as_running() -> None:
    lives = [1]
    member = StreamsAssignor(StreamsSettings(LINES, b"p" * 16), lambda: lives[0])
    member.offset_sums, member.sums_incarnation = RUNS | {TaskId(0, 2): 5}, 1
    assert subscription_of(member).offset_sums == RUNS | {TaskId(0, 2): 5}
    lives[0] = 2
    assert subscription_of(member).offset_sums == {TaskId(0, 2): 5}


def test_a_shutdown_is_asked_for_until_the_member_ends() -> None:
    member = assignor()
    member.error = AssignorError.SHUTDOWN_REQUESTED
    assert subscription_of(member).error == AssignorError.SHUTDOWN_REQUESTED
    member.forget_shutdown()
    assert subscription_of(member).error == AssignorError.NONE


@pytest.mark.parametrize(
    ("release", "upgrade_from", "says"),
    [
        ("2.4", None, {}),
        ("2.5", None, {}),
        ("2.5", "2.3", {TASK: RUNNING}),
        ("2.6", None, {TASK: RUNNING}),
        ("2.0", None, {TASK: RUNNING}),
    ],
)
def test_cooperative_members_of_2_4_and_2_5_say_what_they_run_by_what_they_own_alone(
    release: str, upgrade_from: str | None, says: dict[TaskId, int]
) -> None:
    member = assignor(release, upgrade_from=upgrade_from)
    member.offset_sums = {TASK: RUNNING}
    assert subscription_of(member).offset_sums == says


def test_another_version_comes_first_of_all_reasons_to_join_again() -> None:
    member = assignor("future", endpoint="here:1")
    member.user_data(("lines",))
    outcome = hears(member, active_hosts={THERE: (PLACE,)}, next_rebalance_ms=0)
    assert outcome == FollowUp(0, "somebody understands no more than version 11")


def test_the_port_of_an_endpoint_is_one_that_a_host_can_have() -> None:
    assert assignor(endpoint="here:65535").settings.endpoint == "here:65535"
    with pytest.raises(ValueError, match=r"application\.server must be .*65536"):
        assignor(endpoint="here:65536")


def test_then_an_endpoint_that_the_group_does_not_know_and_only_once() -> None:
    member = assignor(endpoint="here:1")
    strange: dict[str, Any] = {"active_hosts": {THERE: (PLACE,)}, "next_rebalance_ms": 5_000}
    assert hears(member, **strange) == FollowUp(0, "the group does not know here:1 yet")
    assert hears(member, 2, **strange) == FollowUp(5_000, "warm-up tasks may have caught up")
    assert hears(member, 3, active_hosts={HERE: (PLACE,)}) is None
    assert hears(member, 4, **strange) == FollowUp(0, "the group does not know here:1 yet")


def test_then_tasks_that_are_on_their_way_and_then_warm_ups() -> None:
    assert hears(assignor(), next_rebalance_ms=0) == FollowUp(
        0, "tasks wait for their previous owners to revoke them"
    )
    assert hears(assignor(), next_rebalance_ms=5_000) == FollowUp(
        5_000, "warm-up tasks may have caught up"
    )
    assert hears(assignor()) is None


@pytest.mark.parametrize(
    ("error", "fatal"),
    [
        (
            AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA,
            MemberFailure(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                "source topics are missing: lines; create them, and start again",
            ),
        ),
        (
            AssignorError.ASSIGNMENT_ERROR,
            MemberFailure(
                Code.INVALID_REQUEST, "the leader could not assign tasks; its log says why"
            ),
        ),
        (
            AssignorError.SHUTDOWN_REQUESTED,
            MemberFailure(Code.INVALID_REQUEST, "an instance has asked all instances to shut down"),
        ),
    ],
)
def test_an_error_ends_the_member_in_order(error: AssignorError, fatal: MemberFailure) -> None:
    member = assignor()
    assert hears(member, error=error) == fatal
    assert member.tasks == TaskShare()


def test_partitions_without_a_word_of_tasks_are_of_another_kind_of_group() -> None:
    with pytest.raises(Refused, match="a group of ordinary consumers, not of Kafka Streams"):
        assignor().on_assignment(Given(by_topic([PLACE])), 1)


def test_partitions_without_as_many_tasks_are_refused() -> None:
    with pytest.raises(
        Refused, match="1 partitions and 2 tasks were assigned: each partition must have one task"
    ):
        hears(assignor(), active=(TASK, TASK))


def test_the_leader_knows_which_source_topics_are_missing() -> None:
    both = topology_of([{"sources": ["lines", "more"]}])
    members = {name: StreamsAssignor(StreamsSettings(both, name.encode() * 16)) for name in "ab"}
    topics = ("lines", "more")
    subscriptions = {
        name: Subscription(topics, each.user_data(topics)) for name, each in members.items()
    }
    assigned = run_rule(
        members["a"].assign({"lines": TopicShape(2)}, subscriptions), lambda query: None
    )
    missing = "source topics are missing"
    of_both = ", of lines, more: the log of the instance that assigned names them"
    assert {name: each.on_assignment(assigned[name], 1) for name, each in members.items()} == {
        name: MemberFailure(
            Code.UNKNOWN_TOPIC_OR_PARTITION, f"{missing}{which}; create them, and start again"
        )
        for name, which in (("a", ": more"), ("b", of_both))
    }


def plan(asking: Rule[dict[str, Given]], ends: int) -> dict[str, Any]:
    """What everybody is told, where changelogs end there."""

    def answer(question: Any) -> Any:
        if isinstance(question, CreateInternalTopics):
            return {topic.name: topic.partitions for topic in question.topics}
        return dict.fromkeys(question.partitions, ends)

    assignments = run_rule(asking, answer)
    return {
        member: decode_assignment(given.user_data or b"") for member, given in assignments.items()
    }


@pytest.mark.parametrize("leader", ["a", "b"])
def test_only_the_leader_is_told_when_to_check_the_lag_of_warm_up_tasks(
    leader: str,
) -> None:
    counts = topology_of([{"sources": ["lines"], "changelogs": ["counts"]}])
    members = {
        name: StreamsAssignor(
            StreamsSettings(counts, name.encode() * 16, probing_interval_ms=60_000)
        )
        for name in ("a", "b")
    }
    members["a"].offset_sums = {TaskId(0, 0): RUNNING, TaskId(0, 1): RUNNING}
    subscriptions = {
        name: Subscription(("lines",), each.user_data(("lines",))) for name, each in members.items()
    }
    leads = members[leader]
    leads.member_id, leads.wall_ms = leader, 1_000
    infos = plan(leads.assign({"lines": TopicShape(2)}, subscriptions), ends=1_000_000)
    assert {name: info.next_rebalance_ms for name, info in infos.items()} == {
        "a": None,
        "b": None,
        leader: 61_000,
    }
    assert [len(infos["a"].active), len(infos["b"].standby)] == [2, 1]


def test_a_member_of_another_topology_gets_nothing_and_a_log_line() -> None:
    leads = assignor()
    leads.member_id = "a"
    subscriptions = {
        name: Subscription(topics, leads.user_data(topics))
        for name, topics in (("a", ("lines",)), ("b", ("others",)))
    }
    infos = plan(leads.assign({"lines": TopicShape(2)}, subscriptions), ends=0)
    assert {name: len(info.active) for name, info in infos.items()} == {"a": 2, "b": 0}
    assert leads.notes == [
        "b is assigned nothing: it does not subscribe to lines, as this topology does"
    ]
