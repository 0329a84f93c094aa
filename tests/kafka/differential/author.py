"""What the author of a script remembers: who is a member, under which ids things go, and a source
of chance.
"""

import random
from dataclasses import dataclass

from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import MemberView, Side
from tests.kafka.differential.steps import LONELY, NOWHERE, Beat, Settle, Step

POOL = {"one": 1, "two": 2, "three": 3, "four": 4, "six": 6, "twelve": 12}
"""The topics that scripts share, and their partitions."""

LETTERS = "abcdef"
NEWCOMER = "x"
"""Who joins wrongly: a letter of its own, because it may be let in under another id."""
FOREVER_MS = 300_000
EXPRESSION = "no such.*"
"""A regular expression that matches nothing, so that no answer depends on when it is resolved."""
SUBSCRIPTIONS = (
    (("twelve",),),  # shares come out even for up to four members
    (("twelve", "three"),),  # some have one more
    (("twelve",), ("twelve", "six"), ("six", "four"), ("three",)),  # everybody wants something else
)
"""What the members of one group of the uniform assignor want, each one of these."""
NAMED_TWICE = 0.1
"""How often a request names something twice that it names at all."""
CHANGES_TOPICS = 0.3
"""The part of all exact scripts that make and grow a topic of their own: a real Kafka takes its
time for that.
"""


@dataclass(slots=True)
class Actor:
    """What the author remembers of a member."""

    letter: str
    version: int
    instance: str | None = None
    is_in: bool = False


class Author:
    """What is known while one script is written."""

    def __init__(self, seed: int, token: str, side: Side) -> None:
        self.rng = random.Random(seed)
        self.is_loose = seed % 4 == 3
        self.subscriptions = SUBSCRIPTIONS[seed // 4 % len(SUBSCRIPTIONS)]
        self.group, self.simple, self.nobody = (
            f"{word}-{seed}-{token}" for word in ("group", "simple", "nobody")
        )
        self.lonely = f"{LONELY}-{seed}-{token}"
        self.own = f"own-{seed}-{token}"
        self.changes_topics = self.rng.random() < CHANGES_TOPICS
        self.side = side
        self.actors: dict[str, Actor] = {}
        self.letters = self.rng.sample(LETTERS, len(LETTERS))
        self.is_settled = True

    def note(self, step: Step, answer: Plain) -> None:
        """The author knows what came of the step."""
        self.is_settled = isinstance(step, Settle)
        if not isinstance(step, Beat) or step.group != self.group or answer == "closed":
            return
        actor = self.actors.get(step.member)
        if answer["code"] == 0 and step.epoch == 0:
            self.actors[step.member] = Actor(step.member, step.version, step.instance, is_in=True)
        elif actor is not None and (
            answer["code"] in (25, 69, 110) or (answer["code"] == 0 and step.epoch < 0)
        ):
            actor.is_in = False

    def members(self) -> list[Actor]:
        """The actors that take themselves for members."""
        return [actor for actor in self.actors.values() if actor.is_in]

    def member(self) -> Actor | None:
        """Any of them."""
        candidates = self.members()
        return self.rng.choice(candidates) if candidates else None

    def view(self, actor: Actor) -> MemberView:
        """The member's view on the real Kafka."""
        return self.side.views[self.group, actor.letter]

    def topics(self) -> tuple[str, ...]:
        """A subscription."""
        names = [*list(POOL)[:-1], NOWHERE]
        if self.changes_topics:
            names += [self.own] * 3
        if self.rng.random() < 0.05:
            return self.rng.choice((("one", "one"), ("",), ("bad name", "two")))
        return tuple(dict.fromkeys(self.rng.choices(names, k=self.rng.choice((1, 1, 2, 2, 3)))))
