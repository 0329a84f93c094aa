"""Heartbeats that a script may have next: what sensible members send, and what is wrong in every
way that the protocol has.
"""

from typing import Any

from tests.kafka.differential.author import EXPRESSION, FOREVER_MS, NAMED_TWICE, NEWCOMER, Author
from tests.kafka.differential.steps import (
    EMPTY,
    GREEDY,
    HELD,
    PART,
    STRANGE,
    TOLD,
    TWICE,
    Beat,
    Step,
)


def join(author: Author) -> Step | None:
    """A new member, or one that was in before."""
    rng = author.rng
    out = [
        letter
        for letter in author.letters[:4]
        if letter not in author.actors or not author.actors[letter].is_in
    ]
    if not out:
        return None
    letter = rng.choice(out)
    known = author.actors.get(letter)
    instance = (
        known.instance if known is not None else (f"i-{letter}" if rng.random() < 0.3 else None)
    )
    return joining(author, letter, instance, rng.choice((0, 1, 1)))


def joining(author: Author, letter: str, instance: str | None, version: int) -> Beat:
    """The heartbeat that joins, with everything that it must say."""
    rng = author.rng
    view = author.side.views.get((author.group, letter))
    return Beat(
        author.group,
        letter,
        0,
        version,
        owned=EMPTY,
        # Who comes first and wants nothing is a vote alone (KAFKA-20434), which may end the script.
        topics=author.topics() if author.actors or rng.random() < 0.95 else (),
        assignor="range",
        rebalance_ms=FOREVER_MS,
        instance=instance,
        rack=author.rack() if rng.random() < 0.1 else None,
        member_id=letter if view is None else None,
    )


def beating(author: Author, **fields: object) -> Beat | None:
    """A heartbeat of somebody who is in."""
    actor = author.member()
    if actor is None:
        return None
    fields = {
        "epoch": author.view(actor).epoch,
        "instance": actor.instance,
        "version": actor.version,
    } | fields
    return Beat(author.group, actor.letter, **fields)  # type: ignore[arg-type]


def acknowledge(author: Author) -> Step | None:
    """What a client does most: it has adopted what it was told."""
    return beating(author, owned=TWICE if author.rng.random() < NAMED_TWICE else TOLD)


def stay(author: Author) -> Step | None:
    """A heartbeat that says nothing, or that nothing was given up yet."""
    return beating(author, owned=author.rng.choice((None, None, HELD)))


def everything(author: Author) -> Step | None:
    """A heartbeat that says everything, as after a lost answer."""
    return beating(
        author,
        owned=author.rng.choice((TOLD, HELD)),
        topics=author.topics(),
        rebalance_ms=FOREVER_MS,
        assignor="range",
    )


def resubscribe(author: Author) -> Step | None:
    """Other topics."""
    return beating(author, topics=author.topics(), owned=author.rng.choice((None, TOLD)))


def small_change(author: Author) -> Step | None:
    """What changes the member and not the group."""
    fields = author.rng.choice(
        ({"rack": author.rack()}, {"rebalance_ms": 60_000}, {"assignor": "range"}, {"topics": ()})
    )
    return beating(author, **fields)


def leave(author: Author) -> Step | None:
    """For good, or for a while."""
    actor = author.member()
    if actor is None:
        return None
    epoch = author.rng.choice((-1, -2)) if actor.instance else -1
    return Beat(author.group, actor.letter, epoch, actor.version, instance=actor.instance)


def come_back(author: Author) -> Step | None:
    """Somebody takes the place of a static member: itself or another, whether it is open or not."""
    static = [actor for actor in author.actors.values() if actor.instance]
    if not static:
        return None
    instance = author.rng.choice(static)
    newcomers = [letter for letter in author.letters if letter not in author.actors]
    letter = (
        instance.letter
        if not newcomers or author.rng.random() < 0.5
        else author.rng.choice(newcomers)
    )
    return joining(author, letter, instance.instance, 1)


def join_again(author: Author) -> Step | None:
    """Epoch 0 from a member that is in."""
    actor = author.member()
    return None if actor is None else joining(author, actor.letter, actor.instance, actor.version)


def bad_join(author: Author) -> Step | None:
    """A join that lacks something, or says too much."""
    wrong = author.rng.choice(
        (
            {"rebalance_ms": -1},
            {"owned": None},
            {"owned": STRANGE},
            {"topics": None},
            {"assignor": "sticky"},
            {"member_id": ""},
            {"member_id": " "},
            {"group": ""},
            {"group": " "},
            {"instance": ""},
            {"rack": " "},
        )
    )
    base = joining(author, NEWCOMER, None, author.rng.choice((0, 1)))
    if base.version == 0 and wrong.get("member_id") == "":
        return None  # that is a good join: the coordinator makes the id
    fields = {name: getattr(base, name) for name in Beat.__slots__} | wrong  # type: ignore[attr-defined]
    return Beat(**fields)


def bad_epoch(author: Author) -> Step | None:
    """An epoch from the future, from the past, or one that means nothing."""
    actor = author.member()
    if actor is None:
        return None
    now = author.view(actor).epoch
    epoch = author.rng.choice(
        (now + 1, now + 7, max(now - 1, 1), max(now - 1, 1), max(now - 2, 1), -2, -3, 2**31 - 1)
    )
    owned = author.rng.choice((None, TOLD, HELD, PART, EMPTY, GREEDY, STRANGE))
    return beating(author, epoch=epoch, owned=owned)


def bad_owned(author: Author) -> Step | None:
    """Partitions that are not the member's."""
    return beating(author, owned=author.rng.choice((PART, EMPTY, GREEDY, STRANGE)))


def stranger(author: Author) -> Step | None:
    """A member or a group that does not exist."""
    rng = author.rng
    group = rng.choice((author.group, author.nobody, author.simple))
    return Beat(
        group,
        "ghost",
        rng.choice((1, 3, -1, -2)),
        rng.choice((0, 1)),
        instance=rng.choice((None, None, "i-ghost")),
    )


def wrong_instance(author: Author) -> Step | None:
    """An instance id that is another member's, nobody's, or left out."""
    instances = [actor.instance for actor in author.actors.values()]
    fields: dict[str, object] = {"instance": author.rng.choice([*instances, "i-nobody", None])}
    if author.rng.random() < 0.3:
        fields["epoch"] = author.rng.choice((-1, -2))
    return beating(author, **fields)


def wrong_words(author: Author) -> Step | None:
    """A field that no group could grant."""
    fields: dict[str, Any] = author.rng.choice(
        (
            {"assignor": "sticky"},
            {"rack": ""},
            {"instance": " "},
            {"member_id": " "},
            {"regex": "("},
            {"regex": ""},
        )
    )
    if "regex" in fields:
        fields |= {"version": 1}
    return beating(author, **fields)


def expression(author: Author) -> Step | None:
    """A subscription to a regular expression, in a group that does nothing else."""
    return Beat(
        author.lonely, "a", 0, owned=EMPTY, regex=EXPRESSION, rebalance_ms=FOREVER_MS, member_id="a"
    )
