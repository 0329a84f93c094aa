"""Classic groups on our broker and on a real Kafka, told step by step: votes and deadlines."""

import time
from typing import Any

import pytest

from tests.kafka.differential.classic_play import answered, exchange
from tests.kafka.differential.classic_steps import (
    RANGE,
    ROUND_ROBIN,
    STICKY,
    DescribeClassic,
    Join,
    Leave,
    Pulse,
    Sync,
)
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import Step

ALIKE: dict[str, Any] = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
SESSION_MS = 1_000
BRIEF_MS = 3_000
"""How long members whose deadlines are to pass may take to join: longer than one broker may be
behind the other (PATIENCE_S).
"""


@pytest.fixture(autouse=True)
def no_members(request: pytest.FixtureRequest) -> None:
    """No member is known at first."""
    if "sides" in request.fixturenames:
        for side in request.getfixturevalue("sides"):
            side.begin()


def both(sides: tuple[Side, Side], step: Step) -> Plain:
    """What both brokers say, which is the same, late answers included."""
    ours, theirs = exchange(sides, step)
    assert ours == theirs, step.line()
    return ours


def joining(group: str, letter: str, *names: str, **fields: Any) -> Join:
    """The first words of a member, in a version in which one step is enough."""
    return Join(
        group, letter, tuple((name, b"") for name in names or (RANGE,)), version=3, **fields
    )


def assemble(
    sides: tuple[Side, Side], group: str, ballots: tuple[tuple[str, ...], ...]
) -> list[Plain]:
    """A generation of all these members; what the first of them is told on each broker."""
    answered(sides, joining(group, "a", *ballots[0]))
    for letter, names in zip("bcdefg", ballots[1:], strict=False):
        exchange(sides, joining(group, letter, *names))
    return answered(sides, joining(group, "a", *ballots[0]))


@pytest.mark.parametrize(
    ("ballots", "chosen"),
    [
        (((RANGE,), (ROUND_ROBIN, RANGE)), RANGE),
        (((RANGE, ROUND_ROBIN), (ROUND_ROBIN, RANGE), (ROUND_ROBIN, RANGE)), ROUND_ROBIN),
        (((STICKY, RANGE, ROUND_ROBIN), (RANGE, ROUND_ROBIN), (ROUND_ROBIN, RANGE)), RANGE),
        (
            (
                (STICKY, ROUND_ROBIN, RANGE),
                (RANGE, ROUND_ROBIN, STICKY),
                (STICKY, ROUND_ROBIN, RANGE),
            ),
            STICKY,
        ),
    ],
)
def test_most_votes_choose_the_protocol(
    sides: tuple[Side, Side], ballots: tuple[tuple[str, ...], ...], chosen: str
) -> None:
    responses = assemble(sides, f"votes-{time.time_ns()}", ballots)
    assert [
        (each["code"], each["generation"], each["protocol"], len(each["members"]))
        for each in responses
    ] == [(0, 2, chosen, len(ballots))] * 2


def test_a_tie_is_broken_by_name_here_and_somehow_on_kafka(sides: tuple[Side, Side]) -> None:
    ours, theirs = assemble(sides, f"tie-{time.time_ns()}", ((STICKY, RANGE), (RANGE, STICKY)))
    assert (ours["protocol"], theirs["protocol"] in (RANGE, STICKY)) == (RANGE, True)


def test_an_undecodable_subscription_is_accepted_on_both_brokers(
    sides: tuple[Side, Side],
) -> None:
    group = f"bytes-{time.time_ns()}"
    join = Join(group, "a", ((RANGE, b"range and more"),), version=3)
    ours, theirs = answered(sides, join, by=slice(1))
    described = [result["answer"][group] for result in exchange(sides, DescribeClassic((group,)))]
    assert (ours["generation"], theirs["generation"]) == (1, 1)
    assert [each["state"] for each in described] == ["CompletingRebalance"] * 2


def live_on(sides: tuple[Side, Side], letters: str, *pulses: Pulse) -> list[dict[str, Plain]]:
    """What came of everything that was asked before, by member, once all these are answered; others
    give signs of life.
    """
    late: list[dict[str, Plain]] = [{}, {}]
    give_up = time.monotonic() + 30
    while any(each.keys() != set(letters) for each in late):
        assert time.monotonic() < give_up, late
        for pulse in pulses:
            for answered_late, result in zip(late, exchange(sides, pulse), strict=True):
                answered_late |= result["late"]
    return late


def test_a_silent_or_slow_member_is_removed_on_both_brokers(sides: tuple[Side, Side]) -> None:
    now = time.time_ns()
    silent, slow, idle, pending = (
        f"{word}-{now}" for word in ("silent", "slow", "idle", "pending")
    )
    brief = {"session_ms": SESSION_MS, "rebalance_ms": BRIEF_MS}
    # One of two is silent, and the other is told to join again.
    for step in (
        joining(silent, "a", **brief),
        joining(silent, "b", session_ms=30_000, rebalance_ms=30_000),
    ):
        both(sides, step)
    both(sides, joining(silent, "a", **brief))
    both(sides, Sync(silent, "b", 2, version=2))
    both(sides, Sync(silent, "a", 2, (("a1", b"x"), ("b1", b"y")), version=2))
    # One of three does not join again: a dynamic member is dropped, a static one keeps its place
    # and loses the lead.
    for letter in "cd":
        both(sides, joining(slow, letter, session_ms=30_000, rebalance_ms=BRIEF_MS))
    both(sides, joining(slow, "c", session_ms=30_000, rebalance_ms=BRIEF_MS))
    both(sides, Sync(slow, "c", 2, (), version=2))
    both(sides, joining(slow, "e", session_ms=30_000, rebalance_ms=BRIEF_MS))
    both(sides, joining(slow, "d", session_ms=30_000, rebalance_ms=BRIEF_MS))
    # The leader brings nothing: whoever did not sync is out.
    for letter in "fg":
        both(sides, joining(idle, letter, session_ms=30_000, rebalance_ms=BRIEF_MS))
    both(sides, joining(idle, "f", session_ms=30_000, rebalance_ms=BRIEF_MS))
    both(sides, Sync(idle, "g", 2, version=2))
    # An id that was handed out is not used in time.
    both(sides, Join(pending, "h", ((RANGE, b""),), session_ms=SESSION_MS))
    responses = live_on(
        sides, "deg", Pulse(silent, "b", 2, 2), Pulse(slow, "c", 2, 2), Pulse(idle, "f", 2, 2)
    )
    outcomes = [
        {letter: (result["code"], result.get("generation")) for letter, result in late.items()}
        for late in responses
    ]
    assert outcomes == [{"d": (0, 3), "e": (0, 3), "g": (27, None)}] * 2
    assert both(sides, Pulse(silent, "b", 2, 2))["answer"] == {"code": 27}
    assert both(sides, Join(pending, "h", ((RANGE, b""),)))["answer"]["code"] == 25
    for group in (silent, slow, idle, pending):
        ours, theirs = (result["answer"] for result in exchange(sides, DescribeClassic((group,))))
        assert ours == theirs
    for group in (silent, slow, idle):
        exchange(sides, Leave(group, tuple((f"{letter}1", None) for letter in "abcdefg")))


def test_a_repeated_join_answers_the_first_one_here_and_not_on_kafka(
    sides: tuple[Side, Side],
) -> None:
    group = f"twice-{time.time_ns()}"
    assemble(sides, group, ((RANGE,), (RANGE,)))
    for letter in "ab":
        both(sides, Sync(group, letter, 2, version=2))
    assert both(sides, joining(group, "a"))["answer"] == "parked"
    codes = []
    for again in (
        joining(group, "x", member_id="a1"),
        joining(group, "b"),
        Sync(group, "b", 3, version=2),
    ):
        codes.append([result["late"].get("a", {}).get("code") for result in exchange(sides, again)])
    again = Sync(group, "y", 3, version=2, member_id="b1")
    codes.append([result["late"].get("b", {}).get("code") for result in exchange(sides, again)])
    assert codes == [[27, None], [None, None], [None, None], [27, None]]
    given = (("a1", b"one"), ("b1", b"two"))
    ours, theirs = (
        result["late"]["y"]["assignment"]
        for result in exchange(sides, Sync(group, "z", 3, given, 2, "a1"))
    )
    assert (ours, theirs) == (b"two", b"two")
