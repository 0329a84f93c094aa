"""What the author of a script of a mixed group knows, and which parts of an answer it compares.

Everything is looked up on the real Kafka's side. `mixed_scripts.py` draws the steps from it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.kafka.differential.classic_clients import ClassicClients, Client, places_of
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
from tests.kafka.differential.steps import Beat, Describe, Step

if TYPE_CHECKING:
    from tests.kafka.differential.plain_values import Plain
    from tests.kafka.differential.side import MemberView, Side


CLASSIC, MODERN = "abcde", "mnopq"
MOST = 4
WANTS = (("twelve",), ("twelve",), ("twelve", "three"))
STRANGER, CONVERT = "x", "w"


class MixedAuthor:
    """What is known while one script is written: everything is looked up on the real Kafka's
    side.
    """

    def __init__(self, seed: int, token: str, side: Side) -> None:
        self.rng = random.Random(seed)
        self.group, self.nobody = f"mixed-{seed}-{token}", f"nobody-{seed}-{token}"
        self.topics = self.rng.choice(WANTS)
        self.side = side
        self.is_at_rest = True
        self.is_led_by: str | None = None
        self.kind = ""
        self.kinds: set[str] = set()
        """What the group has been since it was last at rest."""
        self.is_assigning = False
        """Whether nobody has made a target since the epoch grew."""
        self.is_downgraded = False
        """Whether the group has become classic, and no generation has followed: who is in it has
        what the downgrade saved.
        """
        self.generation = -1
        """The newest one that a classic client had when the group was last at rest."""
        self.changes = 0
        """How many have come or gone since then."""
        self.must_rest = False
        """Whether somebody has come and gone at once: the targets of two epochs leave open who has
        what to give up.
        """
        self.may_take_last_place = seed % 5 == 4
        self.is_over = self.must_end = False
        """Whether members want different topics: what they come to is the last that is compared."""
        self.is_steady = True
        """Whether how much moved until it was at rest says something: who leads a classic group
        moves what it likes, and a target that is overtaken by another one is reached on many ways.
        """
        self.used: set[str] = set()
        self.seen: set[int | str] = set()
        """The codes and the kinds that were met."""

    def note(self, step: Step, answer: Plain, late: dict[str, Plain]) -> None:
        """The author knows what came of the step, and of earlier ones."""
        self.seen |= {
            response["code"]
            for response in (answer, *late.values())
            if isinstance(response, dict) and "code" in response
        }
        if isinstance(step, Rest):
            self.is_over = self.must_end
            self.is_steady = self.kinds == {"consumer"} and self.changes <= 1
            self.is_at_rest, self.changes, self.kinds, self.must_rest = True, 0, {self.kind}, False
            newest = max(answer["generations"].values(), default=-1)
            self.is_downgraded = self.is_downgraded and newest <= self.generation
            self.generation = newest
        elif isinstance(step, Join) and step.rebalance_ms < 0:
            self.is_at_rest, self.changes, self.must_rest = False, self.changes + 2, True
        elif isinstance(step, Arrive | Knock | Leave | Join) or (
            isinstance(step, Beat) and answer["code"] == 0
        ):
            self.is_at_rest = False
            self.changes += 1

    def looks(self) -> tuple[Step, ...]:
        """How the author sees what the group is."""
        return DescribeClassic((self.group,)), Describe((self.group,))

    def looked(self, step: Step, answer: Plain) -> None:
        """The author knows what the group is."""
        if answer[self.group]["code"] == 0:
            state, was_consumer = answer[self.group]["state"], self.kind == "consumer"
            self.is_assigning = state == "Assigning"
            self.is_downgraded = state == "PreparingRebalance" and (
                self.is_downgraded or (was_consumer and not self.is_at_rest)
            )
            self.kind = "classic" if isinstance(step, DescribeClassic) else "consumer"
            self.kinds.add(self.kind)
            self.seen.add(self.kind)

    def loosely(self, step: Step, answer: Plain) -> Plain:
        """What an answer says that cannot depend on which partition went where, or on who leads."""
        if not isinstance(answer, dict):
            return answer
        if isinstance(step, Beat):
            response = {name: answer[name] for name in ("code", "has message", "epoch")}
            takes_a_place = self.kind == "classic" and step.epoch == 0 and step.instance is not None
            return {UPGRADED: response} if takes_a_place else response
        if isinstance(step, Rest) and GROUP_MAX_SIZE_REACHED in answer["gone"].values():
            group = FULL if self.kind == "consumer" and not answer["epochs"] else TURNED_AWAY
            return {group: {name: response for name, response in answer.items() if name != "moved"}}
        if isinstance(step, Rest) and GROUP_ID_NOT_FOUND in answer["gone"].values():
            return {
                SUCCEEDED: {name: response for name, response in answer.items() if name != "moved"}
            }
        if (
            isinstance(step, Rest)
            and self.kind == "consumer"
            and answer["generations"]
            and not answer["epochs"]
        ):
            group = RIVALS if FENCED_INSTANCE_ID in answer["gone"].values() else UNTOLD
            return {group: {name: response for name, response in answer.items() if name != "moved"}}
        if isinstance(step, Rest) and not self.is_steady:
            return {name: response for name, response in answer.items() if name != "moved"}
        if isinstance(step, Pulse | Sync) and self.is_assigning:
            return {UNTARGETED: answer["code"]}
        if isinstance(step, Join | Knock):
            volatile = ("member",) if answer["code"] not in (0, MEMBER_ID_REQUIRED) else ()
            return {
                name: answer[name] for name in ("code", "generation", "type", "protocol", *volatile)
            }
        if isinstance(step, Sync):
            return {name: answer[name] for name in ("code", "type", "protocol")}
        if isinstance(step, Describe | DescribeClassic):
            return {
                DOWNGRADED
                if self.is_downgraded and group == self.group
                else group: self._described(response)
                for group, response in answer.items()
            }
        return answer

    def _described(self, response: Plain) -> Plain:
        """A described group without who has what; in a group at rest only how much everybody
        has.
        """
        members: Any = {
            label: {name: each[name] for name in each if name not in LOOSE}
            for label, each in response["members"].items()
        }
        sizes = {
            name: sorted(count(each[name]) for each in response["members"].values() if name in each)
            for name in LOOSE[:2]
        }
        if not self.is_at_rest:
            members = {
                label: {name: each[name] for name in each if name != "epoch"}
                for label, each in members.items()
            }
            return response | {"members": members}
        return response | {"members": members, "sizes": sizes}

    def crowd(self) -> ClassicClients | None:
        """The classic clients of the group."""
        return self.side.crowds.get(self.group)

    def clients(self) -> list[Client]:
        """The classic members that are not waiting for anything."""
        crowd = self.crowd()
        return (
            [each for each in crowd.clients.values() if not crowd.waits(each.letter) and each.label]
            if crowd
            else []
        )

    def moderns(self) -> dict[str, MemberView]:
        """The members of the consumer protocol, by letter."""
        crowd = self.crowd() or ClassicClients(self.side, self.group)
        return crowd.moderns()

    def count(self) -> int:
        """How many are in the group, or on their way."""
        crowd = self.crowd()
        return (len(crowd.clients) if crowd else 0) + len(self.moderns())

    def fresh(self, letters: str) -> str | None:
        """A letter that nobody has had."""
        unused = [letter for letter in letters if letter not in self.used]
        if not unused:
            return None
        self.used.add(unused[0])
        return unused[0]


UPGRADED = "upgraded by who takes a place"
UNTARGETED = "before anybody has made a target"
SUCCEEDED = "made classic by who takes the last place"
UNTOLD = "a consumer group of classic members alone"
RIVALS = "a consumer group of classic members alone, of which two were the same instance"
DOWNGRADED = "made classic by who left last, and no generation has followed"
TURNED_AWAY = "with one member too many"
FULL = "with one member too many, and nobody left who speaks the consumer protocol"
"""What an answer is called when a group has changed its kind as a place its member, or has yet to
make a target.
"""
GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID = 69, 79, 81, 82
LOOSE = ("assignment", "target", "metadata")


def count(given: Plain) -> int:
    """How many partitions somebody has, as a consumer group or as a classic one tells."""
    return (
        sum(len(each) for each in given.values())
        if isinstance(given, dict)
        else len(places_of(given))
    )
