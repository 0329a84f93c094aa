"""The same scripts on our broker and on a real Kafka: codes, epochs, states and assignments must
agree at every step.

A script is a seed: `APPORTION_DIFFERENTIAL_SEED=17` plays that one alone,
`APPORTION_DIFFERENTIAL_SCRIPTS=5000` plays a fleet. What is meant to differ is a row of INTENDED
and of docs/differences.md; a row that nothing matched any more is a failure too.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.coord.consumer import fencing, state
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from tests.kafka.differential.compare import differences, make_pool, play, side_by_side
from tests.kafka.differential.intended import INTENDED, JOIN, MOVES, ODDITIES
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import (
    EMPTY,
    TOLD,
    Beat,
    Describe,
    Fetch,
    ListGroups,
    Step,
)

SCRIPTS = int(os.environ.get("APPORTION_DIFFERENTIAL_SCRIPTS", "300"))
FIRST = int(os.environ.get("APPORTION_DIFFERENTIAL_FIRST", "0"))
ONE_SEED = os.environ.get("APPORTION_DIFFERENTIAL_SEED")
LENGTH = 30
SESSION_MS = 6_000
ALIKE = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 1_000,
}
"""What the fixture sets on the real Kafka, too."""

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"


@pytest.fixture(scope="module")
def sides(kafka: RealKafka) -> Iterator[tuple[Side, Side]]:
    """Our broker and the real one, with the topics that scripts share."""
    with side_by_side(kafka, **ALIKE) as both:
        yield both


def test_both_brokers_say_the_same_at_every_step(sides: tuple[Side, Side]) -> None:
    seeds = range(FIRST, FIRST + SCRIPTS) if ONE_SEED is None else [int(ONE_SEED)]
    reports: list[str]
    unsteady: list[str]
    started, steps, reports, unsteady = time.monotonic(), 0, [], []
    for seed in seeds:
        played = play(seed, LENGTH, "first", *sides, INTENDED)
        steps += len(played.script)
        if not played.disagreements:
            continue
        # A session may have run out on a slow machine, or a real Kafka's coordinator not have heard
        # of a topic yet.
        again = play(seed, LENGTH, "again", *sides, INTENDED)
        (reports if again.disagreements else unsteady).append(
            (again if again.disagreements else played).report()
        )
        if len(reports) == 5:
            break
    print(
        f"{len(seeds)} scripts, {steps} steps, {time.monotonic() - started:.0f} s, "
        f"{len(unsteady)} only once in disagreement"
    )
    assert reports == [], "\n\n".join(reports)
    assert len(unsteady) <= 1 + len(seeds) // 100, "\n\n".join(unsteady)
    if len(MOVES.seen) > 50:  # fewer may go either way, because the brokers start from other owners
        assert sum(seen.ours - seen.theirs for seen in MOVES.seen) < 0, [
            seen.line() for seen in MOVES.seen
        ]
    stale = [
        row.name
        for row in INTENDED
        if not row.seen and row.name not in [odd for odd, _, _ in ODDITIES]
    ]
    assert len(seeds) < 100 or stale == [], f"differences that were not seen any more: {stale}"


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
    reports = (play(seed, LENGTH, guard, *sides, INTENDED) for seed in range(SCRIPTS))
    report = next((played.report() for played in reports if played.disagreements), "")
    print(report)
    assert "the brokers disagree after" in report


def test_every_intended_difference_is_told_to_users() -> None:
    documented = re.findall(r"^\| ([^|]+) \|", DIFFERENCES.read_text(), re.MULTILINE)
    assert [
        name
        for name in [row.name for row in INTENDED] + [row[0] for row in ODDITIES]
        if name not in documented
    ] == []


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


PATIENT: dict[str, Any] = ALIKE | {
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.assignment.interval.ms": 0,
}
"""A start takes a foreign broker some seconds, in which no session shall run out. A heartbeat that
needs a new target computes it.
"""


def test_groups_are_the_same_after_both_brokers_have_started_again(
    jars: Path, tmp_path: Path
) -> None:
    settings = {name: str(value) for name, value in PATIENT.items()}
    with RealKafka(jars, tmp_path / "kafka", settings) as kafka:
        broker = EmbeddedBroker(tmp_path / "apportion", **PATIENT)
        sides = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        for side in sides:
            side.prepare()
        make_pool(*sides)
        views = {}
        for seed in (seed for seed in range(60) if seed % 4 < 3):
            played = play(seed, 20, "restart", *sides, INTENDED)
            assert played.disagreements == []
            if not played.has_parted:
                views[f"group-{seed}-restart"] = [side.views for side in sides]
        kafka.kill()
        broker.close()
        kafka.start()
        with EmbeddedBroker(tmp_path / "apportion", **PATIENT) as again:
            sides[0].bootstrap = again.bootstrap
            for side in sides:
                side.close()
                side.prepare()
            for group, known_views in views.items():
                sides[0].views, sides[1].views = known_views
                go_on(sides, group)
            for side in sides:
                side.close()


def go_on(sides: tuple[Side, Side], group: str) -> None:
    """The group is what it was on both brokers, and its members go on alike."""
    both(sides, Describe((group,)))
    both(sides, Fetch(group, version=8))
    for (where, letter), view in sorted(sides[1].views.items()):
        if where == group:
            both(sides, Beat(group, letter, view.epoch, owned=TOLD, instance=view.instance))
    both(sides, Describe((group,)))


def both(sides: tuple[Side, Side], step: Step) -> Plain:
    """What both brokers say, which is the same but for the interval, and for the assignment epoch
    of a group that is empty.
    """
    ours, theirs = (side.play(step) for side in sides)
    if isinstance(step, Beat):
        ours = ours | {"interval": theirs["interval"]}
    if isinstance(step, Describe):
        for group, described in ours.items():
            if described["state"] == "Empty":
                described["assignment epoch"] = theirs[group]["assignment epoch"]
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
