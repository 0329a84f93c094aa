"""The assignors by name: what they choose, and what they refuse."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.assignors import ASSIGNORS
from apportion.assign.heterogeneous import uniform_heterogeneous
from apportion.assign.range import range_assignment
from apportion.assign.subscriptions import Subscriptions
from apportion.assign.uniform import uniform_homogeneous


def vector(numbers: list[int] | npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.array(numbers, np.int32)


def test_uniform_is_first_as_in_kafka() -> None:
    assert list(ASSIGNORS) == ["uniform", "range"]


@st.composite
def equal_groups(draw: st.DrawFn) -> tuple[npt.NDArray[Any], npt.NDArray[Any], list[int], int]:
    """(owner, starts, topics that everybody wants, members)."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    members = draw(st.integers(1, 5))
    topics = draw(st.lists(st.integers(0, len(sizes) - 1), unique=True))
    owner = draw(st.lists(st.integers(-1, members - 1), min_size=sum(sizes), max_size=sum(sizes)))
    return vector(owner), vector(np.cumsum([0, *sizes])), topics, members


@settings(max_examples=200, deadline=None)
@given(equal_groups())
def test_for_equal_subscriptions_both_ways_are_as_fair_and_move_as_few(
    group: tuple[npt.NDArray[Any], npt.NDArray[Any], list[int], int],
) -> None:
    owner, starts, topics, members = group
    subscriptions = Subscriptions.of([topics] * members)
    quick = ASSIGNORS["uniform"](owner, starts, subscriptions)
    general = uniform_heterogeneous(owner, starts, subscriptions)
    wanted = np.repeat([topic in topics for topic in range(len(starts) - 1)], np.diff(starts))
    assert (quick[~wanted] == -1).all()
    assert (general[~wanted] == -1).all()
    quick, general, owner = quick[wanted], general[wanted], owner[wanted]
    assert sorted(np.bincount(quick, minlength=members)) == sorted(
        np.bincount(general, minlength=members)
    )
    assert ((quick != owner) & (owner >= 0)).sum() == ((general != owner) & (owner >= 0)).sum()
    assert quick.tolist() == uniform_homogeneous(owner, members).tolist()


def test_uniform_takes_the_general_way_for_different_subscriptions() -> None:
    owner, starts, subscriptions = (
        vector([-1] * 6),
        vector([0, 3, 6]),
        Subscriptions.of([[0], [0, 1]]),
    )
    assert ASSIGNORS["uniform"](owner, starts, subscriptions).tolist() == [0, 0, 0, 1, 1, 1]


def test_range_does_not_ask_who_owns_what() -> None:
    starts, subscriptions = vector([0, 3, 6]), Subscriptions.of([[0], [0, 1]])
    answer = ASSIGNORS["range"](vector([1, 1, 1, -1, -1, -1]), starts, subscriptions)
    assert answer.tolist() == range_assignment(starts, subscriptions).tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_a_group_without_members_gets_nothing(name: str) -> None:
    assert ASSIGNORS[name](vector([-1, -1]), vector([0, 2]), Subscriptions.of([])).tolist() == [
        -1,
        -1,
    ]


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize(
    "wants", [[[0, 2], [0, 2]], [[0], [2]]], ids=["homogeneous", "heterogeneous"]
)
def test_an_unknown_topic_is_refused(name: str, wants: list[list[int]]) -> None:
    with pytest.raises(
        ValueError, match="a member subscribes to topic 2, but there are 2 topics, counted from 0"
    ):
        ASSIGNORS[name](vector([-1, -1]), vector([0, 1, 2]), Subscriptions.of(wants))


@pytest.mark.parametrize("wants", [[[0], [0]], [[0], []]], ids=["homogeneous", "heterogeneous"])
def test_an_owner_that_is_no_member_is_refused(wants: list[list[int]]) -> None:
    with pytest.raises(
        ValueError, match="partition 1 is owned by member 2, but there are 2, counted from 0"
    ):
        ASSIGNORS["uniform"](vector([0, 2]), vector([0, 2]), Subscriptions.of(wants))


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize(
    "wants", [[[0, 0], [0, 0]], [[0, 0], []]], ids=["homogeneous", "heterogeneous"]
)
def test_a_topic_wanted_twice_by_one_member_is_refused(name: str, wants: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="member 0 subscribes to topic 0 twice"):
        ASSIGNORS[name](vector([-1]), vector([0, 1]), Subscriptions.of(wants))


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize("starts", [[], [0], [1, 2], [0, 3], [0, 2, 1, 2]])
def test_starts_that_do_not_cut_the_partitions_into_topics_are_refused(
    name: str, starts: list[int]
) -> None:
    with pytest.raises(ValueError, match="starts must rise from 0 to 2, the number of partitions"):
        ASSIGNORS[name](vector([-1, -1]), vector(starts), Subscriptions.of([[]]))


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_member_starts_that_do_not_cut_the_topics_are_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match="member_starts must rise from 0 to 1, the number of subscriptions"
    ):
        ASSIGNORS[name](vector([-1]), vector([0, 1]), Subscriptions(vector([0, 1, 3]), vector([0])))


@pytest.mark.parametrize(
    ("wants", "answer"),
    [
        ([], True),
        ([[]], True),
        ([[], []], True),
        ([[1]], True),
        ([[0, 1], [1, 0]], True),
        ([[0, 1], [0, 2]], False),
        ([[0], [0, 1]], False),
        ([[0], []], False),
        ([[], [0]], False),
    ],
)
def test_subscriptions_are_homogeneous_when_all_want_the_same_topics(
    wants: list[list[int]], answer: bool
) -> None:
    assert Subscriptions.of(wants).is_homogeneous is answer


def test_subscriptions_count_their_members() -> None:
    subscriptions: list[list[list[int]]] = [[], [[]], [[0], []]]
    assert [Subscriptions.of(wants).members for wants in subscriptions] == [0, 1, 2]


def test_each_member_of_a_homogeneous_group_has_the_topics_of_the_first_in_order() -> None:
    wants: list[list[list[int]]] = [[], [[], []], [[2, 0], [0, 2]]]
    each = [Subscriptions.of(topics).topics_of_each(3).tolist() for topics in wants]
    assert each == [[], [], [0, 2]]
