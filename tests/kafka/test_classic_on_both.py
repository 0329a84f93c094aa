"""Classic groups on our broker and on a real Kafka, told step by step: votes, deadlines, and what
is left after a start.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from tests.kafka.differential.classic_intended import INTENDED
from tests.kafka.differential.classic_members import pulsing
from tests.kafka.differential.classic_play import exchange, play_waiting
from tests.kafka.differential.classic_scripts import ClassicScript
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
from tests.kafka.differential.compare import make_pool, side_by_side
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import MemberView, Side
from tests.kafka.differential.steps import Fetch, Step

ALIKE: dict[str, Any] = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
AFTERWARDS = {"group.initial.rebalance.delay.ms": 1_000, "group.max.size": 3}
"""What is set on both when they start again."""
CROWDED = "crowded"
"""A group that has one member too many then."""
DIED = "died"
"""A group whose last generation was joined and has no assignment then."""
SESSION_MS = 1_000
BRIEF_MS = 1_500
"""How long members whose deadlines are to pass may take to join."""


Known = list[tuple[dict[str, str], dict[str, str], dict[tuple[str, str], MemberView]]]
"""What each side knows of members: their ids, their labels and their views."""
Restarted = tuple[tuple[Side, Side], dict[Any, Known]]
"""Both brokers after a start, and what each knew before, by script or group."""


@pytest.fixture(scope="module")
def sides(kafka: RealKafka) -> Iterator[tuple[Side, Side]]:
    """Our broker and the real one."""
    with side_by_side(kafka, **ALIKE) as both:
        yield both


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


def answered(sides: tuple[Side, Side], step: Join, by: slice = slice(None)) -> list[Plain]:
    """What both brokers answer to a step that has nobody to wait for, however slow the machine
    is; `by`: those of the two that do answer.
    """
    answers, until = [result["answer"] for result in exchange(sides, step)], time.monotonic() + 30
    while "parked" in answers[by]:
        assert time.monotonic() < until
        results = exchange(sides, DescribeClassic((step.group,)))
        answers = [
            result["late"].get(step.member, answer)
            for result, answer in zip(results, answers, strict=True)
        ]
    return answers


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


def test_an_undecodable_subscription_is_accepted_here_and_unanswered_by_kafka(
    sides: tuple[Side, Side],
) -> None:
    group = f"bytes-{time.time_ns()}"
    join = Join(group, "a", ((RANGE, b"range and more"),), version=3)
    ours, theirs = answered(sides, join, by=slice(1))
    # Kafka's coordinator handles the requests of a group in order: JoinGroup before this one.
    described = exchange(sides, DescribeClassic((group,)))[1]
    assert (ours["generation"], theirs, described["late"]) == (1, "parked", {})
    assert described["answer"][group]["state"] == "PreparingRebalance"


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


IN_A_DEAD_ONE: tuple[Plain, Plain] = ({"code": 27}, {"code": 22})
"""What a heartbeat is answered that names a generation which died with both brokers."""
IN_THE_SAVED_ONE: tuple[Plain, Plain] = ({"code": 27}, {"code": 0})
"""What one of the generation before is answered then: here the rebalance has begun again."""


@pytest.fixture(scope="module")
def restarted(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    """Both brokers after a start, and the authors of the scripts that were played before, with what
    each side knew then.

    From that start on groups that are empty wait for more members, and take three at the most.
    """
    directory = tmp_path_factory.mktemp("restarted")
    with RealKafka(
        jars, directory / "kafka", {name: str(value) for name, value in ALIKE.items()}
    ) as kafka:
        broker = EmbeddedBroker(directory / "apportion", **ALIKE)
        sides = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        for side in sides:
            side.prepare()
        make_pool(*sides)
        known: dict[Any, Known] = {}
        for seed in range(30):
            author = ClassicScript(seed, "restart")
            if play_waiting(seed, 15, author, sides, INTENDED).disagreements == []:
                known[author] = [(side.ids, side.labels, side.views) for side in sides]
        for side in sides:
            side.begin()
        assemble(sides, CROWDED, ((RANGE,),) * 4)
        for letter in "bcda":
            exchange(sides, Sync(CROWDED, letter, 2, version=2))
        known[CROWDED] = [(side.ids, side.labels, side.views) for side in sides]
        for side in sides:
            side.begin()
        assemble(sides, DIED, ((RANGE,),) * 2)
        both(sides, Sync(DIED, "b", 2, version=2))
        exchange(sides, Sync(DIED, "a", 2, (("a1", b"one"), ("b1", b"two")), 2))
        exchange(sides, joining(DIED, "c"))
        exchange(sides, joining(DIED, "b"))
        exchange(sides, joining(DIED, "a"))
        known[DIED] = [(side.ids, side.labels, side.views) for side in sides]
        kafka.kill()
        broker.close()
        properties = directory / "kafka" / "server.properties"
        properties.write_text(
            properties.read_text()
            + "".join(f"{name}={value}\n" for name, value in AFTERWARDS.items())
        )
        kafka.start()
        with EmbeddedBroker(directory / "apportion", **ALIKE | AFTERWARDS) as again:
            sides[0].bootstrap = again.bootstrap
            for side in sides:
                side.close()
                side.prepare()
            yield sides, known
            for side in sides:
                side.close()


def test_groups_are_the_same_after_both_brokers_have_started_again(restarted: Restarted) -> None:
    sides, known = restarted
    for author, remembered in known.items():
        if author not in (CROWDED, DIED):
            remember(sides, remembered)
            go_on(sides, author)
    assert len(known) > 20


def test_a_group_over_its_maximum_refuses_the_last_and_goes_on_at_once_only_here(
    restarted: Restarted,
) -> None:
    sides, known = restarted
    remember(sides, known[CROWDED])
    assert (
        both(sides, DescribeClassic((CROWDED,)))["answer"][CROWDED]["state"] == "PreparingRebalance"
    )
    for letter in "abc":
        assert both(sides, joining(CROWDED, letter))["answer"] == "parked"
    ours, theirs = exchange(sides, joining(CROWDED, "d"))
    assert (ours["answer"], theirs["late"]) == (theirs["answer"], {})
    assert (
        ours["answer"]["code"],
        {letter: each["generation"] for letter, each in ours["late"].items()},
    ) == (
        81,
        {"a": 3, "b": 3, "c": 3},
    )


def test_members_of_a_generation_that_died_keep_their_places_only_here(
    restarted: Restarted,
) -> None:
    sides, known = restarted
    remember(sides, known[DIED])
    assert both(sides, DescribeClassic((DIED,)))["answer"][DIED]["state"] == "Stable"
    for step in (Pulse(DIED, "a", 3, 2), Pulse(DIED, "b", 3, 2), Sync(DIED, "a", 3, version=2)):
        assert [result["answer"]["code"] for result in exchange(sides, step)] == [27, 22]
    assert both(sides, Pulse(DIED, "c", 3, 2))["answer"]["code"] == 25
    assert both(sides, Pulse(DIED, "a", 1, 2))["answer"]["code"] == 22
    answers = tuple(each["answer"] for each in exchange(sides, Pulse(DIED, "a", 2, 2)))
    assert answers == IN_THE_SAVED_ONE


def test_a_full_group_takes_nobody(restarted: Restarted) -> None:
    sides, _ = restarted
    group = f"full-{time.time_ns()}"
    for side in sides:
        side.begin()
    for letter in "abcd":
        both(sides, joining(group, letter))
    responses = live_on(sides, "abc", Pulse(group, "a", 1, 2))
    assert [{letter: result["code"] for letter, result in late.items()} for late in responses] == [
        {"a": 0, "b": 0, "c": 0}
    ] * 2
    assert both(sides, joining(group, "e"))["answer"]["code"] == 81
    assert both(sides, Join(group, "f", ((RANGE, b""),)))["answer"]["code"] == 81


def remember(sides: tuple[Side, Side], remembered: Known) -> None:
    """The sides know these members."""
    for side, ids_and_views in zip(sides, remembered, strict=True):
        side.hang_up()
        side.ids, side.labels, side.views = ids_and_views


def test_a_member_joining_during_the_initial_delay_is_in_the_first_generation(
    restarted: Restarted,
) -> None:
    sides, _ = restarted
    group = f"delay-{time.time_ns()}"
    for side in sides:
        side.begin()
    for letter in "abc":
        assert both(sides, joining(group, letter))["answer"] == "parked"
    late: list[dict[str, Plain]] = [{}, {}]
    until = time.monotonic() + 30
    while [len(each) for each in late] != [3, 3]:
        assert time.monotonic() < until
        for responses, result in zip(late, exchange(sides, DescribeClassic((group,))), strict=True):
            responses |= result["late"]
    assert late[0] == late[1]
    assert {(each["generation"], each["leader"]) for each in late[0].values()} == {(1, "a1")}


def go_on(sides: tuple[Side, Side], author: ClassicScript) -> None:
    """The group is what it was on both brokers, and its members go on alike, but for generations
    that have died: the first who names one begins its rebalance again, only here.
    """
    look = DescribeClassic((author.group,))
    both(sides, look)
    both(sides, Fetch(author.group, version=8))
    has_begun = False
    for actor in author.actors.values():
        if actor.label:
            pulse = pulsing(author, actor)
            ours, theirs = exchange(sides, pulse)
            is_told = has_begun and (ours["answer"], theirs["answer"]) == IN_THE_SAVED_ONE
            if ours != theirs and not is_told:
                assert is_above_the_saved_one(sides, pulse), pulse.line()
                has_begun = True
            both(sides, replace(pulse, generation=0))  # one that has long been gone
    if not has_begun:
        both(sides, look)
        return
    states = [result["answer"][author.group]["state"] for result in exchange(sides, look)]
    assert states == ["PreparingRebalance", "Stable"]


def is_above_the_saved_one(sides: tuple[Side, Side], pulse: Pulse) -> bool:
    """Whether the generation is later than the one that both brokers know since their start, and is
    answered as it is then.
    """
    for generation in range(pulse.generation, -1, -1):
        ours, theirs = exchange(sides, replace(pulse, generation=generation))
        if (ours["answer"], theirs["answer"]) != IN_A_DEAD_ONE:
            return (
                generation < pulse.generation
                and (ours["answer"], theirs["answer"]) == IN_THE_SAVED_ONE
            )
    return False
