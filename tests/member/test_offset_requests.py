"""The rule of a member's requests about offsets."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.offsets import NO_MEMBER, Membership, OffsetCommitQuery
from apportion.member.membership import MembershipState, View
from apportion.member.offset_requests import request_offsets
from apportion.member.queries import (
    AskCoordinator,
    CommitOffsets,
    FetchCommitted,
    MembershipSnapshot,
    ReadMembership,
)
from apportion.rules import run_rule
from apportion.topics import TopicIdPartition

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
        return MembershipSnapshot(view, 0) if isinstance(query, ReadMembership) else None

    rule = request_offsets(CommitOffsets(OFFSETS, incarnation), "g", "i")
    run_rule(rule, answer)
    return asked


def test_a_commit_names_the_member_and_its_epoch() -> None:
    named = OffsetCommitQuery("g", OFFSETS, Membership("m", 3, "i"), "")
    assert commit_as(2, VIEW) == [ReadMembership(), AskCoordinator(named)]


def test_a_commit_of_incarnation_0_names_no_member() -> None:
    unnamed = OffsetCommitQuery("g", OFFSETS, NO_MEMBER, "")
    assert commit_as(0, VIEW) == [AskCoordinator(unnamed)]


@pytest.mark.parametrize("view", [replace(VIEW, epoch=0), replace(VIEW, incarnation=3)])
def test_a_member_that_was_lost_commits_nothing(view: View) -> None:
    with pytest.raises(Refused) as error:
        commit_as(2, view)
    assert error.value.code is Code.UNKNOWN_MEMBER_ID
