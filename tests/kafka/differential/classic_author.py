"""What the author of a script of classic groups remembers, and the rules by which it leaves alone
what Kafka decides by chance.
"""

import random
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode
from tests.kafka.differential.classic_steps import (
    RANGE,
    ROUND_ROBIN,
    STICKY,
    DescribeClassic,
    Join,
    Leave,
    Pulse,
    Sync,
)
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.steps import Commit, Step

LETTERS = "abcdefgh"
STRANGERS = "xyz"
"""Who does what is wrong: their answers change nobody's mind, unless they are let in."""
MOST = 4
"""So many members a script's group has at the most."""
OFFERS = (
    (RANGE,),
    (RANGE, ROUND_ROBIN),
    (RANGE, ROUND_ROBIN, STICKY),
    (ROUND_ROBIN, RANGE),
    (STICKY, ROUND_ROBIN, RANGE),
)
"""Which protocols a member may have, the one it likes best first."""
UNWRITTEN = "where a refused commit was the first to name a group"
GONE = (25, 82)
"""UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID: the member has to begin again."""


class Phase(Enum):
    """How far a member has come, as it knows itself."""

    OUT = auto()
    PENDING = auto()  # it has an id and no place
    JOINING = auto()
    JOINED = auto()
    SYNCING = auto()
    STABLE = auto()
    TOLD = auto()  # to join again


@dataclass(slots=True)
class Actor:
    """What the author remembers of a member."""

    letter: str
    version: int
    instance: str | None
    protocols: tuple[tuple[str, bytes], ...]
    label: str = ""
    generation: int = -1
    protocol: str | None = None
    phase: Phase = Phase.OUT
    leads: bool = False
    members: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether its connection is taken by a request that was not answered yet."""
        return self.phase in (Phase.JOINING, Phase.SYNCING)


class ClassicAuthor:
    """What is known while one script is written."""

    def __init__(self, seed: int, token: str) -> None:
        self.rng = random.Random(seed)
        self.group, self.simple, self.nobody = (
            f"{word}-{seed}-{token}" for word in ("classic", "simple", "nobody")
        )
        self.kind = self.rng.choice(("consumer", "consumer", "consumer", "connect"))
        self.is_opaque = self.kind != "consumer" or self.rng.random() < 0.2
        self.versions = self.rng.choice((tuple(range(10)), (9,), (5, 7, 9), (2, 3, 4), (8, 9)))
        self.actors: dict[str, Actor] = {}
        self.votes: dict[str, tuple[str, ...]] = {}
        self.present: frozenset[str] = frozenset()
        self.state = "Dead"
        self.is_led_by: str | None = None
        self.is_over = False
        self.is_unwritten = False
        """Whether a simple commit that was refused named the group first."""
        self.seen: set[int | str] = set()
        """The codes and the states that were met."""

    def note(self, step: Step, answer: Plain, late: dict[str, Plain]) -> None:
        """The author knows what came of the step, and of earlier ones."""
        self.seen |= {
            response["code"]
            for response in (answer, *late.values())
            if isinstance(response, dict) and "code" in response
        }
        for letter, late_response in late.items():
            self._answered(self.actors[letter], late_response)
        if isinstance(step, Join | Sync) and step.group == self.group:
            is_in = answer == "parked" or (answer != "closed" and answer["code"] in (0, 79))
            if step.member in STRANGERS and not is_in:
                return
            if step.member not in self.actors:
                self.actors[step.member] = Actor(step.member, step.version, None, ())
            actor = self.actors[step.member]
            if isinstance(step, Join) and answer == "parked" and step.member_id == "":
                actor.label = ""  # the next one is made already, and told later
            if isinstance(step, Join) and is_in:
                actor.instance, actor.protocols = step.instance, step.protocols
                self.votes[actor.label or actor.letter] = tuple(name for name, _ in step.protocols)
            if answer == "parked":
                actor.phase = Phase.JOINING if isinstance(step, Join) else Phase.SYNCING
            else:
                self._answered(actor, answer)
        elif (
            isinstance(step, Pulse)
            and step.group == self.group
            and step.member in self.actors
            and step.member_id is None
        ):
            self._answered(self.actors[step.member], answer)
        elif isinstance(step, Leave) and step.group == self.group and answer != "closed":
            codes = [each[2] for each in answer.get("members", ())] or [answer["code"]]
            for (label, instance), code in zip(step.members, codes, strict=False):
                for actor in self.actors.values():
                    if (
                        code == 0
                        and not actor.waits
                        and (actor.label == label or (label == "" and actor.instance == instance))
                    ):
                        actor.phase, actor.label = Phase.OUT, ""
        elif isinstance(step, Commit) and step.group == self.group and step.epoch < 0:
            was_refused = 0 not in answer.values()
            self.is_unwritten = self.is_unwritten or (self.state == "Dead" and was_refused)

    def _answered(self, actor: Actor, answer: Plain) -> None:
        """The member knows what it was answered."""
        if answer == "closed" or answer["code"] in GONE:
            actor.phase, actor.label = Phase.OUT, ""
        elif answer["code"] == 79:
            actor.phase, actor.label = Phase.PENDING, answer["member"]
        elif answer["code"] == 0 and "leader" in answer:
            actor.phase, actor.label, actor.generation = (
                Phase.JOINED,
                answer["member"],
                answer["generation"],
            )
            actor.leads, actor.members = answer["leader"] == actor.label, tuple(answer["members"])
            actor.protocol = answer["protocol"]
            self.votes[actor.label] = tuple(name for name, _ in actor.protocols)
            self.is_led_by = answer["leader"]
        elif answer["code"] == 0 and "assignment" in answer:
            actor.phase = Phase.STABLE
        elif answer["code"] in (22, 27) or actor.waits:
            actor.phase = Phase.TOLD if actor.label else Phase.OUT

    def looks(self) -> tuple[Step, ...]:
        """How the author sees what the group is."""
        return (DescribeClassic((self.group,)),)

    def loosely(self, step: Step, answer: Plain) -> Plain:
        """Everything has to be the same. Groups are described under another name if the author's
        may be without a record.
        """
        is_described = isinstance(step, DescribeClassic) and self.is_unwritten
        return {UNWRITTEN: answer} if is_described else answer

    def looked(self, step: Step, answer: Plain) -> None:
        """The author knows who the broker says is in the group."""
        described = answer[self.group]
        self.state = described["state"]
        self.seen.add(self.state)
        self.present = frozenset(described["members"])

    def ties(self, step: Step) -> bool:
        """Whether the vote among those who would be in the group could end in a tie, which Kafka
        breaks in no order.
        """
        voters = {label: self.votes[label] for label in self.present if label in self.votes}
        voters |= {
            each.letter: self.votes[each.letter]
            for each in self.actors.values()
            if each.waits and not each.label
        }
        if isinstance(step, Join):
            names = tuple(name for name, _ in step.protocols)
            actor = self.actors.get(step.member)
            for other in self.actors.values():
                if step.instance is not None and other.instance == step.instance:
                    voters.pop(other.label, None)
            voters[actor.label if actor and actor.label in voters else "it"] = names
        elif isinstance(step, Leave):
            out = {label for label, instance in step.members if instance is None}
            out |= {
                each.label
                for each in self.actors.values()
                if each.instance is not None
                # by another id, or as another instance, nobody leaves: the member still votes
                and any((label, each.instance) in step.members for label in ("", each.label))
            }
            voters = {label: names for label, names in voters.items() if label not in out}
        return is_tied(list(voters.values()))

    def choose(self, *phases: Phase) -> Actor | None:
        """Any member that is there and is not waiting for an answer."""
        candidates = [actor for actor in self.actors.values() if actor.phase in phases]
        return self.rng.choice(candidates) if candidates else None

    def idle(self) -> Actor | None:
        """Any member with an id that is not waiting for an answer."""
        return self.choose(Phase.JOINED, Phase.STABLE, Phase.TOLD)

    def offer(self) -> tuple[tuple[str, bytes], ...]:
        """Protocols of a member, with what it says in each."""
        return tuple((name, self.words(name)) for name in self.rng.choice(OFFERS))

    def words(self, name: str) -> bytes:
        """What a member says in a protocol."""
        if self.is_opaque and self.kind == "consumer":
            # more than that may leave a real Kafka without an answer
            return self.rng.choice((b"", b"\0", b"\0\0\0"))
        if self.is_opaque:
            return f"{name} {self.rng.randrange(3)}".encode()
        topics = self.rng.choice((("three",), ("three", "four"), ("four",)))
        return encode(ConsumerProtocolSubscription(topics=topics), self.rng.choice((0, 1, 2, 3)))

    def assigned(self, actor: Actor) -> tuple[tuple[str, bytes], ...]:
        """What a leader gives everybody."""
        if self.is_opaque:
            return tuple((label, f"for {label}".encode()) for label in actor.members)
        return tuple(
            (label, assignment("three", index)) for index, label in enumerate(actor.members)
        )


def assignment(topic: str, *partitions: int) -> bytes:
    """An assignment as Java's clients write it."""
    assigned = (
        (ConsumerProtocolTopicPartition(topic=topic, partitions=partitions),) if partitions else ()
    )
    return encode(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)


def is_tied(voters: list[tuple[str, ...]]) -> bool:
    """Whether the two most liked of the protocols that all have are liked equally."""
    common = [name for name in voters[0] if all(name in each for each in voters)] if voters else []
    votes = Counter(next(name for name in each if name in common) for each in voters if common)
    best = votes.most_common(2)
    return len(best) == 2 and best[0][1] == best[1][1]
