"""What a member cannot vote for is refused with what to write instead."""

from collections.abc import Generator, Mapping
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.member.assignors.builtin import Range, RoundRobin
from apportion.member.assignors.interface import Assignor, Rebalance
from apportion.member.assignors.strategy import local_assignors, strategy
from apportion.member.classic.requests import ClassicSettings


class Nameless(Assignor):
    """All that an assignor needs but the name."""

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given] | Generator[Any, Any, dict[str, Given]]:
        return {member: Given(by_topic([])) for member in members}


def test_names_and_objects_may_be_mixed_and_the_order_stays() -> None:
    mine = RoundRobin()
    first, second = strategy(["range", mine])
    assert (type(first), second) == (Range, mine)


def test_the_assignor_that_the_group_has_chosen_is_found_by_its_name_in_any_order() -> None:
    settings = ClassicSettings("g", assignors=strategy(["sticky", "range"]))
    found = [settings.assignor_or_none(name) for name in ("range", "sticky", "roundrobin")]
    assert found == [settings.assignors[1], settings.assignors[0], None]


def test_a_name_of_a_module_and_a_class_stands_for_a_new_object_of_it() -> None:
    assignors = strategy("apportion.member.assignors.builtin:Range")
    assert [type(each) for each in assignors] == [Range]


MINE = RoundRobin()


def test_a_name_of_a_module_and_an_object_is_refused_as_members_would_share_it() -> None:
    with pytest.raises(ValueError) as refusal:
        strategy(f"{__name__}:MINE")
    assert str(refusal.value) == (
        f"the assignor {__name__}:MINE is no class: name one, of which each member makes its own "
        "object"
    )


def test_a_consumer_group_wants_no_rebalance_protocol_in_common() -> None:
    mine = RoundRobin()
    assert local_assignors([mine, "cooperative-sticky"])[0] is mine
    assert local_assignors() == ()


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (
            "range,roundrobin",
            "there is no assignor 'range,roundrobin': give several as a tuple, ('range', "
            "'roundrobin')",
        ),
        (
            ("range, sticky",),
            "there is no assignor 'range, sticky': give several as a tuple, ('range', 'sticky')",
        ),
        ("range,", "there is no assignor 'range,': give several as a tuple, ('range',)"),
        (Range, "the class Range is no assignor: give a name, or an object, Range()"),
        ([Nameless], "the class Nameless is no assignor: give a name, or an object, Nameless()"),
        (
            Nameless(),  # type: ignore[abstract]
            "the assignor Nameless has no name: give it one, `name`, for which all its "
            "members vote",
        ),
        (
            int,
            "<class 'int'> is no assignor: give a name, or an object with the methods of "
            "apportion's Assignor",
        ),
        (7, "7 is no assignor: give a name, or an object with the methods of apportion's Assignor"),
    ],
)
def test_an_unknown_assignor_is_refused_with_the_remedy(wanted: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        strategy(wanted)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("spoilt", "sentence"),
    [
        (
            {"name": 7},
            "the name of the assignor Spoilt must be a string, for which all its members vote, "
            "not 7",
        ),
        (
            {"name": ""},
            "the assignor Spoilt has no name: give it one, `name`, for which all its members vote",
        ),
        (
            {"rebalances": Rebalance.COOPERATIVE},
            "the `rebalances` of the assignor Spoilt must be a tuple such as "
            "(Rebalance.COOPERATIVE,), "
            "not <Rebalance.COOPERATIVE: 1>",
        ),
        (
            {"rebalances": ("eager",)},
            "the `rebalances` of the assignor Spoilt must be a tuple such as "
            "(Rebalance.COOPERATIVE,), not ('eager',)",
        ),
        (
            {"rebalances": "eager"},
            "the `rebalances` of the assignor Spoilt must be a tuple such as "
            "(Rebalance.COOPERATIVE,), not 'eager'",
        ),
        (
            {"assign": None},
            "the assignor Spoilt has no method 'assign': subclass Assignor and write what you need",
        ),
        (
            {"on_assignment": 7},
            "the assignor Spoilt has no method 'on_assignment': subclass Assignor and "
            "write what you need",
        ),
    ],
)
def test_an_assignor_that_a_member_could_not_use_is_refused_before_it_votes(
    spoilt: dict[str, int | str | tuple[str, ...] | None], sentence: str
) -> None:
    assignor = type("Spoilt", (Range,), spoilt)()
    with pytest.raises(ValueError) as refusal:
        strategy(["roundrobin", assignor])
    assert str(refusal.value) == sentence
