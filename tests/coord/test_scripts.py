"""Stories told to a real shard: `scripts/*.txt`, a line a step, what the shard says behind `>`;
`pytest --rewrite` writes that.

A line with "#" is a remark. Steps:

- `topic foo 3`: the topic has that many partitions from now on
- `group at 21: A foo-0, B`: the log holds a settled group with these members
- `A joins foo bar [as INSTANCE]`: a complete first heartbeat
- `A joins foo matching b.*`: the same with an expression
- `A subscribes to bar matching b.*`: a heartbeat with another subscription
- `resolve`: what was begun beside the shard ends, and the shard gets the result
- `A beats`: a heartbeat that says nothing new
- `A beats owning foo-0 foo-1`: a heartbeat that says what A still uses; `owning` alone: nothing
- `A leaves` / `A goes for a while`: for good / as a static member
- `time 3000`: milliseconds pass
- `crash`: the shard is rebuilt from its log
- `show`: the group: its state, its target, its members
- `assignor all_to_first`: a custom assignor that answers so, from now on
- `set SETTING 1000`: a setting of groups (an underscore for each dot)
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apportion.coord import records
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.targets import metadata_hash
from apportion.errors import Code
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_heartbeat import TopicPartitions
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    RecordTopicPartitions,
)
from tests.coord.shard_driver import ShardDriver, member_metadata, parts, topic_id, topics
from tests.coord.toy_assignor import ANSWERS, Toy
from tests.scripted import check

BAD_EXPRESSION = Code.INVALID_REGULAR_EXPRESSION
SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
assert SCRIPTS


class ScriptPlayer:
    """One script being played."""

    def __init__(self) -> None:
        self.driver = ShardDriver(known=topics())
        self.epochs: dict[str, int] = {}
        self.instances: dict[str, str | None] = {}
        self.topics: dict[str, Topic] = {}

    def play(self, line: str) -> list[str]:
        """What the shard says to one step."""
        match line.split():
            case ["topic", name, partitions]:
                self.topics[name] = Topic(name, topic_id(name), int(partitions))
                self.driver.change_topics(self.topics.values())
                return []
            case ["group", "at", epoch, *_]:
                self.settle(int(epoch.rstrip(":")), line.split(":")[1])
                return []
            case ["time", elapsed_ms]:
                before = len(self.driver.notes)
                self.driver.advance(int(elapsed_ms))
                return self.driver.notes[before:]
            case ["crash"]:
                self.driver.crash()
                return []
            case ["assignor" | "set", name, *value]:
                self.change_settings(name, *value)
                return []
            case ["show"]:
                return self.show()
            case ["resolve"]:
                before = len(self.driver.notes)
                self.driver.end_computations()
                return self.driver.notes[before:]
            case [member, "joins", *rest, "matching", expression]:
                return self.join(member, rest, subscribed_topic_regex=expression)
            case [member, "subscribes", "to", *rest]:
                names, _, expression = " ".join(rest).partition("matching")
                return self.beat(
                    member,
                    self.epochs[member],
                    subscribed_topic_names=names.split(),
                    subscribed_topic_regex=expression.strip(),
                )
            case [member, "joins", *rest]:
                names, _, instance = " ".join(rest).partition(" as ")
                self.instances[member] = instance or None
                return self.join(member, names.split())
            case [member, "beats"]:
                return self.beat(member, self.epochs[member])
            case [member, "beats", "owning", *owned]:
                return self.beat(member, self.epochs[member], owned=by_topic(owned))
            case [member, "leaves"]:
                return self.beat(member, -1)
            case [member, "goes", "for", "a", "while"]:
                return self.beat(member, -2)
        raise AssertionError(f"no such step: {line}")

    def change_settings(self, name: str, *value: str) -> None:
        """A setting has another value from now on, or there is an assignor of that name."""
        changed: dict[str, Any] = (
            {name: int(value[0])}
            if value
            else {
                "group_consumer_assignors": ("toy",),
                "custom_assignors": {"toy": Toy(ANSWERS[name])},
            }
        )
        self.driver.settings = replace(self.driver.settings, **changed)
        self.driver.shard.settings = self.driver.settings

    def join(self, member: str, topics: list[str], **facts: Any) -> list[str]:
        """A complete first heartbeat, and the answer as a line."""
        return self.beat(
            member,
            0,
            subscribed_topic_names=topics,
            rebalance_timeout_ms=20_000,
            owned={},
            **facts,
        )

    def beat(self, member: str, epoch: int, **facts: Any) -> list[str]:
        """One heartbeat, and the answer as a line."""
        answer = self.driver.beat(member, epoch, instance_id=self.instances.get(member), **facts)
        if answer.error_code:
            why = f": {answer.error_message}" if answer.error_code == BAD_EXPRESSION else ""
            return [f"{member}: {Code(answer.error_code).name}{why}"]
        self.epochs[member] = answer.member_epoch
        assigned = (
            "" if answer.assignment is None else ", " + names(answer.assignment.topic_partitions)
        )
        return [f"{member}: epoch {answer.member_epoch}{assigned}"]

    def settle(self, epoch: int, members: str) -> None:
        """The log begins with a group in which everybody has its target."""
        log = [records.group_epoch("g", epoch, 0)]
        for text in members.split(","):
            member, *held = text.split()
            self.epochs[member] = epoch
            has = parts(by_topic(held))
            given = tuple(
                RecordTopicPartitions(topic_id=part.topic_id, partitions=part.partitions)
                for part in has
            )
            value = ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=epoch, previous_member_epoch=epoch - 1, assigned_partitions=given
            )
            log += [
                records.member_metadata("g", member, member_metadata(rebalance_timeout_ms=20_000)),
                records.target_assignment(
                    "g", member, [(part.topic_id, part.partitions) for part in has]
                ),
                records.current_assignment("g", member, value),
            ]
        self.driver.log = [*log, records.assignment_epoch("g", epoch, 0)]
        self.driver.crash()
        group: Any = self.driver.shard.ledger.groups["g"]
        hashed = metadata_hash(group, self.driver.shard.topics)
        self.driver.log.append(records.group_epoch("g", epoch, hashed))
        self.driver.crash()

    def show(self) -> list[str]:
        """The group as its page in KIP-848 would show it."""
        group: Any = self.driver.shard.ledger.groups.get("g")
        if group is None:
            return ["no group"]
        assert group.saved is not None
        saved, units = group.saved, group.saved.units
        assert saved is not None
        members = [member for _, member in sorted(saved.members.items())]
        resolutions = [
            f"  {expression} matches {' '.join(found) or 'nothing'}"
            for expression, found in saved.resolutions.items()
        ]
        lines = [
            f"{group.state}, group epoch {saved.epoch}",
            f"target assignment epoch {saved.assignment_epoch}",
        ]
        lines += [
            f"  {member.member_id} shall have {named(units.as_topics(member.target.tolist()))}"
            for member in members
            if member.target is not None
        ]
        lines += resolutions
        for member in members:
            state = "" if member.state is MemberState.STABLE else f" ({member.state.name.lower()})"
            has = named(units.as_topics(member.assigned.units.tolist()))
            owes = named(units.as_topics(member.pending_revocation.units.tolist()))
            debt = "" if owes == "nothing" else f", must give up {owes}"
            lines.append(f"{member.member_id} at {member.epoch}{state} has {has}{debt}")
        return lines


def by_topic(words: list[str]) -> dict[str, list[int]]:
    """["foo-0", "foo-1"] as {"foo": [0, 1]}."""
    result: dict[str, list[int]] = {}
    for word in words:
        topic, _, partition = word.rpartition("-")
        result.setdefault(topic, []).append(int(partition))
    return result


def names(topic_partitions: tuple[TopicPartitions, ...]) -> str:
    """Partitions of a message as words."""
    return named((part.topic_id, part.partitions) for part in topic_partitions)


def named(held: Any) -> str:
    """(topic id, partitions) as words."""
    words = [
        f"{some.decode().lstrip('.').split('.')[0]}-{index}"
        for some, indexes in held
        for index in indexes
    ]
    return " ".join(words) or "nothing"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_story_goes_as_it_is_told(script: Path, request: pytest.FixtureRequest) -> None:
    check(script, ScriptPlayer().play, request)
