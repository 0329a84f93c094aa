"""What only classic members live through: assignors, leaders, static restarts, a change of protocol
while the group lives.

Played as scenarios.py is. Each takes `bootstrap`; sessions may last 6 s.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape
from apportion.client.cluster import Cluster
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.errors import Code, Refused
from apportion.member.assignors.builtin import Range
from apportion.member.assignors.strategy import strategy
from apportion.member.cluster_queries.offsets import Membership, OffsetCommitQuery
from apportion.member.membership import MembershipState
from apportion.topics import IdPartition, Topic, partitions_of
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupResponse
from tests.client import changes
from tests.client.scenarios import follow

PATIENT_S = 60
QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200, "metadata_interval_ms": 300}


class RecordingCluster(Cluster):
    """A cluster that remembers what was asked and answered."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.exchanges: list[tuple[Any, Any]] = []

    def call(self, request: Any, **how: Any) -> Any:
        answer = super().call(request, **how)
        self.exchanges.append((request, answer))
        return answer

    def joins(self) -> list[JoinGroupResponse]:
        """The answers to JoinGroup that let the member in."""
        return [
            answer
            for _, answer in self.exchanges
            if isinstance(answer, JoinGroupResponse) and not answer.error_code
        ]


@pytest.fixture(params=["range", "cooperative-sticky"])
def assignor(request: pytest.FixtureRequest) -> str:
    """One that is eager and one that is not: for the scenarios of scenarios.py."""
    result: str = request.param
    return result


@pytest.fixture
def keeps(assignor: str) -> bool:
    """Whether the group rebalances cooperatively."""
    return assignor == "cooperative-sticky"


@pytest.fixture
def membership(assignor: str) -> Callable[..., dict[str, Any]]:
    """Makes the settings of one classic session."""
    return lambda: {"protocol": "classic", "assignors": strategy(assignor), **QUICK}


@pytest.fixture
def options(assignor: str) -> dict[str, int | str]:
    """The options of a classic Consumer."""
    return {
        "group_protocol": "classic",
        "partition_assignment_strategy": assignor,
        "heartbeat_interval_ms": 200,
    }


@pytest.fixture
def members(bootstrap: str, topic: Topic, group: str) -> Iterator[Callable[..., Any]]:
    """Makes running sessions of the group: classic ones by their assignors, KIP-848 ones where none
    is named.
    """
    running = []

    def start(*assignors: "str | DuplicatingAssignor", **settings: Any) -> Any:
        classic = (
            {"protocol": "classic", "assignors": strategy(assignors), **QUICK} if assignors else {}
        )
        session = GroupMembership(
            RecordingCluster(bootstrap),
            new_member(group, **{**classic, **settings}),
            [topic.name],
        )
        session.start()
        running.append(session)
        return session

    yield start
    for session in running:
        session.leave(timeout_ms=2_000)
        session.cluster.close()


def settle(sessions: list[Any], *sizes: int, epochs: Any = None) -> list[tuple[IdPartition, ...]]:
    """All follow until they hold so many partitions and are all of one generation; what they hold,
    by session.
    """
    deadline = time.monotonic() + PATIENT_S
    while time.monotonic() < deadline:
        follow(*sessions)
        views = [session.status() for session in sessions]
        stable = all(
            view.state is MembershipState.STABLE and view.target == view.owned for view in views
        )
        if (
            stable
            and sorted(len(view.owned) for view in views) == sorted(sizes)
            and len({view.epoch for view in views}) == 1
        ):
            held = [partition for view in views for partition in view.owned]
            assert len(held) == len(set(held)), "two own the same"
            return [view.owned for view in views]
        sessions[0].wait(lambda view: view.target is not None and view.target != view.owned, 20)
    raise AssertionError([session.status() for session in sessions])


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_three_members_share_out_what_there_is_by_every_assignor(
    members: Callable[..., Any], assignor: str
) -> None:
    crowd = [members(assignor)]
    settle(crowd, 4)
    crowd.append(members(assignor))
    settle(crowd, 2, 2)
    crowd.append(members(assignor))
    settle(crowd, 2, 1, 1)
    assert crowd.pop(0).leave()
    settle(crowd, 2, 2)


def test_a_sticky_group_moves_no_more_than_it_must(members: Callable[..., Any]) -> None:
    crowd = [members("sticky"), members("sticky")]
    before = settle(crowd, 2, 2)
    third = members("sticky")
    after = settle([*crowd, third], 2, 1, 1)
    assert all(set(now) <= set(then) for now, then in zip(after[:2], before, strict=True))


def test_a_cooperative_member_keeps_what_stays_with_it_in_use_all_the_time(
    members: Callable[..., Any],
) -> None:
    first = members("cooperative-sticky")
    (before,) = settle([first], 4)
    second = members("cooperative-sticky")
    kept, _ = settle([first, second], 2, 2)
    revoked = [
        event.revoked for event in first.history() if event.what == "adopted" and event.revoked
    ]
    assert revoked == [tuple(partition for partition in before if partition not in kept)]


def test_a_group_that_all_can_only_do_eagerly_takes_the_assignor_that_all_have(
    members: Callable[..., Any],
) -> None:
    first, second = members("range", "cooperative-sticky"), members("sticky", "range")
    settle([first, second], 2, 2)
    assert [session.cluster.joins()[-1].protocol_name for session in (first, second)] == [
        "range",
        "range",
    ]


def test_a_member_without_an_assignor_in_common_is_refused(members: Callable[..., Any]) -> None:
    settle([members("range")], 4)
    stranger = members("sticky")
    view = stranger.wait(lambda view: view.state is MembershipState.FATAL, 30_000)
    assert str(view.error).startswith("INCONSISTENT_GROUP_PROTOCOL: ")


def test_a_session_that_the_broker_does_not_allow_is_refused(members: Callable[..., Any]) -> None:
    session = members("range", session_timeout_ms=10)
    assert str(
        session.wait(lambda view: view.state is MembershipState.FATAL, 30_000).error
    ).startswith("INVALID_SESSION_TIMEOUT: ")


def test_an_old_generation_can_commit_nothing(
    members: Callable[..., Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    first = members("range")
    settle([first], 4)
    old = first.status()
    second = members("range")
    settle([first, second], 2, 2)
    partition = partitions_of(topic)[0]
    with pytest.raises(Refused) as refusal:
        membership = Membership(old.member_id, old.epoch)
        cluster.ask_coordinator(OffsetCommitQuery(group, {partition: 1}, membership))
    assert refusal.value.code is Code.ILLEGAL_GENERATION
    changes.commit_as(first, {partition: 2})
    assert cluster.committed(group, [partition]) == {partition: 2}


def test_a_commit_in_the_middle_of_a_rebalance_is_stored_when_that_is_over(
    members: Callable[..., Any], topic: Topic
) -> None:
    first = members("cooperative-sticky")
    settle([first], 4)
    partition, crowd = partitions_of(topic)[0], [first]
    for number in range(3):
        crowd.append(members("cooperative-sticky"))
        changes.commit_as(first, {partition: number})
        follow(*crowd)
        changes.commit_as(first, {partition: number + 10})
    settle(crowd, 1, 1, 1, 1)
    assert changes.committed_as(first, [partition]) == {partition: 12}


def test_a_member_that_says_goodbye_while_its_join_is_parked_is_gone_at_once(
    members: Callable[..., Any],
) -> None:
    first = members("range")
    settle([first], 4)
    second = members("range")
    # and does not let go: the join of the second is parked
    first.wait(lambda view: view.target == (), 30_000)
    began = time.monotonic()
    assert second.leave()
    assert time.monotonic() - began < 5
    settle([first], 4)


def test_a_member_that_answers_nothing_for_a_session_of_6_s_loses_its_place(
    members: Callable[..., Any],
) -> None:
    first, second = members("sticky"), members("sticky")
    settle([first, second], 2, 2)
    first.cluster.call = lambda *_, **__: (_ for _ in ()).throw(
        Refused(Code.COORDINATOR_NOT_AVAILABLE, "cut")
    )
    settle([second], 4)
    del first.cluster.call
    incarnation = first.status().incarnation
    first.wait(lambda view: view.incarnation > incarnation, 30_000)
    settle([first, second], 2, 2)


class DuplicatingAssignor(Range):
    """Gives its first partition to everybody."""

    name = "greedy"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        return {
            member: Given((TopicParts(topic, (0,)),)) for member in members for topic in cluster
        }


def test_an_assignor_that_gives_nonsense_ends_its_leader_with_the_partition_named(
    members: Callable[..., Any],
) -> None:
    first = members(DuplicatingAssignor())
    settle([first], 1)
    second = members(DuplicatingAssignor())
    assert first.wait(lambda view: view.target == (), 30_000).owned != ()
    follow(first)
    view = first.wait(lambda view: view.state is MembershipState.FATAL, 30_000)
    assert str(view.error).startswith("INVALID_REQUEST: the assignor gives partition 0 of 'topic-")
    assert second.status().member_id in str(view.error)
    first.leave()
    settle([second], 1)


def test_heartbeats_are_sent_as_often_as_the_member_was_told(members: Callable[..., Any]) -> None:
    session = members("range")
    settle([session], 4)
    session.wait(lambda view: False, 1_200)
    beats = [
        request for request, _ in session.cluster.exchanges if isinstance(request, HeartbeatRequest)
    ]
    assert 3 <= len(beats) <= 7  # one in 200 ms, on a busy machine fewer


def test_a_group_changes_from_classic_to_kip_848_and_back_with_members_of_both_kinds(
    members: Callable[..., Any], topic: Topic
) -> None:
    old = members("cooperative-sticky")
    settle([old], 4)
    new = members()
    settle([old, new], 2, 2)
    partition = new.cluster.resolve_names(new.status().owned)[0]
    changes.commit_as(new, {partition: 7})
    assert old.leave()
    settle([new], 4)
    back = members("cooperative-sticky")
    settle([new, back], 2, 2)
    mine = back.cluster.resolve_names(back.status().owned)[0]
    changes.commit_as(back, {mine: 9})
    assert new.leave()
    settle([back], 4)
    assert (
        changes.committed_as(back, [partition, mine]) == {partition: 7, mine: 9}
        if partition != mine
        else {partition: 9}
    )
    third = members("cooperative-sticky")
    settle([back, third], 2, 2)
