"""Classic and mixed groups: the same scripts on our broker and on a real Kafka.

Codes, generations, states, who leads, which protocol and every byte of an assignment agree at every
step; in mixed groups, where each broker gives whom it likes, what the group comes to: kinds,
epochs, sizes, completeness and how much has moved. differential/fleet.py says which scripts are
played.
"""

from collections.abc import Callable
from types import ModuleType

import pytest

from apportion.coord.classic import join
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.consumer import classic_api
from apportion.coord.migration import downgrade
from tests.kafka.differential.classic_author import Actor, ClassicAuthor
from tests.kafka.differential.classic_intended import CLASSIC, INTENDED, MIXED
from tests.kafka.differential.classic_play import Author, play_waiting
from tests.kafka.differential.classic_scripts import ClassicScript
from tests.kafka.differential.classic_steps import RANGE, STICKY, Leave
from tests.kafka.differential.compare import Played
from tests.kafka.differential.fleet import ENOUGH, LENGTH, check, check_found, seeds_of
from tests.kafka.differential.mixed_scripts import MixedScript
from tests.kafka.differential.side import Side

ALIKE = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
"""What the fixture sets on the real Kafka, too."""


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
    seeds, seen = seeds_of(30), set[int | str]()

    def play(seed: int, token: str) -> Played:
        author = AUTHORS[kind](seed, token, sides[1])
        played = play_waiting(seed, LENGTH, author, sides, INTENDED)
        seen.update(author.seen)
        return played

    check(seeds, play)
    stale = [row.name for row in {"classic": CLASSIC, "mixed": MIXED}[kind] if not row.seen]
    assert len(seeds) < ENOUGH or (stale, MET[kind] - seen) == ([], set()), "not seen any more"


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
    check_found(
        name,
        lambda seed, token: play_waiting(
            seed, LENGTH, AUTHORS[kind](seed, token, sides[1]), sides, INTENDED
        ),
    )


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
