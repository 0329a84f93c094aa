"""Laws of groups of classic members, and of both kinds, whatever happens: real members, a real
coordinator, any order.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.member.membership import MembershipState
from tests.member.simulated_group import REBALANCE_MS, SESSION_MS, SimulatedGroup

NAMES = ("a", "b", "c")
who = st.sampled_from(NAMES)
ONWARDS = [
    st.tuples(st.just("deliver"), st.integers(0, 7)),
    st.tuples(st.sampled_from(["run", "run and adopt", "adopt"]), who),
    st.tuples(st.sampled_from(["hear", "dawdle"]), who),
    st.tuples(st.just("wait"), st.sampled_from([10, 3_000])),
    st.tuples(
        st.sampled_from(["deliver all", "beat"]),
        st.sampled_from(["", "a", "b", "c", "ab", "bc", "abc"]),
    ),
]
CHANGES = [st.tuples(st.sampled_from(["join", "join", "leave"]), who)]
BACKWARDS = [
    st.tuples(st.just("wait"), st.sampled_from([500, SESSION_MS, REBALANCE_MS])),
    st.tuples(st.just("lose"), st.integers(0, 7)),
    st.tuples(st.just("cut"), who),
    st.tuples(st.sampled_from(["crash", "grow"]), st.none()),
]
happenings = st.lists(st.one_of(*ONWARDS * 3, *CHANGES * 2, *BACKWARDS), min_size=20, max_size=100)


def play(history: list[tuple[str, Any]], kinds: dict[str, tuple[str, ...]]) -> SimulatedGroup:  # noqa: C901  (an arm for each event)
    """The group after a history of members of these kinds, and after it has come to rest."""
    group = SimulatedGroup(t=3)
    for name in NAMES[:2]:
        group.joins(name, *kinds[name])
        group.settle()
    for what, with_ in history:
        actor = group.actors.get(with_)
        match what:
            case "deliver" if group.mail:
                group.deliver(with_)
            case "deliver all" | "beat":
                group.wait(3_000 if what == "beat" else 0)
                group.deliver_all(
                    quick=[group.actors[name] for name in with_ if name in group.actors]
                )
            case "hear" if actor:
                group.deliver_to(actor)
            case "run" | "run and adopt" if actor:
                group.run(actor, adopts=what != "run")
            case "lose" if group.mail:
                group.lose(with_)
            case "adopt" if actor and not actor.left:
                group.adopts(actor)
            case "dawdle" if actor and not actor.left:
                group.dawdles(actor)
            case "cut" if actor:
                group.cut(actor)
            case "leave" if actor and not actor.left:
                group.leaves(actor)
            case "join" if actor is None or actor.left or actor.failed:
                group.joins(with_, *kinds[with_])
            case "wait":
                group.wait(with_)
            case "crash":
                group.crash()
            case "grow" if group.sizes["t"] < 6:
                group.grow("t")
    group.settle()
    return group


def sizes(group: SimulatedGroup) -> list[int]:
    return sorted(len(actor.view.owned) for actor in group.alive())


@settings(max_examples=120, deadline=None)
@given(happenings, st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]))
def test_a_classic_group_never_has_two_owners_and_always_comes_to_rest_fairly(
    history: list[tuple[str, Any]], assignor: str
) -> None:
    shares = sizes(play(history, dict.fromkeys(NAMES, (assignor,))))
    assert not shares or max(shares) - min(shares) <= 1


@settings(max_examples=60, deadline=None)
@given(
    happenings,
    st.tuples(
        *[st.sampled_from([("cooperative-sticky",), ("range", "cooperative-sticky"), ()])] * 3
    ),
)
def test_a_group_of_both_kinds_never_has_two_owners_and_always_comes_to_rest(
    history: list[tuple[str, Any]], kinds: tuple[tuple[str, ...], ...]
) -> None:
    play(history, dict(zip(NAMES, kinds, strict=True)))


def test_the_world_sees_two_owners() -> None:
    group = SimulatedGroup()
    one, two = group.joins("a", "cooperative-sticky"), group.joins("b", "cooperative-sticky")
    group.settle()
    one.uses = (*one.uses, two.uses[0])
    with pytest.raises(AssertionError, match="'b', 'a'"):
        group.check()


def test_a_cooperative_member_never_stops_using_what_stays_with_it() -> None:
    group = SimulatedGroup(t=6)
    first = group.joins("a", "cooperative-sticky")
    group.settle()
    before = first.uses
    group.joins("b", "cooperative-sticky")
    group.settle()
    assert (len(first.uses), first.rebalanced_from) == (
        3,
        tuple(one for one in before if one not in first.uses),
    )


def test_an_owner_that_does_not_let_go_loses_its_place_and_nobody_waits_for_ever() -> None:
    group = SimulatedGroup()
    slow = group.joins("a", "range")
    group.settle()
    other = group.joins("b", "range")
    for _ in range(100):
        while group.mail:
            group.deliver(0)
            group.adopts(other)
        group.wait(500)
    assert (slow.view.incarnation, slow.uses) == (2, ())
    assert (other.view.state, len(other.uses)) == (MembershipState.JOINING, 0) or len(
        other.uses
    ) in (2, 4)
    group.settle()
    assert sizes(group) == [2, 2]


def test_an_offered_partition_is_given_to_nobody_else() -> None:
    group = SimulatedGroup(t=3)
    leader = group.joins("a", "cooperative-sticky")
    group.settle()
    slow = group.joins("b", "cooperative-sticky")
    while not slow.view.target:
        group.deliver_all(quick=[leader])
        group.wait(500)
    group.joins("c", "cooperative-sticky")
    while slow.view.state is not MembershipState.JOINING:
        group.wait(500)
        group.deliver_to(slow)
    for _ in range(10):  # all but the slow one hear of the next generation
        while others := [
            index
            for index, (whose, what, _) in enumerate(group.mail)
            if whose is not slow or what == "ask"
        ]:
            group.deliver(others[0])
            for actor in (leader, group.actors["c"]):
                group.adopts(actor)
        group.wait(500)
    assert slow.view.state is MembershipState.JOINING
    group.adopts(slow)
    assert slow.uses == slow.view.target != ()
    group.settle()
    assert sizes(group) == [1, 1, 1]


def test_a_withdrawn_offer_cannot_be_adopted() -> None:
    group = SimulatedGroup(t=3)
    slow = group.joins("a", "cooperative-sticky")
    group.deliver_all(quick=[])
    group.dawdles(slow)  # it looks
    other = group.joins("b", "cooperative-sticky")
    for _ in range(4):
        group.wait(3_000)
        group.deliver_all(quick=[other])
    group.dawdles(slow)  # it does what it saw
    group.settle()
    assert sizes(group) == [1, 2]
