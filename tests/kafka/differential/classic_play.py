"""Scripts of classic and mixed groups on both brokers: what is answered at once, what is answered
late, what the group is then.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.kafka.differential.classic_steps import DescribeClassic, Join, Knock, Leave, Sync
from tests.kafka.differential.compare import Difference, Intended, Played, differences
from tests.kafka.differential.connections import PATIENCE_S, QUIET_S, gather
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import Beat, DeleteGroups, Step

TESTS = "tests/kafka/test_differential_classic.py"
POSTED = (Join, Sync, Knock)
STIRS = (Join, Sync, Knock, Leave, Beat, DeleteGroups)
"""After these, others may be answered."""
HASTE_S = 0.2
"""After this time a member is gone that wanted to take no time for a rebalance."""


class Author(Protocol):
    """Who writes a script while it is played."""

    is_led_by: str | None
    is_over: bool
    seen: set[int | str]

    def next_step(self) -> Step:
        """The step after those that the author has noted."""
        ...

    def note(self, step: Step, answer: Plain, late: dict[str, Plain]) -> None:
        """The author knows what came of the step, and of earlier ones."""
        ...

    def looks(self) -> tuple[Step, ...]:
        """How the author sees what the group is."""
        ...

    def looked(self, step: Step, answer: Plain) -> None:
        """The author knows what the group is."""
        ...

    def loosely(self, step: Step, answer: Plain) -> Plain:
        """What of an answer has to be the same on both brokers."""
        ...


def play_waiting(
    seed: int, length: int, author: Author, sides: tuple[Side, Side], intended: Sequence[Intended]
) -> Played:
    """The author's script, to its end or to the first disagreement."""
    for side in sides:
        side.begin()
        side.play(DeleteGroups(("",)))
    played, started, ends = Played(seed, tests=TESTS), time.monotonic(), False
    while len(played.script) < length and not ends and not author.is_over:
        step = author.next_step()
        played.script.append(step)
        leader = author.is_led_by
        answers = exchange(sides, step)
        author.note(step, answers[1]["answer"], answers[1]["late"])
        ends = judge(played, step, answers, intended, loosely(author, step, answers), leader)
        for look in () if ends else author.looks():
            described = settled(sides, look, author)
            author.note(look, described[1]["answer"], described[1]["late"])
            author.looked(look, described[1]["answer"])
            ends = (
                judge(played, look, described, intended, loosely(author, look, described), None)
                or ends
            )
    for side in sides:
        side.hang_up()
    played.seconds = time.monotonic() - started
    return played


def judge(
    played: Played,
    step: Step,
    answers: Plain,
    intended: Sequence[Intended],
    shown: Plain,
    leader: str | None,
) -> bool:
    """Whether the script must end; disagreements are noted in `played`."""
    ends = False
    for path, our, their in elected(shown, leader) or differences(*shown):
        difference = Difference(step, path, our, their)
        row = next((row for row in intended if row.matches(difference)), None)
        if row is None:
            played.disagreements.append(difference)
            played.answers = answers
        else:
            row.seen.append(difference)
            ends = ends or row.ends_script
    return ends or bool(played.disagreements)


def loosely(author: Author, step: Step, answers: Plain) -> Plain:
    """What of the answers, and of late ones, has to be the same on both brokers."""
    return tuple(
        {
            "answer": author.loosely(step, each["answer"]),
            "late": {
                letter: author.loosely(JOIN if "leader" in response else SYNC, response)
                for letter, response in each["late"].items()
            },
        }
        for each in answers
    )


JOIN, SYNC = Join("", "", ()), Sync("", "", 0)
"""What late answers answer: of a step only its kind matters there."""


def exchange(sides: Sequence[Side], step: Step) -> tuple[Plain, ...]:
    """The answer of each side to the step, or "parked"; and what came of earlier steps by now, by
    member.
    """
    direct = [side.play(step) for side in sides]
    if isinstance(step, Join) and step.rebalance_ms < 0:
        time.sleep(HASTE_S)  # deadlines are real time on a foreign broker
    gather(sides, QUIET_S if isinstance(step, STIRS) else 0)
    shown = []
    for side, answer in zip(sides, direct, strict=True):
        late = side.answered()
        if isinstance(step, POSTED) and answer != "closed":
            answer = late.pop(step.member, "parked")
            hear(side, step.group, {step.member: answer} if answer != "parked" else {})
        for group in side.crowds:
            hear(side, group, late)
        shown.append({"answer": answer, "late": late})
    return tuple(shown)


def answered(
    sides: Sequence[Side],
    step: Any,
    note: Callable[[dict[str, Plain]], None] | None = None,
    *,
    by: slice = slice(None),
) -> list[Plain]:
    """What each broker answers to a step that has nobody to wait for, however slow the machine is.
    note: told what came of earlier steps by then. by: those of the brokers that do answer.
    """
    results, until = exchange(sides, step), time.monotonic() + 30
    answers = [result["answer"] for result in results]
    while True:
        answers = [
            result["late"].pop(step.member, answer) if answer == "parked" else answer
            for result, answer in zip(results, answers, strict=True)
        ]
        if note is not None:
            for result in results:
                note(result["late"])
        if "parked" not in answers[by]:
            return answers
        assert time.monotonic() < until
        results = exchange(sides, DescribeClassic((step.group,)))


def all_answered(sides: Sequence[Side], *letters: str) -> None:
    """Every request of these members has its answer, however slow the machine is, and the members
    know it.
    """
    until = time.monotonic() + 30
    while any(side.lines[letter].asked is not None for side in sides for letter in letters):
        assert time.monotonic() < until
        gather(sides)
    for side in sides:
        side.answered()


def hear(side: Side, group: str, answers: dict[str, Plain]) -> None:
    """The clients of the group that mind their own business know what they were answered."""
    for letter, answer in answers.items():
        if group in side.crowds:
            side.crowds[group].hear(letter, answer)


def settled(sides: tuple[Side, Side], step: Step, author: Author) -> tuple[Plain, ...]:
    """Both answers, as soon as they are the same or one has had the time to come to what the other
    says.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        answers = exchange(sides, step)
        if (
            not any(differences(*loosely(author, step, answers)))
            or time.monotonic() > until
            or any(each["late"] for each in answers)
        ):
            return answers
        time.sleep(0.005)


def elected(
    answers: tuple[Plain, Plain], leader: str | None
) -> list[tuple[tuple[str, ...], Plain, Plain]]:
    """That the brokers chose other leaders for a generation, if that is all that differs and the
    leader before it is gone.
    """
    responses = [side["late"] | {"": side["answer"]} for side in answers]
    joins = [
        {
            each: response
            for each, response in side.items()
            if isinstance(response, dict) and "leader" in response
        }
        for side in responses
    ]
    leaders = [
        {response["leader"] for response in side.values() if response["code"] == 0}
        for side in joins
    ]
    if leaders[0] == leaders[1] or not all(len(each) == 1 for each in leaders):
        return []
    rolls = [
        [
            {label: response for label, (_, response) in each["members"].items()}
            for each in side.values()
            if each["code"] == 0 and each["member"] == each["leader"]
        ]
        for side in joins
    ]
    bare = [
        {
            each: response | {"leader": "", "members": {}} if each in join else response
            for each, response in side.items()
        }
        for side, join in zip(responses, joins, strict=True)
    ]
    if bare[0] != bare[1] or rolls[0] != rolls[1] or len(rolls[0]) != 1 or leader in rolls[0][0]:
        return []
    return [(("election",), *(each.pop() for each in leaders))]
