"""What happens in groups of members of both protocols: they come, go, take each other's places, and
the group changes its kind.

All want the same, so that shares come out alike whoever owns what. What is tried in between, right
or wrong, is answered by epochs and ids, never by who owns what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.kafka.differential.author import FOREVER_MS
from tests.kafka.differential.classic_author import Phase
from tests.kafka.differential.classic_steps import (
    Arrive,
    DescribeClassic,
    Join,
    Knock,
    Leave,
    Pulse,
    Rest,
    Sync,
)
from tests.kafka.differential.mixed_author import (
    CLASSIC,
    CONVERT,
    MODERN,
    MOST,
    STRANGER,
    MixedAuthor,
)
from tests.kafka.differential.steps import (
    EMPTY,
    Beat,
    Commit,
    DeleteGroups,
    Fetch,
    Forget,
    ListGroups,
    Offset,
    Step,
)

if TYPE_CHECKING:
    from tests.kafka.differential.classic_clients import Client


def arrive(author: MixedAuthor, **fields: Any) -> Step | None:
    """A classic client comes."""
    rng = author.rng
    if author.count() >= MOST:
        return None
    letter = author.fresh(CLASSIC)
    if letter is None:
        return None
    version = fields.get("version", rng.choice((0, 3, 4, 5, 7, 9, 9, 9)))
    facts: dict[str, Any] = {
        "version": version,
        "instance": f"i-{letter}" if version >= 5 and rng.random() < 0.3 else None,
        "topics": author.topics,
        "is_eager": rng.random() < 0.5,
        "blob_version": rng.choice((1, 2, 3)),
    }
    return Arrive(author.group, letter, **facts | fields)


def come_modern(author: MixedAuthor, **fields: Any) -> Step | None:
    """A member of the consumer protocol comes; a classic group becomes a consumer group."""
    if author.count() >= MOST and "instance" not in fields:
        return None
    letter = author.fresh(MODERN)
    if letter is None:
        return None
    instance = f"i-{letter}" if author.rng.random() < 0.3 else None
    facts: dict[str, Any] = {
        "topics": author.topics,
        "rebalance_ms": FOREVER_MS,
        "instance": instance,
        "member_id": letter,
    }
    return Beat(author.group, letter, 0, owned=EMPTY, **facts | fields)


def take_classic_place(author: MixedAuthor) -> Step | None:
    """A member of the consumer protocol takes the place of a static classic one."""
    static = [client.instance for client in author.clients() if client.instance]
    return come_modern(author, instance=author.rng.choice(static)) if static else None


def take_modern_place(author: MixedAuthor) -> Step | None:
    """A classic client takes the place of a static member of the consumer protocol."""
    static = [view.instance for view in author.moderns().values() if view.instance]
    return arrive(author, instance=author.rng.choice(static), version=9) if static else None


def take_last_place_for_others(author: MixedAuthor) -> Step | None:
    """A classic client takes the place of the last member of the consumer protocol, and wants other
    topics, so that the classic group has to share out anew (KAFKA-20273). It is the end of the
    script: from here on not all want the same.
    """
    moderns = list(author.moderns().values())
    if not author.is_at_rest or len(moderns) != 1 or not moderns[0].instance:
        return None
    if not author.clients():
        return None
    topics = author.rng.choice([each for each in OTHER_WANTS if each != author.topics])
    step = arrive(author, instance=moderns[0].instance, version=9, topics=topics)
    author.must_end = step is not None
    return step


OTHER_WANTS = (("twelve",), ("twelve", "three"), ("six",), ("three", "six"))


def go_on_as_classic(author: MixedAuthor) -> Step | None:
    """A member of the consumer protocol goes on in the classic one, under its own id."""
    moderns = author.moderns()
    letters = [letter for letter in sorted(moderns) if letter not in (CONVERT, STRANGER)]
    if not letters:
        return None
    letter = author.rng.choice(letters)
    fields = {"member_id": letter, "instance": moderns[letter].instance}
    return arrive(author, version=9, **fields)


def leave_classic(author: MixedAuthor) -> Step | None:
    """A classic client goes."""
    clients = author.clients()
    if not clients:
        return None
    client = author.rng.choice(clients)
    version = max(min(client.version, 5), 3)
    ways = [(client.label, client.instance), (client.label, None), ("", client.instance)]
    way = author.rng.choice(ways if client.instance else ways[:2])
    return Leave(author.group, (way,) * author.rng.choice((1, 1, 1, 2)), version)


def leave_modern(author: MixedAuthor) -> Step | None:
    """A member of the consumer protocol goes; after the last one the group may become classic
    again.
    """
    moderns = author.moderns()
    if not moderns:
        return None
    letter = author.rng.choice(sorted(moderns))
    return Beat(author.group, letter, -1, instance=moderns[letter].instance)


def knock(author: MixedAuthor) -> Step | None:
    """A classic client joins again by itself; in a classic group it waits for the others."""
    clients = [client for client in author.clients() if client.phase is Phase.STABLE]
    if not clients or (author.kind == "consumer" and author.changes > 1):
        # between two targets it depends on who has what whether a member has to give something up
        return None
    client = author.rng.choice(clients)
    return Knock(
        author.group,
        client.letter,
        author.rng.choice([each for each in (1, 2, 3) if each != client.blob_version]),
    )


def probed(author: MixedAuthor) -> Client | None:
    """A classic member that takes its generation for the current one."""
    clients = [client for client in author.clients() if client.phase is Phase.STABLE]
    return author.rng.choice(clients) if clients else None


def probe_pulse(author: MixedAuthor) -> Step | None:
    """A sign of life, mostly a wrong one."""
    rng, client = author.rng, probed(author)
    if client is None:
        return None
    wrong: list[dict[str, Any]] = [
        {},
        {"generation": client.generation + rng.choice((-1, 1))},
        {"member_id": rng.choice(("ghost", "", *author.moderns()))},
        {
            "instance": rng.choice(
                (
                    "i-nobody",
                    *(each.instance for each in author.moderns().values() if each.instance),
                )
            )
        },
    ]
    fields = {
        "generation": client.generation,
        "instance": client.instance,
        "member_id": client.label,
    } | rng.choice(wrong)
    return Pulse(author.group, STRANGER, **fields)


def probe_sync(author: MixedAuthor) -> Step | None:
    """A sync that is answered at once, or refused."""
    rng, client = author.rng, probed(author)
    if client is None:
        return None
    wrong: list[dict[str, Any]] = [
        {},
        {"generation": client.generation + rng.choice((-1, 1))},
        {"member_id": rng.choice(("ghost", "", *author.moderns()))},
        {"kind": rng.choice(("other", None))},
        {"protocol": rng.choice(("other", None))},
        {"instance": "i-nobody"},
    ]
    fields: dict[str, Any] = {
        "generation": client.generation,
        "kind": "consumer",
        "protocol": "range",
        "member_id": client.label,
    }
    return Sync(
        author.group, STRANGER, **fields | {"instance": client.instance} | rng.choice(wrong)
    )


def probe_join(author: MixedAuthor) -> Step | None:
    """A join that is refused."""
    rng, client = author.rng, probed(author)
    if client is None:
        return None
    good: Any = (("range", client.subscription()),)
    wrong: list[dict[str, Any]] = [
        {"kind": "other"},
        {"protocols": ()},
        {"protocols": (("other", client.subscription()),)},
        {"protocols": (("range", b"\0"),)} if author.kind == "consumer" else {"kind": ""},
        {"member_id": "ghost", "instance": "i-nobody"},
        {"member_id": "ghost", "instance": client.instance or "i-nobody"},
        {"member_id": "ghost", "instance": client.instance or "i-nobody", "session_ms": 1},
        {"member_id": "ghost", "instance": client.instance or "i-nobody", "kind": "other"},
        {"session_ms": 1},
        # a classic group would wait for who got an id
        {"version": 9} if author.kind == "consumer" else {"kind": "other"},
    ]
    if author.kind == "consumer":
        wrong += [
            {"member_id": "ghost", "instance": name, "protocols": (("range", b"\0"),)}
            for name in (client.instance, "i-nobody")
            if name
        ]
        wrong += (
            [{"version": 9, "member_id": "hasty", "rebalance_ms": -1}]
            if author.count() < MOST
            else []
        )
    return Join(
        author.group,
        STRANGER,
        **{"protocols": good, "version": 9, "member_id": "", "instance": None} | rng.choice(wrong),
    )


def probe_beat(author: MixedAuthor) -> Step | None:
    """A heartbeat of the consumer protocol that is wrong in a mixed group, or by which a classic
    member changes its protocol.
    """
    rng, client = author.rng, probed(author)
    if client is None:
        return None
    if CONVERT in author.moderns():
        return None
    fields: dict[str, Any] = rng.choice(({"member_id": "ghost"}, {"member_id": client.label}))
    return Beat(
        author.group, CONVERT, rng.choice((client.generation, client.generation + 1, 1)), **fields
    )


def probe_leave(author: MixedAuthor) -> Step | None:
    """Nobody leaves."""
    who = author.rng.choice(("ghost", "", *author.moderns()))
    return Leave(
        author.group,
        ((who, author.rng.choice((None, "i-nobody"))),),
        author.rng.choice((0, 2, 3, 5)),
    )


def probe_commit(author: MixedAuthor) -> Step | None:
    """A commit by a classic member, with its generation or another one."""
    rng, client = author.rng, probed(author)
    if client is None:
        return None
    # in a consumer group an older epoch may do for what was held since then
    older = -1 if author.kinds == {"classic"} else 1
    generation = client.generation + rng.choice((0, 0, 0, older, 1))
    offsets = (Offset("twelve", rng.choice((0, 5, 99)), rng.randrange(100)),)
    return Commit(
        author.group,
        client.letter,
        rng.choice((generation, generation, -1)),
        offsets,
        rng.choice((2, 7, 8, 9, 10)),
    )


def ask_about(author: MixedAuthor) -> Step | None:
    """What anybody may ask or try."""
    rng = author.rng
    return rng.choice(
        (
            ListGroups(
                5, rng.choice(((), ("stable",))), rng.choice(((), ("consumer",), ("classic",)))
            ),
            Fetch(author.group),
            Forget(author.group, (("twelve", (0,)), ("one", (0,)))),
            DeleteGroups((author.nobody, author.group)[: rng.choice((1, 2))])
            if author.count()
            else None,
            DescribeClassic((author.group, author.nobody), rng.choice(range(7))),
        )
    )


Table = list[tuple[int, Callable[[MixedAuthor], Step | None]]]

CHANGES: Table = [
    (10, arrive),
    (10, come_modern),
    (4, take_classic_place),
    (4, take_modern_place),
    (4, go_on_as_classic),
    (6, leave_classic),
    (8, leave_modern),
    (4, knock),
]
"""What moves partitions, or changes the group's kind."""

LAST_CHANGES: Table = [(12, take_last_place_for_others)]
"""What is drawn besides by every fifth script."""

PROBES: Table = [
    (4, probe_pulse),
    (4, probe_sync),
    (4, probe_join),
    (2, probe_beat),
    (2, probe_leave),
    (4, probe_commit),
    (4, ask_about),
]
"""What is tried at any time: members that have not heard of a change yet are answered all alike."""


class MixedScript(MixedAuthor):
    """An author that draws its next step from `CHANGES` and `PROBES`."""

    def next_step(self) -> Step:
        """The step after those that the author has noted."""
        if self.must_rest or self.must_end or (not self.is_at_rest and self.rng.random() < 0.5):
            return Rest(self.group)
        table = CHANGES + PROBES + (LAST_CHANGES if self.may_take_last_place else [])
        weights = [weight for weight, _ in table]
        while True:
            step = self.rng.choices(table, weights)[0][1](self)
            if step is not None:
                return step
