"""Classic and mixed groups: the same scripts on our broker and on a real Kafka.

Codes, generations, states, who leads, which protocol and every byte of an assignment agree at every
step; in mixed groups, where each broker gives whom it likes, what the group comes to: kinds,
epochs, sizes, completeness and how much has moved. A script is a
seed: `APPORTION_DIFFERENTIAL_SEED=17` plays that one alone, `APPORTION_DIFFERENTIAL_SCRIPTS=500`
plays a fleet of each kind, and `APPORTION_DIFFERENTIAL_FIRST=9000` says where it begins.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from apportion.coord.classic import join
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.consumer import classic_api
from apportion.coord.migration import downgrade
from apportion.testing.kafka import RealKafka
from tests.kafka.differential.classic_author import Actor, ClassicAuthor
from tests.kafka.differential.classic_intended import CLASSIC, INTENDED, MIXED
from tests.kafka.differential.classic_play import Author, play_waiting
from tests.kafka.differential.classic_scripts import ClassicScript
from tests.kafka.differential.classic_steps import RANGE, STICKY, Leave
from tests.kafka.differential.compare import side_by_side
from tests.kafka.differential.mixed_scripts import MixedScript
from tests.kafka.differential.side import Side

SCRIPTS = int(os.environ.get("APPORTION_DIFFERENTIAL_SCRIPTS", "200"))
FIRST = int(os.environ.get("APPORTION_DIFFERENTIAL_FIRST", "0"))
ONE_SEED = os.environ.get("APPORTION_DIFFERENTIAL_SEED")
LENGTH = 30
ALIKE = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
"""What the fixture sets on the real Kafka, too."""
DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"


@pytest.fixture(scope="module")
def sides(kafka: RealKafka) -> Iterator[tuple[Side, Side]]:
    """Our broker and the real one, with the topics that scripts share."""
    with side_by_side(kafka, **ALIKE) as both:
        yield both


AUTHORS: dict[str, Callable[[int, str, Side], Author]] = {
    "classic": lambda seed, token, theirs: ClassicScript(seed, token),
    "mixed": MixedScript,
}


MET = {
    "classic": {
        0,
        -1,
        22,
        23,
        24,
        25,
        26,
        27,
        69,
        79,
        82,
        "Dead",
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
    },
    "mixed": {0, 22, 23, 25, 26, 27, 69, 79, 82, 110, "classic", "consumer"},
}
"""The codes, states and kinds of groups that a hundred scripts meet."""


@pytest.mark.parametrize("kind", AUTHORS)
def test_both_brokers_say_the_same_at_every_step(sides: tuple[Side, Side], kind: str) -> None:
    seeds = range(FIRST, FIRST + SCRIPTS) if ONE_SEED is None else [int(ONE_SEED)]
    reports: list[str]
    unsteady: list[str]
    seen: set[int | str]
    started, steps, reports, unsteady, seen = time.monotonic(), 0, [], [], set()
    for seed in seeds:
        for token in (f"first-{time.time_ns()}", f"again-{time.time_ns()}"):
            # On a slow machine an answer may come so late that members meet in another order: that
            # is seen once, and not again.
            author = AUTHORS[kind](seed, token, sides[1])
            played = play_waiting(seed, LENGTH, author, sides, INTENDED)
            steps, seen = steps + len(played.script), seen | author.seen
            if not played.disagreements:
                break
            (unsteady if token.startswith("first") else reports).append(played.report())
        if len(reports) == 5:
            break
    seconds = time.monotonic() - started
    print(
        f"{len(seeds)} {kind} scripts, {steps} steps, {seconds:.0f} s, "
        f"{len(unsteady) - len(reports)} only once in disagreement"
    )
    assert reports == [], "\n\n".join(reports)
    assert len(unsteady) <= 1 + len(seeds) // 50, "\n\n".join(unsteady)
    stale = [row.name for row in {"classic": CLASSIC, "mixed": MIXED}[kind] if not row.seen]
    assert len(seeds) < 100 or (stale, MET[kind] - seen) == ([], set()), "not seen any more"


@pytest.mark.parametrize(
    ("kind", "owner", "name", "instead"),
    [
        ("classic", join, "may_answer_at_once", lambda *facts: True),
        ("classic", ClassicGroup, "check_generation", lambda group, generation: None),
        ("classic", ClassicGroup, "subscribes_to", lambda group, topic: False),
        ("mixed", classic_api, "must_rejoin", lambda turn, group, member: False),
        ("mixed", downgrade, "may_downgrade", lambda settings, stayers: False),
    ],
)
def test_a_rule_that_is_switched_off_is_found(
    sides: tuple[Side, Side],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    owner: ModuleType | type[ClassicGroup],
    name: str,
    instead: Callable[..., object],
) -> None:
    monkeypatch.setattr(owner, name, instead)
    for seed in range(SCRIPTS):
        author = AUTHORS[kind](seed, f"{name}-{time.time_ns()}", sides[1])
        played = play_waiting(seed, LENGTH, author, sides, INTENDED)
        if played.disagreements:
            break
    assert "the brokers disagree after" in played.report()
    assert played.disagreements != []


@pytest.mark.parametrize(
    ("instance", "named", "is_tied"),
    [
        (None, ("a1", None), False),
        (None, ("a1", "i-nobody"), True),
        (None, ("", None), True),
        ("i-a", ("a1", None), False),
        ("i-a", ("a1", "i-a"), False),
        ("i-a", ("", "i-a"), False),
        ("i-a", ("a1", "i-nobody"), True),
        ("i-a", ("ghost", "i-a"), True),
    ],
)
def test_a_member_that_is_named_wrongly_in_a_leave_still_votes(
    instance: str | None, named: tuple[str, str | None], is_tied: bool
) -> None:
    author = ClassicAuthor(0, "")
    author.actors = {
        "a": Actor("a", 9, instance, (), label="a1"),
        "b": Actor("b", 9, None, (), label="b1"),
        "c": Actor("c", 9, None, (), label="c1"),
    }
    author.votes = {"a1": (RANGE, STICKY), "b1": (RANGE, STICKY), "c1": (STICKY, RANGE)}
    author.present = frozenset(author.votes)
    assert author.ties(Leave(author.group, (("b1", None), named))) == is_tied


def test_every_intended_difference_is_told_to_users() -> None:
    documented = re.findall(r"^\| ([^|]+) \|", DIFFERENCES.read_text(), re.MULTILINE)
    assert [row.name for row in INTENDED if row.name not in documented] == []
