"""What a classic leader does with assignors that answer nonsense, or fail."""

from collections.abc import Mapping
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Code
from apportion.member.assignors.builtin import CooperativeSticky, Range
from apportion.member.assignors.interface import Rebalance
from apportion.member.membership import Failed
from tests.member.script_player import ASSIGNORS, ScriptPlayer
from tests.raising_lines import line_of_raise


class OverlappingAssignor(Range):
    """Gives everybody the same."""

    rebalances = (Rebalance.EAGER,)

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        return {member: Given(by_topic([("t", 0)])) for member in members}


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
        return {"m": Given(by_topic([("t", number) for number in range(4)]))}


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
    assignor: Range | CooperativeSticky, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ASSIGNORS, assignor.name, lambda: assignor)
    player = ScriptPlayer()
    for step in (f"new classic {assignor.name}", "joining"):
        player.play(step)
    player.play("answer 2 generation_id=1 leader=m members=m(t),n(t;owned=t-2)")
    assert player.play("metadata 3 t:4")[0] == "Lost"
    assert player.member.view().error == Failed(Code.INVALID_REQUEST, why)
    assert player.play("leave") == [
        '4 LeaveGroup members=(member_id=m reason="the consumer leaves")'
    ]
