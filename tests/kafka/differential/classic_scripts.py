"""What may happen next in a script of classic groups: what sensible members do, and what is wrong
in every way the protocol has.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.kafka.differential.author import NAMED_TWICE
from tests.kafka.differential.classic_author import (
    LETTERS,
    MOST,
    STRANGERS,
    Actor,
    ClassicAuthor,
    Phase,
)
from tests.kafka.differential.classic_steps import (
    FOREVER_MS,
    DescribeClassic,
    Join,
    Leave,
    Pulse,
    Sync,
)
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


def enter(author: ClassicAuthor) -> Step | None:
    """A new member's first words."""
    rng = author.rng
    letters = [letter for letter in LETTERS if letter not in author.actors]
    if not letters or len(author.present) >= MOST:
        return None
    version = rng.choice(author.versions)
    instance = f"i-{letters[0]}" if version >= 5 and rng.random() < 0.35 else None
    patience_ms = rng.choice((-1, 0)) if rng.random() < 0.06 else FOREVER_MS
    return Join(
        author.group,
        letters[0],
        author.offer(),
        version,
        instance=instance,
        kind=author.kind,
        rebalance_ms=patience_ms,
    )


def joining(author: ClassicAuthor, actor: Actor, **said: Any) -> Join:
    """The JoinGroup of a member as it is."""
    step = Join(
        author.group,
        actor.letter,
        actor.protocols,
        actor.version,
        "" if actor.phase is Phase.OUT else None,
        actor.instance,
        author.kind,
        reason=author.rng.choice((None, "a reason", "r" * 300)),
    )
    return replace(step, **said)


def rejoin(author: ClassicAuthor) -> Step | None:
    """What a member does that was told to join, or was thrown out."""
    actor = author.choose(Phase.PENDING, Phase.TOLD, Phase.OUT)
    if actor is None or (actor.phase is Phase.OUT and len(author.present) >= MOST):
        return None
    return joining(author, actor)


def advance(author: ClassicAuthor) -> Step | None:
    """What the group waits for."""
    if author.state == "PreparingRebalance":
        actor = author.choose(Phase.PENDING, Phase.TOLD) or author.choose(
            Phase.JOINED, Phase.STABLE
        )
        return None if actor is None else joining(author, actor)
    if author.state == "CompletingRebalance":
        return sync(author)
    return rejoin(author) or enter(author)


def join_again(author: ClassicAuthor) -> Step | None:
    """A join that nobody asked for, the same as before or with other protocols."""
    actor = author.choose(Phase.JOINED, Phase.STABLE)
    if actor is None:
        return None
    return joining(author, actor, protocols=author.rng.choice((actor.protocols, author.offer())))


def come_back(author: ClassicAuthor) -> Step | None:
    """A static member begins again under a new id: itself, or somebody who takes its place."""
    found = [actor for actor in author.actors.values() if actor.instance and not actor.waits]
    if not found:
        return None
    actor = author.rng.choice(found)
    letters = [letter for letter in LETTERS if letter not in author.actors]
    letter = actor.letter if not letters or author.rng.random() < 0.5 else letters[0]
    version = author.rng.choice([each for each in author.versions if each >= 5])
    protocols = author.rng.choice((actor.protocols, actor.protocols, author.offer()))
    return joining(author, actor, member=letter, member_id="", version=version, protocols=protocols)


def syncing(author: ClassicAuthor, actor: Actor, **said: Any) -> Sync:
    """The SyncGroup of a member as it is."""
    version = min(actor.version, 5)
    step = Sync(
        author.group,
        actor.letter,
        actor.generation,
        author.assigned(actor) if actor.leads else (),
        version,
        instance=actor.instance if version >= 3 else None,
        kind=author.kind if version >= 5 else None,
        protocol=actor.protocol if version >= 5 else None,
    )
    return replace(step, **said)


def sync(author: ClassicAuthor) -> Step | None:
    """What a member does that has joined."""
    actor = author.choose(Phase.JOINED)
    return None if actor is None else syncing(author, actor)


def odd_sync(author: ClassicAuthor) -> Step | None:
    """A sync of which the broker leaves something alone: of strangers, of the forgotten, of one who
    does not lead.
    """
    actor = author.choose(Phase.JOINED, Phase.STABLE)
    if actor is None:
        return None
    all_given = author.assigned(actor)
    twice = (*all_given, *((who, b"once more") for who, _ in all_given[:1]))
    given = author.rng.choice((all_given[1:], (*all_given, ("ghost", b"for nobody")), twice, ()))
    return syncing(author, actor, assignments=given)


def pulsing(author: ClassicAuthor, actor: Actor, **said: Any) -> Pulse:
    """The Heartbeat of a member as it is."""
    version = min(actor.version, 4)
    step = Pulse(
        author.group,
        actor.letter,
        actor.generation,
        version,
        instance=actor.instance if version >= 3 else None,
    )
    return replace(step, **said)


def pulse(author: ClassicAuthor) -> Step | None:
    """A sign of life."""
    actor = author.idle()
    return None if actor is None else pulsing(author, actor)


def leave(author: ClassicAuthor) -> Step | None:
    """One member goes, or is sent away by its instance."""
    actor = author.choose(Phase.PENDING, Phase.JOINED, Phase.STABLE, Phase.TOLD)
    if actor is None:
        return None
    version = min(actor.version, 5)
    who = (actor.label, actor.instance)
    if actor.instance and version >= 3 and author.rng.random() < 0.4:
        who = ("", actor.instance)
    return Leave(author.group, (who,), version)


def send_away(author: ClassicAuthor) -> Step | None:
    """Several leave at once, and some who are not there."""
    rng = author.rng
    actors = [actor for actor in author.actors.values() if actor.label]
    if not actors:
        return None
    chosen = [
        (each.label, rng.choice((each.instance, each.instance, None)))
        for each in rng.sample(actors, min(len(actors), 2))
    ]
    strange = [
        ("ghost", None),
        ("", "i-nobody"),
        ("", None),
        (actors[0].label, "i-nobody"),
        ("ghost", actors[0].instance),
    ]
    # some of them twice
    return Leave(author.group, tuple(rng.choices(chosen + strange, k=3)), rng.choice((3, 4, 5)))


def bad_leave(author: ClassicAuthor) -> Step | None:
    """Nobody leaves."""
    version = author.rng.choice(range(6))
    group = author.rng.choice((author.group, author.group, author.nobody, author.simple, ""))
    who = author.rng.choice(("ghost", ""))
    instance = author.rng.choice((None, "i-nobody")) if version >= 3 else None
    return Leave(
        group, ((who, instance),) if version < 3 or author.rng.random() < 0.8 else (), version
    )


def stranger(author: ClassicAuthor) -> str | None:
    """Who may do something wrong now."""
    free = [letter for letter in STRANGERS if letter not in author.actors]
    return free[0] if free else None


def bad_join(author: ClassicAuthor) -> Step | None:
    """A join that is refused."""
    rng, letter = author.rng, stranger(author)
    actor = author.choose(*Phase)
    if letter is None or actor is None or not author.present:
        return None
    other = rng.choice(other_instances(author, actor))
    wrong: list[dict[str, Any]] = [
        {"group": ""},
        {"session_ms": rng.choice((0, 99, 2_000_000))},
        {"protocols": ()},
        {"kind": rng.choice(("", "other"))},
        {"protocols": (("other", b""),)},
        {"member_id": "ghost"},
        {"group": author.nobody, "member_id": "ghost"},
        {"member_id": actor.label or "ghost", "instance": other, "version": rng.choice((5, 9))},
        {
            "member_id": "ghost",
            "instance": rng.choice((other, actor.instance)),
            "version": rng.choice((5, 9)),
        },
    ]
    base = Join(
        author.group, letter, actor.protocols, rng.choice(author.versions), "", None, author.kind
    )
    return replace(base, **rng.choice(wrong))


def pending_as_static(author: ClassicAuthor) -> Step | None:
    """Somebody joins as a static member under an id that was given to a dynamic one."""
    letter, actor = stranger(author), author.choose(Phase.PENDING)
    if letter is None or actor is None:
        return None
    return Join(author.group, letter, actor.protocols, 9, actor.label, "i-nobody", author.kind)


def bad_sync(author: ClassicAuthor) -> Step | None:
    """A sync that is refused."""
    rng, letter, actor = author.rng, stranger(author), author.idle()
    if letter is None or actor is None:
        return None
    wrong: list[dict[str, Any]] = [
        {"generation": actor.generation + rng.choice((-1, 1, 7))},
        {"member_id": "ghost"},
        {"group": rng.choice(("", author.nobody, author.simple))},
        {"kind": rng.choice(("other", None)), "version": 5},
        {"protocol": rng.choice(("other", None)), "version": 5},
        {"instance": rng.choice(other_instances(author, actor)), "version": rng.choice((3, 4, 5))},
    ]
    return syncing(
        author, actor, **{"member": letter, "member_id": actor.label} | rng.choice(wrong)
    )


def other_instances(author: ClassicAuthor, actor: Actor) -> list[str]:
    """Instance ids that are not the member's: those of others, and nobody's."""
    return [
        "i-nobody",
        *(
            each.instance
            for each in author.actors.values()
            if each.instance not in (None, actor.instance)
        ),
    ]


def bad_pulse(author: ClassicAuthor) -> Step | None:
    """A sign of life of somebody else."""
    rng, actor = author.rng, author.choose(*Phase)
    if actor is None:
        return None
    wrong = [
        {"generation": actor.generation + rng.choice((-1, 1, 7))},
        {"generation": -1},
        {"member_id": rng.choice(("ghost", ""))},
        {"group": rng.choice(("", author.nobody, author.simple))},
        {"instance": rng.choice(other_instances(author, actor)), "version": rng.choice((3, 4))},
    ]
    said: dict[str, Any] = {"member_id": actor.label} | rng.choice(wrong)
    return pulsing(author, actor, **said)


def again(author: ClassicAuthor, named: list[Any]) -> list[Any]:
    """What a request names; now and then one of them comes again."""
    return [*named, author.rng.choice(named)] if author.rng.random() < NAMED_TWICE else named


def offsets(author: ClassicAuthor) -> tuple[Offset, ...]:
    """What a commit stores: mostly good, some for partitions that are not there, some with notes
    too long.
    """
    rng = author.rng
    places = {
        (rng.choice(("three", "four", "one", NOWHERE)), rng.choice((0, 0, 1, 99)))
        for _ in range(rng.choice((1, 2)))
    }
    return tuple(
        Offset(topic, index, rng.randrange(100), rng.choice((0, 5, 4097)))
        for topic, index in again(author, sorted(places))
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
