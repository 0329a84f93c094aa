"""Groups of both kinds on our broker and on a real Kafka after both have started again: what is
left of them, and how their members go on.
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
from tests.kafka.differential.classic_play import answered, exchange, play_waiting
from tests.kafka.differential.classic_scripts import ClassicScript
from tests.kafka.differential.classic_steps import (
    RANGE,
    DescribeClassic,
    Join,
    Pulse,
    Sync,
)
from tests.kafka.differential.compare import make_pool, play
from tests.kafka.differential.intended import INTENDED as CONSUMERS_INTENDED
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import MemberView, Side
from tests.kafka.differential.steps import TOLD, Beat, Describe, Fetch
from tests.kafka.test_classic_on_both import (
    ALIKE,
    BRIEF_MS,
    assemble,
    both,
    joining,
    live_on,
)
from tests.kafka.test_differential import both as consumers_both

BEFORE = ALIKE | {
    # A start takes a foreign broker some seconds, in which no session shall run out.
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.assignment.interval.ms": 0,
}
"""What is set on both when they start first."""
AFTERWARDS = {"group.initial.rebalance.delay.ms": 1_000, "group.max.size": 3}
"""What is set on both when they start again."""
CROWDED = "crowded"
"""A group that has one member too many then."""
DIED = "died"
"""A group whose last generation was joined and has no assignment then."""
STATIC = "static"
"""Another one, with a static member that stays away."""

STATIC_JOIN = Join(STATIC, "a", ((RANGE, b""),), version=5, instance="i", rebalance_ms=BRIEF_MS)
DYNAMIC_JOIN = joining(STATIC, "b", rebalance_ms=BRIEF_MS)

Known = list[tuple[dict[str, str], dict[str, str], dict[tuple[str, str], MemberView]]]
"""What each side knows of members: their ids, their labels and their views."""
Restarted = tuple[tuple[Side, Side], dict[Any, Known]]
"""Both brokers after a start, and what each knew before, by script or group."""

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
        jars, directory / "kafka", {name: str(value) for name, value in BEFORE.items()}
    ) as kafka:
        broker = EmbeddedBroker(directory / "apportion", **BEFORE)
        sides = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        for side in sides:
            side.prepare()
        make_pool(*sides)
        known = played(sides)
        kafka.kill()
        broker.close()
        properties = directory / "kafka" / "server.properties"
        properties.write_text(
            properties.read_text()
            + "".join(f"{name}={value}\n" for name, value in AFTERWARDS.items())
        )
        kafka.start()
        with EmbeddedBroker(directory / "apportion", **BEFORE | AFTERWARDS) as again:
            sides[0].bootstrap = again.bootstrap
            for side in sides:
                side.close()
                side.prepare()
            yield sides, known
            for side in sides:
                side.close()


def played(sides: tuple[Side, Side]) -> dict[Any, Known]:
    """What has happened before the start, and what each side knew then."""
    known: dict[Any, Known] = {}

    def keep(name: Any) -> None:
        known[name] = [(side.ids, side.labels, side.views) for side in sides]
        for side in sides:
            side.begin()

    for seed in range(30):
        author = ClassicScript(seed, "restart")
        if play_waiting(seed, 15, author, sides, INTENDED).disagreements == []:
            keep(author)
    for side in sides:
        side.begin()
    assemble(sides, CROWDED, ((RANGE,),) * 4)
    for letter in "bcda":
        exchange(sides, Sync(CROWDED, letter, 2, version=2))
    keep(CROWDED)
    # Late, because their members have sessions of 45 s.
    for seed in (seed for seed in range(40) if seed % 4 < 3):
        script = play(seed, 20, "restart", *sides, CONSUMERS_INTENDED)
        assert script.disagreements == []
        if not script.has_parted:
            keep(f"group-{seed}-restart")
    for side in sides:
        side.begin()
    assemble(sides, DIED, ((RANGE,),) * 2)
    both(sides, Sync(DIED, "b", 2, version=2))
    exchange(sides, Sync(DIED, "a", 2, (("a1", b"one"), ("b1", b"two")), 2))
    for letter in "cba":
        exchange(sides, joining(DIED, letter))
    keep(DIED)
    # Last, because its members may take no longer to join than BRIEF_MS.
    answered(sides, STATIC_JOIN)
    exchange(sides, DYNAMIC_JOIN)
    answered(sides, STATIC_JOIN)
    both(sides, Sync(STATIC, "b", 2, version=2))
    exchange(sides, Sync(STATIC, "a", 2, (("a1", b"one"), ("b1", b"two")), 3, instance="i"))
    exchange(sides, DYNAMIC_JOIN)
    answered(sides, STATIC_JOIN)
    keep(STATIC)
    return known


def test_groups_are_the_same_after_both_brokers_have_started_again(restarted: Restarted) -> None:
    sides, known = restarted
    # Those with sessions of 45 s go on first.
    for group in [each for each in known if str(each).startswith("group-")]:
        remember(sides, known[group])
        go_on_as_consumers(sides, group)
    authors = [each for each in known if isinstance(each, ClassicScript)]
    for author in authors:
        remember(sides, known[author])
        go_on(sides, author)
    assert (len(authors) > 17, len(known) - len(authors) > 20) == (True, True)


def go_on_as_consumers(sides: tuple[Side, Side], group: str) -> None:
    """The group is what it was on both brokers, and its members go on alike."""
    consumers_both(sides, Describe((group,)))
    consumers_both(sides, Fetch(group, version=8))
    for (where, letter), view in sorted(sides[1].views.items()):
        if where == group:
            beat = Beat(group, letter, view.epoch, owned=TOLD, instance=view.instance)
            consumers_both(sides, beat)
    consumers_both(sides, Describe((group,)))


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


def test_a_static_member_of_a_dead_generation_is_one_of_the_next_only_on_kafka(
    restarted: Restarted,
) -> None:
    sides, known = restarted
    remember(sides, known[STATIC])
    responses = answered(sides, replace(DYNAMIC_JOIN, member="c"))
    assert [(each["generation"], each["leader"]) for each in responses] == [(3, "c1")] * 2
    pulses = exchange(sides, Pulse(STATIC, "a", 3, instance="i"))
    assert [result["answer"]["code"] for result in pulses] == [25, 0]


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
