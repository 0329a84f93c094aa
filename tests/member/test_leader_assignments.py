"""What a classic leader does with assignors that answer nonsense, or fail."""

from collections.abc import Mapping
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape
from apportion.errors import Code
from apportion.member.assignors.builtin import CooperativeSticky, Range
from apportion.member.assignors.interface import Rebalance
from apportion.member.membership import (
    Answered,
    CoordinatorFound,
    Failed,
    Leave,
    Lost,
    MetadataFetched,
    SendToCoordinator,
    Subscribe,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.member.classic_messages import SEEN, at, eager, joined, of_t
from tests.raising_lines import line_of_raise


class OverlappingAssignor(Range):
    """Gives everybody the same."""

    rebalances = (Rebalance.EAGER,)

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        return {member: Given(of_t(0)) for member in members}


KEY_ERROR = "the assignor 'range' failed: KeyError: 't'"


class RaisingAssignor(Range):
    """Fails."""

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        raise KeyError("t")


class LazyAnswer(dict[str, Given]):
    """An answer that fails when it is read."""

    def items(self) -> Any:
        raise KeyError("t")


class LazyAssignor(Range):
    """Gives an answer that fails when it is read."""

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        return LazyAnswer()


class OwnerIgnoringAssignor(CooperativeSticky):
    """Gives everything to the first member, also what another one still has."""

    name = "hasty"
    rebalances: Any = (Rebalance.COOPERATIVE,)

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        return {"m": Given(of_t(0, 1, 2, 3))}


class RenamedOwnerIgnoringAssignor(OwnerIgnoringAssignor):
    """The same, under a name that sorts before the one that is trusted."""

    name = "aloof"


OWNED = "the assignor gives partition 2 of 't' to 'm' while 'n' still owns it"


@pytest.mark.parametrize(
    ("assignor", "why"),
    [
        (OverlappingAssignor(), "the assignor gives partition 0 of 't' to 'n' and to 'm'"),
        (RaisingAssignor(), f"{KEY_ERROR} ({line_of_raise(RaisingAssignor.assign)})"),
        (LazyAssignor(), f"{KEY_ERROR} ({line_of_raise(LazyAnswer.items)})"),
        (OwnerIgnoringAssignor(), OWNED),
        (RenamedOwnerIgnoringAssignor(), OWNED),
    ],
)
def test_an_assignor_that_gives_nonsense_ends_the_leader_which_says_goodbye(
    assignor: Range | CooperativeSticky, why: str
) -> None:
    member = eager(assignors=(assignor,))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    owned = of_t(2) if why == OWNED else ()
    members = (("m", Subscription(("t",))), ("n", Subscription(("t",), owned=owned)))
    member.step(Answered(2, joined(1, *members, leader="m", name=assignor.name)), at(0))
    assert member.step(MetadataFetched(3, (SEEN,)), at(0)) == [
        Lost(1, ()),
        Failed(Code.INVALID_REQUEST, why),
    ]
    (send,) = member.step(Leave(), at(1))
    assert isinstance(send, SendToCoordinator)
    assert send.request == LeaveGroupRequest(
        group_id="g", members=(MemberIdentity(member_id="m", reason="the consumer leaves"),)
    )
