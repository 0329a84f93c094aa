"""Subscriptions by regular expression on both brokers, step by step, and Kafka's record of one,
read by us.
"""

import time
from collections.abc import Callable
from typing import Any

from apportion.coord.config import GroupSettings
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Instant
from apportion.topics import Topics
from apportion.wire.records.groups import ConsumerGroupRegularExpressionKey
from tests.kafka.differential.side import Side
from tests.kafka.test_migration_on_both import records_of
from tests.messages import request

PATIENCE_S = 30
INTERNAL = "__consumer_offsets"


class Group:
    """One group of one broker. Its members heartbeat as often as anything is waited for."""

    def __init__(self, side: Side, group_id: str) -> None:
        self.side, self.group_id = side, group_id
        # The scripts of differential/ know no other topics than their own.
        self.names = {topic_id: name for name, topic_id in side.topic_ids.items()}
        (internal,) = side.call(request("Metadata", topics=[{"name": INTERNAL}]), 12).topics
        self.names |= {bytes(internal.topic_id): INTERNAL}
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[dict[str, Any]]] = {}

    def ask(self, name: str, epoch: int, **facts: Any) -> Any:
        """The answer to a heartbeat of that member at that epoch."""
        if epoch == 0:
            facts = {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": (),
                "topic_partitions": (),
            } | facts
        facts |= {"group_id": self.group_id, "member_id": name, "member_epoch": epoch}
        return self.side.call(request("ConsumerGroupHeartbeat", **facts), 1)

    def beat(self, name: str, **facts: Any) -> tuple[int, dict[str, int]]:
        """The member's epoch after a heartbeat, and how many partitions it has of each topic."""
        answer = self.ask(name, self.epochs.get(name, 0), **facts)
        assert answer.error_code == Code.NONE, answer
        self.epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[name] = [
                {"topic_id": part.topic_id, "partitions": part.partitions}
                for part in answer.assignment.topic_partitions
            ]
        return self.seen(name)

    def seen(self, name: str) -> tuple[int, dict[str, int]]:
        """The same as of its last heartbeat."""
        return self.epochs[name], {
            self.names[part["topic_id"]]: len(part["partitions"]) for part in self.owned[name]
        }

    def until(self, holds: Callable[[], bool]) -> float:
        """Everybody heartbeats, and has done as it was told, until that holds; seconds it took."""
        begun = time.monotonic()
        while not holds():
            assert time.monotonic() < begun + PATIENCE_S, (self.side.name, self.epochs, self.owned)
            for name in self.epochs:
                self.beat(name, topic_partitions=self.owned.get(name, ()))
            time.sleep(0.02)  # Kafka resolves on a thread of its own
        return time.monotonic() - begun

    def settled(self) -> dict[str, tuple[int, dict[str, int]]]:
        """What each member has when the group is Stable again, at one epoch."""
        self.until(
            lambda: self.described().group_state == "Stable" and len({*self.epochs.values()}) == 1
        )
        return {name: self.seen(name) for name in self.epochs}

    def until_it_has(self, name: str, topic: str) -> float:
        """Wait until the member has partitions of the topic; seconds it took."""
        return self.until(lambda: topic in self.seen(name)[1])

    def until_it_has_resolved(self, expression: str) -> None:
        """Wait until the group's log says which topics the expression matches."""
        self.until(lambda: expression in resolved(self))

    def leave(self, name: str) -> None:
        """The member goes for good."""
        assert self.ask(name, -1).error_code == Code.NONE
        del self.epochs[name], self.owned[name]

    def described(self) -> Any:
        """The group's description."""
        asked = request("ConsumerGroupDescribe", group_ids=(self.group_id,))
        (described,) = self.side.call(asked, 1).groups
        return described


def life_of_a_group(group: Group) -> list[Any]:
    """What a group says whose members come and go without a new expression."""
    said: list[Any] = [group.beat("a", subscribed_topic_regex="one|two")]
    group.until_it_has("a", "two")
    said.append(group.settled())
    full = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": (),
        "subscribed_topic_regex": "one|two",
        "topic_partitions": group.owned["a"],
    }
    said.append(group.beat("a", **full))
    said += [group.beat("b", subscribed_topic_regex="one|two"), group.epochs["a"]]
    said.append({name: epoch for name, (epoch, _) in group.settled().items()})
    group.leave("b")
    said.append(group.settled())
    said += [group.beat("a", subscribed_topic_names=("one",)), group.settled()]
    (member,) = group.described().members
    said.append((member.subscribed_topic_names, member.subscribed_topic_regex))
    said += [group.beat("a", subscribed_topic_regex=""), group.settled()]
    return said


def test_a_group_of_one_expression_says_the_same_at_each_step(
    sides: tuple[Side, Side], group: str
) -> None:
    ours, theirs = (life_of_a_group(Group(side, group)) for side in sides)
    assert ours == theirs
    assert ours[:2] == [(1, {}), {"a": (2, {"one": 1, "two": 2})}]


def test_a_new_expression_of_a_group_waits_up_to_10_s_for_the_next_refresh(
    sides: tuple[Side, Side], group: str
) -> None:
    for side in sides:
        members = Group(side, group)
        members.beat("a", subscribed_topic_regex="one|two")
        members.until_it_has("a", "two")
        assert members.beat("b", subscribed_topic_regex="thr..") == (2, {})
        seconds = members.until_it_has("b", "three")
        assert 7 < seconds < 20, side.name
        assert members.settled() == {
            "a": (3, {"one": 1, "two": 2}),
            "b": (3, {"three": 3}),
        }


WRONG = ("(", "[", "a**", "(?=a)", "(a)\\1", "a{1001}", "\\pX", "*")


def test_both_refuse_the_same_expressions_last_and_with_the_reason(
    sides: tuple[Side, Side], group: str
) -> None:
    answers = []
    for side in sides:
        members = Group(side, group)
        answers.append(
            [members.ask("z", 0, subscribed_topic_regex=wrong) for wrong in WRONG]
            + [members.ask("z", 3, subscribed_topic_regex="(")]
        )
        members.beat("a", subscribed_topic_regex="one")
        answers[-1] += [
            members.ask("z", 3, subscribed_topic_regex="("),
            members.ask("a", members.epochs["a"] + 1, subscribed_topic_regex="("),
            members.ask("a", members.epochs["a"], subscribed_topic_regex="("),
            members.ask("z", 0, subscribed_topic_regex="(", server_assignor="mine"),
        ]
        # Nothing was taken over.
        assert {each.subscribed_topic_regex for each in members.described().members} == {"one"}
    ours, theirs = ([Code.of(each.error_code) for each in said] for said in answers)
    assert ours == theirs
    assert ours == [Code.INVALID_REGULAR_EXPRESSION] * len(WRONG) + [
        Code.GROUP_ID_NOT_FOUND,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_MEMBER_EPOCH,
        Code.INVALID_REGULAR_EXPRESSION,
        Code.UNSUPPORTED_ASSIGNOR,
    ]
    assert all(each.error_message for said in answers for each in said)


def test_an_expression_of_a_million_instructions_is_refused_here_alone(
    sides: tuple[Side, Side], group: str
) -> None:
    codes = [
        Group(side, group).ask("z", 0, subscribed_topic_regex="((a{100}){100}){100}").error_code
        for side in sides
    ]
    assert codes == [Code.INVALID_REGULAR_EXPRESSION, Code.NONE]


def test_an_expression_of_everything_matches_the_internal_topic_on_both(
    sides: tuple[Side, Side], group: str
) -> None:
    for side in sides:
        members = Group(side, group)
        members.beat("a", subscribed_topic_regex="__consumer_.*")
        members.until_it_has("a", INTERNAL)
        assert list(members.settled()["a"][1]) == [INTERNAL]


def resolved(group: Group) -> list[str]:
    """The expressions that the group's log has resolved, in order."""
    keys = [record.key for record in records_of(group.side.bootstrap, group.group_id)]
    return [
        key.regular_expression for key in keys if isinstance(key, ConsumerGroupRegularExpressionKey)
    ]


def test_a_joiner_whose_expression_matches_nothing_bumps_the_epoch_on_kafka(
    sides: tuple[Side, Side], group: str
) -> None:
    epochs = []
    for side in sides:
        members = Group(side, group)
        members.beat("a", subscribed_topic_regex="nothing")
        members.until_it_has_resolved("nothing")
        members.beat("a")
        members.beat("b", subscribed_topic_regex="nothing")
        epochs.append(members.epochs)
    assert epochs == [{"a": 1, "b": 1}, {"a": 1, "b": 2}]


def test_a_member_that_changes_its_expression_bumps_the_epoch_once_more_here(
    sides: tuple[Side, Side], group: str
) -> None:
    """Here others read at once what the member reads no more; on Kafka when the new expression is
    resolved.
    """
    epochs = []
    for side in sides:
        members = Group(side, group)
        members.beat("a", subscribed_topic_regex="one|two")
        members.until_it_has("a", "two")
        assert members.beat("a", subscribed_topic_regex="three") == (2, {})
        members.until_it_has("a", "three")
        epochs.append(members.settled())
    assert epochs == [{"a": (4, {"three": 3})}, {"a": (3, {"three": 3})}]


def test_kafkas_record_of_an_expression_is_read(sides: tuple[Side, Side], group: str) -> None:
    _, kafka = sides
    members = Group(kafka, group)
    members.beat("a", subscribed_topic_regex="one|two")
    members.until_it_has("a", "two")
    shard = Shard(GroupSettings(), Topics())
    records = records_of(kafka.bootstrap, group)
    for record in records:
        shard.replay(record)
    shard.loaded(Instant(0, 0))
    read: Any = shard.ledger.groups[group]
    assert {each: sorted(topics) for each, topics in read.saved.resolutions.items()} == {
        "one|two": ["one", "two"]
    }
    assert read.saved.subscriber_counts == {"one": 1, "two": 1}
    members.leave("a")
    (tombstone,) = [
        record
        for record in records_of(kafka.bootstrap, group)[len(records) :]
        if isinstance(record.key, ConsumerGroupRegularExpressionKey)
    ]
    assert tombstone.value is None
