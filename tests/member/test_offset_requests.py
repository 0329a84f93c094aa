"""The rule of a member's requests about offsets."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.offsets import NO_MEMBER, Membership, OffsetCommitQuery
from apportion.member.cluster_queries.retries import PauseBeforeRetry
from apportion.member.membership import MembershipState, View
from apportion.member.offset_requests import (
    AwaitNewEpoch,
    request_offsets,
)
from apportion.member.queries import (
    AskCoordinator,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    MembershipSnapshot,
    ReadMembership,
)
from apportion.rules import run_rule
from apportion.topics import Topic, TopicIdPartition, Topics

PARTITION = TopicIdPartition("t", b"i" * 16, 0)
OFFSETS = {PARTITION: 7}
VIEW = View("m", 3, MembershipState.STABLE, 2, (), (), 0, None)


@pytest.mark.parametrize(
    ("request_", "answer"), [(CommitOffsets({}, 1), None), (FetchCommitted((), 1), {})]
)
def test_a_request_about_no_partition_is_answered_without_the_cluster(
    request_: Any, answer: Any
) -> None:
    rule = request_offsets(request_, "g", None)
    assert run_rule(rule, {}.__getitem__) == answer


def commit_as(incarnation: int, view: View) -> list[Any]:
    """The queries of a commit by a member of this view."""
    asked: list[Any] = []

    def answer(query: Any) -> Any:
        asked.append(query)
        return MembershipSnapshot(view, 0, 0) if isinstance(query, ReadMembership) else None

    rule = request_offsets(CommitOffsets(OFFSETS, incarnation), "g", "i")
    run_rule(rule, answer)
    return asked


def test_a_commit_names_the_member_and_its_epoch() -> None:
    named = OffsetCommitQuery("g", OFFSETS, Membership("m", 3, "i"), "")
    assert commit_as(2, VIEW) == [ReadMembership(), AskCoordinator(named)]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (VIEW, "has joined group 'g' since its last poll"),
        (
            replace(VIEW, epoch=0, state=MembershipState.JOINING),
            "is not in group 'g' now (waits for the coordinator to admit it)",
        ),
    ],
)
def test_a_commit_of_a_lost_membership_says_what_became_of_the_member(view: View, why: str) -> None:
    with pytest.raises(Refused) as refused:
        commit_as(1, view)
    assert why in refused.value.why


def test_a_commit_of_incarnation_0_names_no_member() -> None:
    unnamed = OffsetCommitQuery("g", OFFSETS, NO_MEMBER, "")
    assert commit_as(0, VIEW) == [AskCoordinator(unnamed)]


@pytest.mark.parametrize("view", [replace(VIEW, epoch=0), replace(VIEW, incarnation=3)])
def test_a_member_that_was_lost_commits_nothing(view: View) -> None:
    with pytest.raises(Refused) as error:
        commit_as(2, view)
    assert error.value.code is Code.UNKNOWN_MEMBER_ID


def refused_commit(code: Code, incarnation: int, topics: Topics) -> list[type]:
    """Return what a commit asks that is refused twice; topics: those that exist."""
    asked: list[type] = []

    def answer(query: Any) -> Any:
        asked.append(type(query))
        match query:
            case ReadMembership():
                return MembershipSnapshot(VIEW, 0, 0)
            case AskCoordinator() if asked.count(AskCoordinator) <= 2:
                raise Refused(code)
            case ExistingTopics():
                return topics
        return None

    request = CommitOffsets(OFFSETS, incarnation)
    run_rule(request_offsets(request, "g", None), answer)
    return asked


UNKNOWN_TOPIC = [Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("code", UNKNOWN_TOPIC)
def test_a_commit_is_sent_again_to_a_coordinator_that_does_not_know_its_topic_yet(
    code: Code,
) -> None:
    exists = Topics([Topic("t", PARTITION.topic_id, 1)])
    again = [AskCoordinator, ExistingTopics, PauseBeforeRetry]
    assert refused_commit(code, 0, exists) == [*again, *again, AskCoordinator]
    again = [ReadMembership, *again]
    assert refused_commit(code, 2, exists) == [*again, *again, ReadMembership, AskCoordinator]


@pytest.mark.parametrize("code", UNKNOWN_TOPIC)
@pytest.mark.parametrize("incarnation", [0, 2])
@pytest.mark.parametrize("topics", [Topics(), Topics([Topic("t", b"new".rjust(16), 1)])])
def test_a_commit_of_a_deleted_topic_is_not_sent_again(
    code: Code, incarnation: int, topics: Topics
) -> None:
    with pytest.raises(Refused) as error:
        refused_commit(code, incarnation, topics)
    assert error.value.code is code


def test_a_commit_with_a_stale_epoch_waits_for_the_next_one() -> None:
    again = [ReadMembership, AskCoordinator, AwaitNewEpoch]
    assert refused_commit(Code.STALE_MEMBER_EPOCH, 2, Topics()) == [
        *again,
        *again,
        ReadMembership,
        AskCoordinator,
    ]
