"""What else a script may have next: commits, fetches and deletions, descriptions and lists, and
changes of topics.
"""

from typing import TypeVar

from tests.kafka.differential.author import NAMED_TWICE, POOL, Author
from tests.kafka.differential.steps import (
    NOWHERE,
    Commit,
    DeleteGroups,
    Describe,
    DropTopic,
    Fetch,
    Forget,
    Grow,
    ListGroups,
    MakeTopic,
    Offset,
    Step,
)

Name = TypeVar("Name")


def some_partitions(author: Author) -> list[tuple[str, int]]:
    """Partitions to commit or fetch: some that exist, some that do not."""
    rng = author.rng
    topics = [*POOL, NOWHERE]
    return [
        (rng.choice(topics), rng.choice((0, 0, 1, 2, 99))) for _ in range(rng.choice((1, 2, 4)))
    ]


def note_length(author: Author) -> int | None:
    """A note beside an offset; some are too long."""
    return author.rng.choice((0, 1, None, 4096, 4097))


def commit(author: Author) -> Step | None:
    """A member stores what it has reached, mostly of what it owns and mostly rightly."""
    rng = author.rng
    actor = author.member()
    if actor is None:
        return None
    view = author.view(actor)
    held = sorted(view.assigned)
    chosen = (
        rng.sample(held, min(len(held), 3))
        if held and rng.random() < 0.7
        else some_partitions(author)
    )
    epoch = rng.choice(
        (
            view.epoch,
            view.epoch,
            view.epoch,
            view.epoch - 1,
            view.epoch - 1,
            view.epoch + 1,
            -1,
        )
    )
    offsets = tuple(
        Offset(topic, index, rng.randrange(100), note_length(author), rng.choice((-1, 0)))
        for topic, index in again(author, chosen)
    )
    version = rng.choice((2, 5, 8, 9, 9, 9, 10, 10))
    instance = actor.instance if version >= 7 and rng.random() < 0.8 else None
    return Commit(author.group, actor.letter, epoch, offsets, version, instance)


def again(author: Author, named: list[Name]) -> list[Name]:
    """What a request names, each once; now and then one of them comes again."""
    once = list(dict.fromkeys(named))
    return [*once, author.rng.choice(once)] if once and author.rng.random() < NAMED_TWICE else once


def stray_commit(author: Author) -> Step | None:
    """A commit by nobody, by a stranger, or for another kind of group."""
    rng = author.rng
    version = rng.choice((2, 4, 6, 8, 9, 10))
    offsets = tuple(
        Offset(topic, index, rng.randrange(100), note_length(author), rng.choice((-1, 0, 5)))
        for topic, index in again(author, some_partitions(author))
    )
    return Commit(
        rng.choice((author.group, author.simple, author.simple, author.nobody, ""))
        if rng.random() < 0.9
        else author.group,
        rng.choice(("", "", "ghost")),
        rng.choice((-1, -1, 0, 3)),
        offsets,
        version,
        rng.choice((None, None, "i-ghost")) if version >= 7 else None,
        rng.choice((-1, 60_000)) if version < 5 else -1,
    )


def fetch(author: Author) -> Step | None:
    """Committed offsets, as a member or not."""
    rng = author.rng
    version = rng.choice((1, 2, 5, 7, 8, 9, 9, 10, 10))
    group = rng.choice((author.group, author.group, author.simple, author.nobody))
    letter, epoch = None, -1
    if version >= 9 and rng.random() < 0.6:
        actor = author.member()
        letter = rng.choice((actor.letter if actor else "ghost", "ghost", "", None))
        now = author.view(actor).epoch if actor else 1
        epoch = rng.choice((now, now, now - 1, now + 1, -1))
    wanted = None
    if version < 2 or rng.random() < 0.6:
        by_topic: dict[str, list[int]] = {}
        for name, index in some_partitions(author):
            by_topic.setdefault(name, []).append(index)
        wanted = tuple((name, tuple(again(author, indexes))) for name, indexes in by_topic.items())
    return Fetch(group, letter, epoch, wanted, version, version >= 7 and rng.random() < 0.3)


def forget(author: Author) -> Step | None:
    """Committed offsets deleted."""
    group = author.rng.choice((author.group, author.simple, author.nobody, ""))
    by_topic: dict[str, list[int]] = {}
    for name, index in some_partitions(author):
        by_topic.setdefault(name, []).append(index)
    return Forget(
        group, tuple((name, tuple(again(author, indexes))) for name, indexes in by_topic.items())
    )


def describe(author: Author) -> Step | None:
    """Groups described, in both versions."""
    groups = author.rng.sample(
        (author.group, author.simple, author.nobody, ""), author.rng.choice((1, 2, 4))
    )
    return Describe(
        tuple(again(author, groups)), author.rng.choice((0, 1)), author.rng.random() < 0.3
    )


def list_all(author: Author) -> Step | None:
    """Groups listed, by state and type."""
    rng = author.rng
    version = rng.choice((0, 2, 3, 4, 5, 5))
    states = (
        rng.choice(((), (), ("stable",), ("Empty", " reconciling "), ("nonsense",)))
        if version >= 4
        else ()
    )
    types = rng.choice(((), ("consumer",), ("Classic",), ("nonsense",))) if version >= 5 else ()
    return ListGroups(version, states, types)


def delete(author: Author) -> Step | None:
    """Groups deleted."""
    groups = author.rng.sample(
        (author.group, author.simple, author.nobody, ""), author.rng.choice((1, 2))
    )
    return DeleteGroups(tuple(again(author, groups)), author.rng.choice((0, 1, 2)))


def change_topics(author: Author) -> Step | None:
    """The script's own topic is made, has grown, or is gone."""
    if not author.changes_topics:
        return None
    count = author.side.partitions.get(author.own)
    if count is None:
        return MakeTopic(author.own, author.rng.choice((1, 2, 4)), author.group)
    if author.rng.random() < 0.25:
        return DropTopic(author.own, author.group)
    return Grow(author.own, count + author.rng.choice((1, 2)), author.group) if count < 6 else None
