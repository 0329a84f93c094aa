"""Heartbeats of a group in which each broker gives whom it likes. When nothing moves, members come,
go, and come back as other ones with other votes for an assignor.
"""

from tests.kafka.differential.author import FOREVER_MS, Author
from tests.kafka.differential.steps import EMPTY, Beat, Settle, Step


def join(author: Author) -> Step | None:
    """A new member; every second one lets the coordinator make its id."""
    rng = author.rng
    out = [
        letter
        for letter in author.letters[:4]
        if letter not in author.actors or not author.actors[letter].is_in
    ]
    if not out or not author.is_settled or len(author.members()) >= MOST:
        return None
    letter = rng.choice(out)
    version = rng.choice((0, 1))
    return Beat(
        author.group,
        letter,
        0,
        version,
        owned=EMPTY,
        topics=rng.choice(author.subscriptions),
        rebalance_ms=FOREVER_MS,
        instance=f"i-{letter}" if rng.random() < 0.3 else None,
        member_id="" if version == 0 else letter,
        assignor=rng.choice(author.assignors),
    )


MOST = 4
"""With so many members, and fewer, shares of twelve come out even."""


def leave(author: Author) -> Step | None:
    """A member goes, when nothing moves."""
    if not author.is_settled or len(author.members()) < 2:
        return None
    actor = author.member()
    assert actor is not None
    return Beat(author.group, actor.letter, -1, actor.version, instance=actor.instance)


def go_for_a_while(author: Author) -> Step | None:
    """A static member goes, and its successor comes with the next step."""
    static = [actor for actor in author.members() if actor.instance]
    if not author.is_settled or not static:
        return None
    actor = author.rng.choice(static)
    return Beat(author.group, actor.letter, -2, actor.version, instance=actor.instance)


def come_back(author: Author) -> Step:
    """The static member that is away comes back: itself or another, with the same subscription, and
    perhaps with another vote or in another rack.
    """
    rng, away = author.rng, author.away
    assert away is not None
    newcomers = [letter for letter in author.letters if letter not in author.actors]
    letter = rng.choice(newcomers) if newcomers and rng.random() < 0.5 else away.letter
    return Beat(
        author.group,
        letter,
        0,
        1,
        owned=EMPTY,
        topics=away.topics,
        rebalance_ms=FOREVER_MS,
        instance=away.instance,
        rack=author.rack() if rng.random() < 0.1 else None,
        member_id=letter if letter != away.letter else None,
        assignor=rng.choice(author.assignors),
    )


def settle(author: Author) -> Step | None:
    """The group comes to rest."""
    if author.is_settled or not author.members():
        return None
    return Settle(
        author.group,
        wants_differ=len(author.subscriptions) > 1,
        votes=author.votes_since(),
        racks_changed=author.has_changed_rack,
    )
