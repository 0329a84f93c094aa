"""Laws of groups of classic members, and of both kinds, whatever happens: real members, a real
coordinator, any order.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.member.membership import MembershipState
from tests.member.simulated_group import REBALANCE_MS, SESSION_MS, GroupWorld

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


def play(history: list[tuple[str, Any]], kinds: dict[str, tuple[str, ...]]) -> GroupWorld:  # noqa: C901  (an arm for each event)
    """The world after a history of members of these kinds, and after it has come to rest."""
    world = GroupWorld(t=3)
    for name in NAMES[:2]:
        world.joins(name, *kinds[name])
        world.settle()
    for what, with_ in history:
        actor = world.actors.get(with_)
        match what:
            case "deliver" if world.mail:
                world.deliver(with_)
            case "deliver all" | "beat":
                world.wait(3_000 if what == "beat" else 0)
                world.deliver_all(
                    quick=[world.actors[name] for name in with_ if name in world.actors]
                )
            case "hear" if actor:
                world.deliver_to(actor)
            case "run" | "run and adopt" if actor:
                world.run(actor, adopts=what != "run")
            case "lose" if world.mail:
                world.lose(with_)
            case "adopt" if actor and not actor.left:
                world.adopts(actor)
            case "dawdle" if actor and not actor.left:
                world.dawdles(actor)
            case "cut" if actor:
                world.cut(actor)
            case "leave" if actor and not actor.left:
                world.leaves(actor)
            case "join" if actor is None or actor.left or actor.failed:
                world.joins(with_, *kinds[with_])
            case "wait":
                world.wait(with_)
            case "crash":
                world.crash()
            case "grow" if world.sizes["t"] < 6:
                world.grow("t")
    world.settle()
    return world


def sizes(world: GroupWorld) -> list[int]:
    return sorted(len(actor.view.owned) for actor in world.alive())


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
    world = GroupWorld()
    one, two = world.joins("a", "cooperative-sticky"), world.joins("b", "cooperative-sticky")
    world.settle()
    one.uses = (*one.uses, two.uses[0])
    with pytest.raises(AssertionError, match="'b', 'a'"):
        world.check()


def test_a_cooperative_member_never_stops_using_what_stays_with_it() -> None:
    world = GroupWorld(t=6)
    first = world.joins("a", "cooperative-sticky")
    world.settle()
    before = first.uses
    world.joins("b", "cooperative-sticky")
    world.settle()
    assert (len(first.uses), first.rebalanced_from) == (
        3,
        tuple(one for one in before if one not in first.uses),
    )


def test_an_owner_that_does_not_let_go_loses_its_place_and_nobody_waits_for_ever() -> None:
    world = GroupWorld()
    slow = world.joins("a", "range")
    world.settle()
    other = world.joins("b", "range")
    for _ in range(100):
        while world.mail:
            world.deliver(0)
            world.adopts(other)
        world.wait(500)
    assert (slow.view.incarnation, slow.uses) == (2, ())
    assert (other.view.state, len(other.uses)) == (MembershipState.JOINING, 0) or len(
        other.uses
    ) in (2, 4)
    world.settle()
    assert sizes(world) == [2, 2]


def test_what_an_owner_may_take_at_any_moment_is_given_to_nobody_else() -> None:
    world = GroupWorld(t=3)
    leader = world.joins("a", "cooperative-sticky")
    world.settle()
    slow = world.joins("b", "cooperative-sticky")
    while not slow.view.target:
        world.deliver_all(quick=[leader])
        world.wait(500)
    world.joins("c", "cooperative-sticky")
    while slow.view.state is not MembershipState.JOINING:
        world.wait(500)
        world.deliver_to(slow)
    for _ in range(10):  # all but the slow one hear of the next generation
        while others := [
            index
            for index, (whose, what, _) in enumerate(world.mail)
            if whose is not slow or what == "ask"
        ]:
            world.deliver(others[0])
            for actor in (leader, world.actors["c"]):
                world.adopts(actor)
        world.wait(500)
    assert slow.view.state is MembershipState.JOINING
    world.adopts(slow)
    assert slow.uses == slow.view.target != ()
    world.settle()
    assert sizes(world) == [1, 1, 1]


def test_what_was_offered_and_taken_back_cannot_be_used() -> None:
    world = GroupWorld(t=3)
    slow = world.joins("a", "cooperative-sticky")
    world.deliver_all(quick=[])
    world.dawdles(slow)  # it looks
    other = world.joins("b", "cooperative-sticky")
    for _ in range(4):
        world.wait(3_000)
        world.deliver_all(quick=[other])
    world.dawdles(slow)  # it does what it saw
    world.settle()
    assert sizes(world) == [1, 2]
