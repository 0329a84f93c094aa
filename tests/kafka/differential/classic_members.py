"""What sensible members of a classic group do next: join, sync, send heartbeats and leave."""

from dataclasses import replace
from typing import Any

from tests.kafka.differential.classic_author import LETTERS, MOST, Actor, ClassicAuthor, Phase
from tests.kafka.differential.classic_steps import FOREVER_MS, Join, Leave, Pulse, Sync
from tests.kafka.differential.steps import Step


def enter(author: ClassicAuthor) -> Step | None:
    """A new member's first words."""
    rng = author.rng
    letters = [letter for letter in LETTERS if letter not in author.actors]
    if not letters or len(author.present) >= MOST:
        return None
    version = rng.choice(author.versions)
    instance = f"i-{letters[0]}" if version >= 5 and rng.random() < 0.35 else None
    rebalance_ms = rng.choice((-1, 0)) if rng.random() < 0.06 else FOREVER_MS
    return Join(
        author.group,
        letters[0],
        author.offer(),
        version,
        instance=instance,
        kind=author.kind,
        rebalance_ms=rebalance_ms,
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
    candidates = [actor for actor in author.actors.values() if actor.instance and not actor.waits]
    if not candidates:
        return None
    actor = author.rng.choice(candidates)
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
