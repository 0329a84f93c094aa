"""Classic groups in every version: a group of three comes and goes, with what is wrong on the way,
and changes its kind. Its steps are those of the differential tests, on one broker.
"""

from dataclasses import replace
from typing import Any

from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode
from tests.kafka.differential.classic_play import answered, exchange
from tests.kafka.differential.classic_steps import DescribeClassic, Join, Leave, Pulse, Sync
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import EMPTY, Beat, MakeTopic

KEYS = (11, 12, 13, 14, 15)
NAME = "birds"
CHANGES = "changes-its-kind"
"""The group that changes its kind: a word for an assignor would forbid that."""
RANGE, STICKY = "range", "cooperative-sticky"
SESSION_MS = 20_000


def protocols(version: int) -> tuple[tuple[str, bytes], ...]:
    """Two protocols; the blob's version goes with the version of the request."""
    owned = (ConsumerProtocolTopicPartition(topic=NAME, partitions=(0,)),) if version else ()
    subscription = ConsumerProtocolSubscription(
        topics=(NAME,), user_data=None, owned_partitions=owned, generation_id=3, rack_id="r"
    )
    blob = encode(subscription, min(version, 3))
    return (RANGE, blob), (STICKY, blob)


def assignment(partition: int, version: int, word: bytes | None) -> bytes:
    """What the leader gives a member, and perhaps a word for its assignor."""
    partitions = (ConsumerProtocolTopicPartition(topic=NAME, partitions=(partition,)),)
    given = ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=word)
    return encode(given, version)


class Group:
    """One group on the broker, whose members say what its version has."""

    def __init__(self, side: Side, name: str, version: int) -> None:
        """Know no member yet."""
        self.side, self.name, self.version = side, name, version
        self.joined: dict[str, Plain] = {}
        side.begin()

    def play(self, step: Any, *, waits: bool = False) -> Plain:
        """The answer to the step, or "parked"; where it `waits`, once it is there."""
        if waits:
            (answer,) = answered((self.side,), step, self._note)
        else:
            (result,) = exchange((self.side,), step)
            answer = result["answer"]
            self._note(result["late"])
        if isinstance(step, Join) and answer != "parked":
            self._note({step.member: answer})
        return answer

    def _note(self, answers: dict[str, Plain]) -> None:
        self.joined |= {letter: each for letter, each in answers.items() if "leader" in each}

    def join(self, letter: str, *, waits: bool = True, **said: Any) -> Plain:
        """A JoinGroup; in two steps where the version wants them."""
        facts: dict[str, Any] = {"session_ms": SESSION_MS, "reason": "for the record"}
        step = Join(self.name, letter, protocols(self.version), self.version, **facts | said)
        answer = self.play(step, waits=waits)
        if answer != "parked" and answer["code"] == 79:
            answer = self.play(replace(step, member_id=None), waits=waits)
        return answer

    def sync(self, letter: str, *, waits: bool = True, **said: Any) -> Plain:
        """A SyncGroup; the leader's says who gets which partition."""
        version, joined = min(self.version, 5), self.joined[letter]
        word = None if self.name == CHANGES else b"word"
        given = tuple(
            (member, assignment(index, min(version, 3), word))
            for index, member in enumerate(joined["members"])
        )
        facts: dict[str, Any] = {"kind": "consumer", "protocol": RANGE, "assignments": given}
        step = Sync(self.name, letter, joined["generation"], version=version, **facts | said)
        return self.play(step, waits=waits)

    def beat(self, letter: str, **said: Any) -> None:
        """One Heartbeat."""
        facts = {"generation": self.joined[letter]["generation"], "group": self.name} | said
        self.play(Pulse(member=letter, version=min(self.version, 4), **facts))

    def leave(self, *members: tuple[str, str | None]) -> None:
        """These have left, of which version 2 and older know the first alone."""
        self.play(Leave(self.name, members, min(self.version, 5)))

    def describe(self, *groups: str) -> None:
        """These groups were described."""
        self.play(DescribeClassic(groups, min(self.version, 6), operations=True))


def prepare(bootstrap: str) -> None:
    """The topic is there, and every group of any name has a coordinator that has read its log."""
    side = Side("golden", bootstrap)
    side.prepare()
    side.play(MakeTopic(NAME, 3))
    side.close()


def classic(bootstrap: str) -> None:
    """Everything below has happened."""
    side = Side("golden", bootstrap)
    for version in JoinGroupRequest.__versions__:  # type: ignore[attr-defined]
        come_and_go(Group(side, f"classic-{version}", version))
        go_wrong(Group(side, f"wrong-{version}", version))
        if version >= 5:
            come_back(Group(side, f"back-{version}", version))
    change_kind(Group(side, CHANGES, 9))
    side.close()


def come_and_go(group: Group) -> None:
    """A group of three, one of them static where the version knows it: it joins, syncs, beats, is
    described and left.
    """
    static = "static" if group.version >= 5 else None
    group.join("a")
    group.describe(group.name)  # waits for its leader's sync
    group.sync("a")
    group.join("b", waits=False)
    group.join("c", waits=False, instance=static)
    group.beat("a")  # is told to join again
    group.join("a")
    for letter in "abc":
        group.sync(letter, instance=static if letter == "c" else None)
        group.beat(letter, instance=static if letter == "c" else None)
    group.describe(group.name, "nobody")
    group.leave(("c1", static), ("ghost", None))
    for letter in "ab":
        group.leave((f"{letter}1", None))
    group.describe(group.name)


def go_wrong(group: Group) -> None:
    """Every refusal that one member alone can earn."""
    instance: dict[str, Any] = {"instance": "i"} if group.version >= 5 else {}
    join = Join(group.name, "x", protocols(group.version), group.version, "")
    said: dict[str, Any]
    for said in ({"session_ms": 1}, {"member_id": "ghost"}, {"protocols": ()}, {"kind": ""}):
        group.play(replace(join, **instance | said))
    group.play(replace(join, group=""))
    group.join("a", **instance)
    group.join("a", **instance, kind="other")
    group.joined["a"] = group.joined["a"] | {"generation": 1}
    for said in ({"generation": 77}, {"member_id": "ghost"}, {"group": "nobody"}, {"group": ""}):
        group.beat("a", **instance | said)
    sync = Sync(group.name, "x", 1, version=min(group.version, 5), kind="consumer", protocol=RANGE)
    for said in ({"generation": 77}, {"member_id": "ghost"}, {"protocol": "other"}):
        group.play(replace(sync, **{"member_id": "a1"} | instance | said))
    if instance:
        for said in ({"member_id": "ghost"}, {"member_id": "ghost", "instance": "nobody"}):
            group.play(replace(sync, **instance | said))
            group.beat("a", **instance | said)
    group.describe("", "nobody")
    group.leave(("a1", instance.get("instance")))
    group.leave(("ghost", instance.get("instance")))


def come_back(group: Group) -> None:
    """A static leader has been replaced by itself: from version 9 on it is told to assign nothing
    (KIP-814).
    """
    group.join("a", instance="leader")
    group.sync("a", instance="leader")
    answer = group.join("b", instance="leader", reason="back again")
    assert answer["skip"] == (group.version >= 9)
    group.sync("b", instance="leader", assignments=())
    group.beat("a", instance="leader", member_id="a1")  # is fenced
    group.leave(("b1", "leader"))


def change_kind(group: Group) -> None:
    """A classic group has become a consumer group and a classic one again: what stands in the log
    says so.
    """
    group.join("a")
    group.sync("a")
    group.join("b", waits=False, instance="static")
    group.join("a")
    for letter in "ab":
        group.sync(letter, instance="static" if letter == "b" else None)
    fields: dict[str, Any] = {"topics": (NAME,), "rebalance_ms": 30_000, "member_id": "new"}
    assert group.play(Beat(group.name, "n", 0, owned=EMPTY, **fields))["member"] == "n"
    for letter, instance in (("a", None), ("b", "static")):
        group.beat(letter, instance=instance)
        group.join(letter, instance=instance)
        group.sync(letter, instance=instance, assignments=(), protocol=None)
    group.describe(group.name)
    group.play(Beat(group.name, "n", -1))
    for letter, instance in (("a", None), ("b", "static")):
        group.beat(letter, instance=instance)
    group.leave(("b1", "static"), ("a1", None))
