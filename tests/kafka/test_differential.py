"""The same scripts on our broker and on a real Kafka: codes, epochs, states and assignments must
agree at every step.

differential/fleet.py says which scripts are played. What is meant to differ is a row of INTENDED
and of docs/differences.md; a row that a hundred scripts and more did not match is a failure too.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from apportion.coord.consumer import fencing, state
from tests.kafka.differential.compare import differences, play
from tests.kafka.differential.fleet import LENGTH, check, check_found, seeds_of
from tests.kafka.differential.intended import INTENDED, JOIN, MOVES, ODDITIES
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import (
    EMPTY,
    TOLD,
    Beat,
    Describe,
    ListGroups,
    Settle,
    Step,
)

ENOUGH = 300
"""So many scripts meet everything that is meant to differ."""
SESSION_MS = 6_000
ALIKE = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 1_000,
}
"""What the fixture sets on the real Kafka, too."""


def test_both_brokers_say_the_same_at_every_step(sides: tuple[Side, Side]) -> None:
    seeds = seeds_of(40, enough=ENOUGH)
    check(seeds, lambda seed, token: play(seed, LENGTH, token, *sides, INTENDED), 1)
    if len(MOVES.seen) > 50:  # fewer may go either way, because the brokers start from other owners
        assert sum(seen.ours - seen.theirs for seen in MOVES.seen) < 0, [
            seen.line() for seen in MOVES.seen
        ]
    stale = [
        row.name
        for row in INTENDED
        if not row.seen and row.name not in [odd for odd, _, _ in ODDITIES]
    ]
    assert len(seeds) < ENOUGH or stale == [], f"differences that were not seen any more: {stale}"


@pytest.mark.parametrize(("name", "script", "expected"), ODDITIES)
def test_an_oddity_of_kafka_is_still_there(
    sides: tuple[Side, Side],
    name: str,
    script: Callable[[str], list[Step]],
    expected: Callable[[str], list[tuple[tuple[str, ...], Plain, Plain]]],
) -> None:
    group = f"odd-{time.time_ns()}"
    for side in sides:
        side.begin()
    seen = []
    for step in script(group):
        seen = [
            each
            for each in differences(*(side.play(step) for side in sides))
            if each[0] != ("interval",)
        ]
    assert seen == expected(group)


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        ((None, None), "uniform"),
        ((None, None, "range"), "range"),
        (("range", "uniform", "range"), "range"),
        (("uniform", "range", "uniform", None, None), "uniform"),
    ],
)
def test_most_votes_choose_the_assignor(
    sides: tuple[Side, Side], votes: tuple[str | None, ...], chosen: str
) -> None:
    group = f"votes-{time.time_ns()}"
    for side in sides:
        side.begin()
        for letter, vote in zip("abcde", votes, strict=False):
            side.play(Beat(group, letter, **JOIN | {"topics": ("twelve",), "assignor": vote}))
    assert [side.play(Describe((group,)))[group]["assignor"] for side in sides] == [chosen, chosen]


VOTER: dict[str, Any] = JOIN | {"topics": ("six", "three")}


def static_members_vote_anew(group: str) -> list[Step]:
    """Two static members come back, and ask for another assignor (KAFKA-20434)."""
    return [
        *(Beat(group, name, instance=name, **VOTER) for name in "ab"),
        *(Beat(group, name, -2, instance=name) for name in "ab"),
        *(
            Beat(group, successor, instance=name, **VOTER | {"assignor": "uniform"})
            for name, successor in ("ac", "bd")
        ),
    ]


def a_member_votes_anew(group: str) -> list[Step]:
    """The only member asks for another assignor, and at last for the same one again."""
    return [
        Beat(group, "a", **VOTER),
        Beat(group, "a", 2, assignor="uniform"),
        Beat(group, "a", 3, assignor="uniform"),
    ]


def members_without_topics_vote(group: str) -> list[Step]:
    """The first member is against the default; later ones are outvoted, or decide."""
    voter = JOIN | {"topics": ()}
    return [
        Beat(group, "a", **voter),
        Beat(group, "b", **voter),
        Beat(group, "c", **voter | {"assignor": "uniform"}),
        Beat(group, "b", 2, assignor="uniform"),
    ]


def all_members_leave(group: str) -> list[Step]:
    """The last member leaves (KAFKA-20442)."""
    return [Beat(group, "a", **VOTER), Beat(group, "a", -1)]


@pytest.mark.parametrize(
    ("script", "epoch"),
    [
        (static_members_vote_anew, 4),
        (a_member_votes_anew, 3),
        (members_without_topics_vote, 3),
        (all_members_leave, 3),
    ],
)
def test_both_brokers_bump_the_epoch_alike(
    sides: tuple[Side, Side], script: Callable[[str], list[Step]], epoch: int
) -> None:
    group = f"{script.__name__}-{time.time_ns()}"
    for side in sides:
        side.begin()
        for step in script(group):
            assert side.play(step)["code"] == 0, (side.name, step.line())
    described = [side.play(Describe((group,)))[group] for side in sides]
    assert [(each["epoch"], each["assignment epoch"]) for each in described] == [(epoch, epoch)] * 2


def test_a_tie_of_votes_moves_the_epoch_with_each_round_there_alone(
    sides: tuple[Side, Side],
) -> None:
    group = f"tie-{time.time_ns()}"
    epochs = []
    for side in sides:
        side.begin()
        side.play(Beat(group, "a", **VOTER | {"assignor": "uniform"}))
        side.play(Beat(group, "b", **VOTER))
        settled = side.play(Settle(group, votes="tied"))
        epochs.append((settled["is quiet"], max(settled["epochs"].values()) > 40))
    assert epochs == [(True, False), (False, True)]


@pytest.mark.parametrize(
    "guard", ["may_use_previous_epoch", "has_released_instance", "is_blocked", "may_commit"]
)
def test_a_guard_that_is_switched_off_is_found(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    answers = {"is_blocked": False}
    monkeypatch.setattr(
        state if guard == "may_commit" else fencing, guard, lambda *asked: answers.get(guard, True)
    )
    check_found(guard, lambda seed, token: play(seed, LENGTH, token, *sides, INTENDED))


def test_a_member_silent_for_6_s_or_slow_for_1_s_is_removed_on_both_brokers(
    sides: tuple[Side, Side],
) -> None:
    group = f"silent-{time.time_ns()}"
    for side in sides:
        side.begin()
    join: dict[str, Any] = {"epoch": 0, "owned": EMPTY, "topics": ("four",), "assignor": "range"}
    responses = [
        both(sides, Beat(group, "slow", rebalance_ms=1_000, **join)),
        both(sides, Beat(group, "calm", rebalance_ms=60_000, **join)),
        both(sides, Beat(group, "away", rebalance_ms=60_000, instance="i", **join)),
        # is asked to give up something, and never does
        both(sides, Beat(group, "slow", 2, owned=TOLD)),
        both(sides, Beat(group, "away", -2, instance="i")),
    ]
    assert [answer["epoch"] for answer in responses] == [2, 3, 4, 2, -2]
    until(sides, group, {"calm", "away"}, beating="calm")
    assert both(sides, Beat(group, "slow", 2))["code"] == 25
    until(sides, group, {"calm"}, beating="calm")
    assert (
        both(
            sides,
            Beat(
                group, "away", 0, owned=EMPTY, topics=("four",), rebalance_ms=60_000, instance="i"
            ),
        )["code"]
        == 0
    )
    until(sides, group, set())
    assert both(sides, ListGroups(states=("empty",)))["groups"] == {
        group: ("consumer", "Empty", "consumer")
    }


def both(sides: tuple[Side, Side], step: Step) -> Plain:
    """What both brokers say, which is the same but for the interval."""
    ours, theirs = (side.play(step) for side in sides)
    if isinstance(step, Beat):
        ours = ours | {"interval": theirs["interval"]}
    assert ours == theirs, step.line()
    return ours


def until(sides: tuple[Side, Side], group: str, members: set[str], beating: Any = None) -> None:
    """On both brokers the group has come to have just these members, while one of them goes on and
    has what it is to have.
    """

    def is_so(described: dict[str, dict[str, Any]]) -> bool:
        if described["members"].keys() != members or not beating:
            return described["members"].keys() == members
        member: dict[str, object] = described["members"][beating]
        return member["epoch"] == described["epoch"] and member["assignment"] == member["target"]

    for side in sides:
        give_up = time.monotonic() + 30
        while not is_so(side.play(Describe((group,)))[group]):
            assert time.monotonic() < give_up, (side.name, members)
            for each in sides if beating else ():
                view = each.views[group, beating]
                each.play(Beat(group, beating, view.epoch, owned=TOLD))
            time.sleep(0.2)  # sessions are real time on a foreign broker
