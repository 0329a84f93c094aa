"""Which offsets and groups expire when, on a real Kafka and here: the same steps on both, with a
retention of one minute.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import encode
from tests.kafka.differential.classic_play import answered
from tests.kafka.differential.classic_steps import RANGE, Join, Leave, Sync
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import EMPTY, Beat, Commit, Fetch, Offset, Step
from tests.messages import request

KAFKA = "expiring"
ALIKE = {
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 500,
    "group.consumer.session.timeout.ms": 45_000,
    "group.initial.rebalance.delay.ms": 0,
}
READ, OTHER = Offset("two", 0, 5), Offset("four", 0, 5)
"""Offsets of a topic that the members of groups subscribe to, and of another one."""
SUBSCRIBED = encode(ConsumerProtocolSubscription(topics=(READ.topic,)), 1)
MODERN, CLASSIC = ("reader", "gone", "short"), ("stable", "left", "connect")
GROUPS = ("simple", "leased", *MODERN, *CLASSIC)


def joins(group: str) -> Iterator[Step]:
    """One member is all of the group."""
    if group in MODERN:
        topics = (READ.topic,)
        yield Beat(group, "m", 0, owned=EMPTY, topics=topics, rebalance_ms=60_000, member_id="m")
        return
    letter, kind = group[0], "connect" if group == "connect" else "consumer"
    yield Join(group, letter, ((RANGE, SUBSCRIBED),), version=3, kind=kind)
    yield Sync(group, letter, 1, ((f"{letter}1", b""),), version=3)


def commits(group: str) -> Step:
    """The member stores an offset of each topic."""
    member, epoch = ("m", 2) if group in MODERN else (group[0], 1)
    return Commit(group, member, epoch, (READ, OTHER))


def begin() -> Iterator[Step]:
    """What happens at the beginning."""
    also = Offset(READ.topic, 1, 5), Offset(OTHER.topic, 1, 5)
    yield Commit("simple", "", -1, (OTHER, *also))
    yield Commit("leased", "", -1, (READ,), version=4, retention_ms=15_000)
    yield Commit("leased", "", -1, (OTHER,), version=4, retention_ms=600_000)
    for group in (*MODERN, *CLASSIC):
        yield from joins(group)
        if group != "short":
            yield commits(group)
    yield Beat("short", "m", -1)


def go_on() -> Iterator[Step]:
    """What happens half a minute later."""
    yield Commit("simple", "", -1, (Offset(OTHER.topic, 1, 5),))
    yield Beat("gone", "m", -1)
    yield Leave("left", (("l1", None),), 3)


def play(sides: tuple[Side, Side], steps: Iterator[Step]) -> None:
    """Both brokers take each step."""
    for step in steps:
        for answer in answered(sides, step):
            assert set(codes(answer)) == {0}, (step.line(), answer)


def codes(answer: Any) -> list[int]:
    """The codes of an answer; of a commit those of its partitions."""
    return [answer["code"]] if "code" in answer else list(answer.values())


def picture(side: Side) -> dict[str, dict[str, Any]]:
    """Which groups there are, by id with type and state, and which offsets they have."""
    listed = side.call(request("ListGroups"), 5).groups
    return {
        "groups": {
            each.group_id: (each.group_type, each.group_state)
            for each in listed
            if each.group_id in GROUPS
        },
        "offsets": {
            group: sorted(offsets)
            for group in GROUPS
            if (offsets := side.play(Fetch(group, version=8))["offsets"])
        },
    }


@pytest.mark.timeout(300)
def test_offsets_and_groups_expire_after_a_minute_when_those_of_a_real_kafka_do(
    sides: tuple[Side, Side],
) -> None:
    pictures: dict[int, list[dict[str, Any]]] = {}
    begin_s = time.monotonic()
    for at_s, happens in ((0, begin), (20, None), (30, go_on), (68, None)):
        while (left_s := begin_s + at_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 5))  # a retention is real time on a foreign broker
            for group in MODERN[:2] if at_s <= 30 else MODERN[:1]:
                play(sides, iter([Beat(group, "m", 2)]))
        if happens is not None:
            play(sides, happens())
        else:
            pictures[at_s] = [picture(side) for side in sides]
    (ours, kafkas), (ours_later, kafkas_later) = pictures.values()
    assert (ours, ours_later) == (kafkas, kafkas_later)
    assert ours["offsets"]["leased"] == ["four-0"]
    assert "short" not in ours["groups"]
    assert ours_later == {
        "groups": {
            "connect": ("classic", "Stable"),
            "leased": ("classic", "Empty"),
            "left": ("classic", "Empty"),
            "reader": ("consumer", "Stable"),
            "simple": ("classic", "Empty"),
            "stable": ("classic", "Stable"),
        },
        "offsets": {
            "connect": ["four-0", "two-0"],
            "leased": ["four-0"],
            "left": ["four-0", "two-0"],
            "reader": ["two-0"],
            "simple": ["four-1"],
            "stable": ["two-0"],
        },
    }
