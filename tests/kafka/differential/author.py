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
UNIFORM_ALONE = (None, "uniform")
MIXED_VOTES = (None, "uniform", "range", "range")
"""The votes of members whose shares are as large under either assignor."""
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
    topics: tuple[str, ...] | None = None
    assignor: str | None = None
    rack: str | None = None


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
        self.assignors: tuple[str | None, ...] = UNIFORM_ALONE
        """What members of the uniform assignor vote for."""
        if len(self.subscriptions) == 1 and seed // 12 % 2:
            self.assignors = MIXED_VOTES
        self.winners: set[str | None] = set()
        """Which assignors would have won since the group was last settled; None for a tie."""
        self.has_changed_rack = False
        """Whether a static member has come back in another rack since then."""
        self.away: Actor | None = None
        """The static member that has left for a while, in a group of the uniform assignor."""

    def note(self, step: Step, answer: Plain) -> None:
        """The author knows what came of the step."""
        self.is_settled = isinstance(step, Settle)
        if self.is_settled:
            self.winners, self.has_changed_rack = {self.winner()}, False
        if not isinstance(step, Beat) or step.group != self.group or answer == "closed":
            return
        actor = self.actors.get(step.member)
        if self.is_loose and answer["code"] == 0 and step.epoch == -2:
            self.away = actor
        elif answer["code"] == 0 and step.epoch == 0:
            away, self.away = self.away, None
            if away is not None:
                away.is_in = False
                self.has_changed_rack = step.rack not in (None, away.rack)
            self.actors[step.member] = Actor(
                step.member,
                step.version,
                step.instance,
                is_in=True,
                topics=step.topics,
                assignor=step.assignor or (away.assignor if away else None),
                rack=step.rack or (away.rack if away else None),
            )
            self.winners = self.winners | {self.winner()} if away else {self.winner()}
        elif actor is not None and (
            answer["code"] in (25, 69, 110) or (answer["code"] == 0 and step.epoch < 0)
        ):
            actor.is_in = False
            self.winners = {self.winner()}

    def members(self) -> list[Actor]:
        """The actors that take themselves for members."""
        return [actor for actor in self.actors.values() if actor.is_in]

    def member(self) -> Actor | None:
        """Any of them."""
        candidates = self.members()
        return self.rng.choice(candidates) if candidates else None

    def winner(self) -> str | None:
        """The assignor that most members ask for, uniform if nobody asks; None for a tie."""
        votes = [actor.assignor for actor in self.members() if actor.assignor]
        counts = sorted(((votes.count(name), name) for name in dict.fromkeys(votes)), reverse=True)
        if not counts:
            return "uniform"
        return None if len(counts) > 1 and counts[0][0] == counts[1][0] else counts[0][1]

    def votes_since(self) -> str:
        """The votes since the group was last settled, as Settle has them."""
        if self.assignors is UNIFORM_ALONE:
            return ""
        if None in self.winners:
            return "tied"
        return "changed" if len(self.winners) > 1 else "mixed"

    def rack(self) -> str:
        """A rack."""
        return self.rng.choice(("r1", "r2"))

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
