"""What may happen next in a script of classic groups: what sensible members do, and what is wrong
in every way the protocol has.
"""

from collections.abc import Callable
from typing import Any

from tests.kafka.differential.author import NAMED_TWICE
from tests.kafka.differential.classic_author import ClassicAuthor, Phase
from tests.kafka.differential.classic_members import (
    advance,
    come_back,
    enter,
    join_again,
    leave,
    pulse,
    rejoin,
    sync,
)
from tests.kafka.differential.classic_refused import (
    bad_join,
    bad_leave,
    bad_pulse,
    bad_sync,
    odd_sync,
    pending_as_static,
    send_away,
)
from tests.kafka.differential.classic_steps import DescribeClassic
from tests.kafka.differential.steps import (
    NOWHERE,
    Commit,
    DeleteGroups,
    Describe,
    Fetch,
    Forget,
    ListGroups,
    Offset,
    Step,
)


def again(author: ClassicAuthor, named: list[Any]) -> list[Any]:
    """What a request names; now and then one of them comes again."""
    return [*named, author.rng.choice(named)] if author.rng.random() < NAMED_TWICE else named


def offsets(author: ClassicAuthor) -> tuple[Offset, ...]:
    """What a commit stores: mostly good, some for partitions that are not there, some with notes
    too long.
    """
    rng = author.rng
    partitions = {
        (rng.choice(("three", "four", "one", NOWHERE)), rng.choice((0, 0, 1, 99)))
        for _ in range(rng.choice((1, 2)))
    }
    return tuple(
        Offset(topic, index, rng.randrange(100), rng.choice((0, 5, 4097)))
        for topic, index in again(author, sorted(partitions))
    )


def commit(author: ClassicAuthor) -> Step | None:
    """A member stores what it has reached."""
    rng, actor = author.rng, author.choose(*Phase)
    if actor is None or not actor.label:
        return None
    version = rng.choice((2, 5, 6, 7, 8, 9, 9, 10))
    generation = rng.choice(
        (actor.generation,) * 4 + (actor.generation - 1, actor.generation + 1, -1)
    )
    instance = (
        rng.choice((actor.instance, actor.instance, None, "i-nobody")) if version >= 7 else None
    )
    return Commit(author.group, actor.letter, generation, offsets(author), version, instance)


def stray_commit(author: ClassicAuthor) -> Step | None:
    """A commit by nobody or by a stranger."""
    rng = author.rng
    group = rng.choice((author.group, author.group, author.simple, author.nobody))
    generation = rng.choice((-1, -1, 0, 3))
    if group == author.nobody and generation < 0:
        return None  # that would make it a group
    version = rng.choice((2, 5, 8, 9, 10))
    return Commit(group, rng.choice(("", "ghost")), generation, offsets(author), version)


def fetch(author: ClassicAuthor) -> Step | None:
    """Committed offsets, sometimes as a member."""
    actor = author.choose(*Phase)
    if actor is not None and actor.label and author.rng.random() < 0.4:
        generation = actor.generation + author.rng.choice((0, 0, -1, 1))
        return Fetch(author.group, actor.letter, generation, version=author.rng.choice((9, 10)))
    return Fetch(
        author.rng.choice((author.group, author.simple, author.nobody)),
        version=author.rng.choice((2, 5, 7, 8, 9)),
    )


def forget(author: ClassicAuthor) -> Step | None:
    """Committed offsets deleted, of topics that the group reads or not."""
    rng = author.rng
    wanted = (
        (rng.choice(("three", "four", "one")), tuple(again(author, [0, 1]))),
        *(((NOWHERE, (0,)),) if rng.random() < 0.2 else ()),
    )
    return Forget(
        rng.choice((author.group, author.group, author.simple, author.nobody, "")), wanted
    )


def describe(author: ClassicAuthor) -> Step | None:
    """Groups described in any version."""
    rng = author.rng
    groups = rng.sample((author.group, author.simple, author.nobody, ""), rng.choice((1, 2)))
    if rng.random() < 0.2:
        return Describe(tuple(again(author, groups)), rng.choice((0, 1)))
    return DescribeClassic(tuple(again(author, groups)), rng.choice(range(7)), rng.random() < 0.3)


def list_all(author: ClassicAuthor) -> Step | None:
    """Groups listed, by state and type."""
    rng = author.rng
    version = rng.choice((0, 2, 3, 4, 5, 5, 5))
    states = (
        ("stable",),
        ("Empty", " PreparingRebalance "),
        ("completingrebalance", "Dead"),
        ("nonsense",),
    )
    return ListGroups(
        version,
        rng.choice(((), *states)) if version >= 4 else (),
        rng.choice(((), ("consumer",), ("Classic",), (" CLASSIC", "share"), ("nonsense",)))
        if version >= 5
        else (),
    )


def delete(author: ClassicAuthor) -> Step | None:
    """Groups deleted."""
    groups = author.rng.sample(
        (author.group, author.simple, author.nobody, ""), author.rng.choice((1, 2))
    )
    return DeleteGroups(tuple(again(author, groups)), author.rng.choice((0, 1, 2)))


CLASSIC: list[tuple[int, Callable[[ClassicAuthor], Step | None]]] = [
    (10, enter),
    (60, advance),
    (10, rejoin),
    (15, sync),
    (15, pulse),
    (5, join_again),
    (8, come_back),
    (3, odd_sync),
    (5, leave),
    (3, send_away),
    (2, bad_leave),
    (6, bad_join),
    (3, pending_as_static),
    (4, bad_sync),
    (5, bad_pulse),
    (6, commit),
    (2, stray_commit),
    (3, fetch),
    (3, forget),
    (4, describe),
    (3, list_all),
    (2, delete),
]
"""Kinds of steps with their weights. A kind that makes no sense now gives None, and another is
drawn.
"""


class ClassicScript(ClassicAuthor):
    """An author who knows what may happen."""

    def next_step(self) -> Step:
        """The step after those that the author has noted; none that lets a vote end in a tie."""
        weights = [weight for weight, _ in CLASSIC]
        while True:
            step = self.rng.choices(CLASSIC, weights)[0][1](self)
            if step is not None and not self.ties(step):
                return step
