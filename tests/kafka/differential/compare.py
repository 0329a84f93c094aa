"""Scripts played on both brokers, step by step, until the first disagreement that nobody
intended.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from tests.kafka.differential.author import POOL, Author
from tests.kafka.differential.generator import next_step
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import Beat, DeleteGroups, Describe, MakeTopic, Step
from tests.messages import request

HEARD_WITHIN_S = 30


@dataclass(frozen=True, slots=True)
class Difference:
    """One place of one answer where the brokers do not say the same."""

    step: Any  # a Step, or a Case of the wrong requests
    path: tuple[str, ...]
    ours: Plain
    theirs: Plain
    after: Step | None = None
    """The newest step of the script; `step` may have been a look at what it did."""

    def line(self) -> str:
        """The difference for a reader."""
        return (
            f"{'.'.join(self.path) or 'answer'}: apportion says {self.ours!r}, Kafka says "
            f"{self.theirs!r}"
        )


@dataclass(slots=True)
class Intended:
    """A difference that is meant to be: a row of docs/differences.md, which says why. `seen` is
    where it was met.
    """

    name: str
    matches: Callable[[Difference], bool]
    ends_script: bool = False  # what follows depends on it
    seen: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class Played:
    """What one script came to."""

    seed: int
    script: list[Step] = field(default_factory=list)
    disagreements: list[Difference] = field(default_factory=list)
    answers: tuple[Plain, Plain] | None = None
    seconds: float = 0.0
    has_parted: bool = False
    """Whether an intended difference has ended it, after which the brokers go different ways."""
    tests: str = "tests/kafka/test_differential.py"

    def report(self) -> str:
        """All steps up to a disagreement, and how to see it again."""
        lines = [
            f"seed {self.seed}: the brokers disagree after {len(self.script)} steps, "
            f"{self.seconds:.1f} s"
        ]
        lines += [f"  {number:3} {step.line()}" for number, step in enumerate(self.script, 1)]
        lines += [
            f"  * in {type(difference.step).__name__}: {difference.line()}"
            for difference in self.disagreements
        ]
        if self.answers is not None:
            lines += [f"  apportion: {self.answers[0]!r}", f"  Kafka:     {self.answers[1]!r}"]
        lines.append(
            f"  again: APPORTION_DIFFERENTIAL_SEED={self.seed} make test TESTS={self.tests}"
        )
        return "\n".join(lines)


def play(
    seed: int, length: int, token: str, ours: Side, theirs: Side, intended: list[Intended]
) -> Played:
    """The script of that seed, to its end or to the first disagreement."""
    for side in (ours, theirs):
        side.begin()
        side.play(DeleteGroups(("",)))  # the one group that all scripts share
    author, played, started = Author(seed, token, theirs), Played(seed), time.monotonic()
    while len(played.script) < length:
        step = next_step(author)
        played.script.append(step)
        answer, ends = _both(played, step, ours, theirs, intended, author.is_loose)
        author.note(step, answer)
        if not played.disagreements and isinstance(step, Beat) and not author.is_loose:
            ends = (
                _both(played, Describe((author.group,)), ours, theirs, intended, author.is_loose)[1]
                or ends
            )
        played.has_parted = ends
        if played.disagreements or ends:
            break
    played.seconds = time.monotonic() - started
    return played


def _both(
    played: Played, step: Step, ours: Side, theirs: Side, intended: list[Intended], is_loose: bool
) -> tuple[Plain, bool]:
    """The real Kafka's answer, and whether the script must end; disagreements are noted in
    `played`.
    """
    answers = (ours.play(step), theirs.play(step))
    shown = tuple(_loosely(step, answer) for answer in answers) if is_loose else answers
    ends = False
    for path, our, their in differences(*shown):
        difference = Difference(step, path, our, their, played.script[-1])
        row = next((row for row in intended if row.matches(difference)), None)
        if row is None:
            played.disagreements.append(difference)
            played.answers = answers
        else:
            row.seen.append(difference)
            ends = ends or row.ends_script
    return answers[1], ends


def _loosely(step: Step, answer: Plain) -> Plain:
    """What an answer says that cannot depend on which partition went where."""
    if isinstance(step, Beat) and isinstance(answer, dict):
        return {name: answer[name] for name in ("code", "has message")}
    return answer


def differences(
    ours: Plain, theirs: Plain, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Plain, Plain]]:
    """Where two plain values differ, as deep as both are dictionaries of the same keys."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for key in ours:
            yield from differences(ours[key], theirs[key], (*path, str(key)))
    elif ours != theirs:
        yield path, ours, theirs


@contextmanager
def side_by_side(kafka: RealKafka, **settings: Any) -> Iterator[tuple[Side, Side]]:
    """Our broker with these settings and the real one, with the topics that scripts share.

    A heartbeat that needs a new target computes it, as the real broker of the tests does.
    """
    at_once: dict[str, Any] = {"group.consumer.assignment.interval.ms": 0}
    with EmbeddedBroker(**(at_once | settings)) as broker:
        both = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        for side in both:
            side.prepare()
        make_pool(*both)
        yield both
        for side in both:
            side.close()


def make_pool(ours: Side, theirs: Side) -> None:
    """Both brokers have the topics that scripts share; a real Kafka may have them of other
    tests.
    """
    for name, count in POOL.items():
        for side in (ours, theirs):
            assert side.play(MakeTopic(name, count))["code"] in (0, 36), (side.name, name)
    for name, count in POOL.items():
        give_up = time.monotonic() + HEARD_WITHIN_S
        # its coordinator hears of topics later than who asks for metadata
        while share_of_one(theirs, name) < count:
            assert time.monotonic() < give_up, f"Kafka's coordinator has not heard of {name}"


def share_of_one(side: Side, topic: str) -> int:
    """How many partitions a member that is alone in its group is given."""
    member = {"group_id": f"pool-{topic}-{time.time_ns()}", "member_id": "m"}
    joins = request(
        "ConsumerGroupHeartbeat",
        **member,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        topic_partitions=(),
        subscribed_topic_names=(topic,),
    )
    leaves = request("ConsumerGroupHeartbeat", **member, member_epoch=-1)
    given = side.call(joins, 1).assignment
    side.call(leaves, 1)
    return 0 if given is None else sum(len(each.partitions) for each in given.topic_partitions)
