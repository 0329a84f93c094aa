"""Requests of classic groups that are refused, or of which the broker ignores a part."""

from dataclasses import replace
from typing import Any

from tests.kafka.differential.classic_author import STRANGERS, Actor, ClassicAuthor, Phase
from tests.kafka.differential.classic_members import pulsing, syncing
from tests.kafka.differential.classic_steps import Join, Leave
from tests.kafka.differential.steps import Step


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
    wrong: list[dict[str, Any]] = [
        {"generation": actor.generation + rng.choice((-1, 1, 7))},
        {"generation": -1},
        {"member_id": rng.choice(("ghost", ""))},
        {"group": rng.choice(("", author.nobody, author.simple))},
        {"instance": rng.choice(other_instances(author, actor)), "version": rng.choice((3, 4))},
    ]
    fields: dict[str, Any] = {"member_id": actor.label} | rng.choice(wrong)
    return pulsing(author, actor, **fields)
