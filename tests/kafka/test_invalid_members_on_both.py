"""Members that say what no client would say, on our broker and on a real Kafka: alike, or a row of
docs/differences.md.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kafka.conftest import until
from tests.kafka.differential.author import FOREVER_MS
from tests.kafka.differential.classic_author import assignment
from tests.kafka.differential.classic_clients import subscription
from tests.kafka.differential.classic_play import all_answered, exchange
from tests.kafka.differential.classic_steps import RANGE, DescribeClassic, Join, Leave, Pulse, Sync
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import EMPTY, TOLD, Beat, Describe, Step

ALIKE = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}


def codes(sides: tuple[Side, Side], step: Step) -> tuple[int, int]:
    """What both brokers answer: ours, and a real Kafka's."""
    ours, theirs = (result["answer"]["code"] for result in exchange(sides, step))
    return ours, theirs


def classic(group: str, letter: str, **said: Any) -> Join:
    """The JoinGroup of a classic client, in one step."""
    return Join(
        group,
        letter,
        **{"protocols": ((RANGE, subscription(("twelve",))),), "version": 3, "member_id": ""}  # type: ignore[arg-type]
        | said,
    )


def modern(group: str, letter: str, **said: Any) -> Beat:
    """The first heartbeat of a member of the consumer protocol."""
    return Beat(group, letter, 0, owned=EMPTY, topics=("twelve",), rebalance_ms=FOREVER_MS, **said)


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff\0\0", b"\0\0\0\1\0"])
def test_a_static_members_identity_is_checked_before_its_fields(
    sides: tuple[Side, Side], group: str, metadata: bytes
) -> None:
    exchange(sides, modern(group, "m", instance="i-m"))
    exchange(sides, modern(group, "n", instance="i-n"))
    answers = [
        exchange(
            sides,
            classic(
                group,
                "x",
                version=9,
                member_id=member_id,
                instance=instance,
                protocols=((RANGE, metadata),),
            ),
        )
        for member_id, instance in (
            ("ghost", "i-m"),
            ("m", "i-n"),
            ("ghost", "i-x"),
            ("m", "i-m"),
            ("", "i-m"),
            ("", "i-x"),
        )
    ]
    assert [ours for ours, _ in answers] == [theirs for _, theirs in answers]
    assert [ours["answer"]["code"] for ours, _ in answers] == [82, 82, 25, 23, 23, 23]
    assert {ours["answer"]["member"] for ours, _ in answers} == {""}


@pytest.mark.parametrize("rebalance_ms", [-1, -7, 0])
@pytest.mark.parametrize("version", [1, 9])
def test_a_zero_rebalance_timeout_removes_after_200_ms_in_a_consumer_group(
    sides: tuple[Side, Side], group: str, version: int, rebalance_ms: int
) -> None:
    exchange(sides, modern(group, "m"))
    assert codes(sides, classic(group, "a", version=version, member_id="ghost")) == (0, 0)
    assert codes(
        sides, classic(group, "a", version=version, member_id="ghost", rebalance_ms=rebalance_ms)
    ) == (0, 0)
    for side in sides:
        until(lambda side=side: list(side.play(Describe((group,)))[group]["members"]) == ["m"])
    assert codes(sides, Sync(group, "a", 3, version=3)) == (25, 25)


@pytest.mark.parametrize("rebalance_ms", [-1, -7, 0])
@pytest.mark.parametrize("version", [1, 3])
def test_a_zero_rebalance_timeout_removes_after_200_ms_in_a_classic_group(
    sides: tuple[Side, Side], group: str, version: int, rebalance_ms: int
) -> None:
    assert codes(sides, classic(group, "a", version=version, rebalance_ms=rebalance_ms)) == (0, 0)
    for side in sides:
        until(lambda side=side: side.play(DescribeClassic((group,)))[group]["state"] == "Empty")
    assert codes(sides, Sync(group, "a", 1, (("a1", b"x"),), version=2)) == (25, 25)


def test_version_0_has_the_session_timeout_for_a_rebalance(
    sides: tuple[Side, Side], group: str
) -> None:
    assert codes(sides, classic(group, "a", version=0)) == (0, 0)
    assert codes(sides, Sync(group, "a", 1, (("a1", b"x"),), version=0)) == (0, 0)


def assigned(sides: tuple[Side, Side], group: str, one: bytes, other: bytes) -> None:
    """A classic group has two members, which were given that."""
    for letter in "aba":
        is_again = letter == "a" and letter in sides[0].lines
        exchange(sides, classic(group, letter, member_id=None if is_again else ""))
    all_answered(sides, "a", "b")
    exchange(sides, Sync(group, "b", 2, version=2))
    exchange(sides, Sync(group, "a", 2, (("a1", one), ("b1", other)), version=2))


def upgraded(sides: tuple[Side, Side], group: str, one: bytes, other: bytes) -> tuple[int, int]:
    """What a joiner of the consumer protocol is told by both brokers in such a group."""
    assigned(sides, group, one, other)
    return codes(sides, modern(group, "m"))


def test_a_partition_that_two_members_have_stops_an_upgrade(
    sides: tuple[Side, Side], group: str
) -> None:
    assert upgraded(sides, group, assignment("twelve", 0, 1, 2), assignment("twelve", 2, 3)) == (
        -1,
        -1,
    )
    for side in sides:
        assert side.play(DescribeClassic((group,)))[group]["state"] == "Stable"
    assert codes(sides, Pulse(group, "a", 2, 2)) == (0, 0)


def test_a_partition_that_one_member_has_twice_stops_no_upgrade(
    sides: tuple[Side, Side], group: str
) -> None:
    assert upgraded(sides, group, assignment("twelve", 0, 1, 1), assignment("twelve", 3)) == (0, 0)


def test_a_topic_that_is_not_there_is_left_out_of_an_upgrade(
    sides: tuple[Side, Side], group: str
) -> None:
    assert upgraded(sides, group, assignment("twelve", 0, 1), assignment("nowhere", 0)) == (0, 0)


def the_leader(sides: tuple[Side, Side], group: str) -> None:
    exchange(sides, modern(group, "m", instance="i-m"))
    answers = exchange(sides, classic(group, "c", version=9, instance="i-m"))
    ours, theirs = (
        {name: each["answer"][name] for name in ("code", "generation", "leader", "skip")}
        for each in answers
    )
    assert ours == {"code": 0, "generation": 2, "leader": "c1", "skip": True}
    assert theirs == {"code": 0, "generation": 2, "leader": "", "skip": False}


def a_partition_that_is_not_there(sides: tuple[Side, Side], group: str) -> None:
    assert upgraded(sides, group, assignment("twelve", 0, 99), assignment("twelve", 3)) == (0, -1)


def a_partition_that_is_not_there_by_range(sides: tuple[Side, Side], group: str) -> None:
    assigned(sides, group, assignment("twelve", 0, 99), assignment("twelve", 3))
    assert codes(sides, modern(group, "m", assignor="range")) == (0, 0)
    ours, theirs = (
        side.play(Describe((group,)))[group]["members"]["a1"]["assignment"] for side in sides
    )
    assert (ours, theirs) == ({"twelve": (0,)}, {"twelve": (0, 99)})


def bytes_that_are_no_assignment(sides: tuple[Side, Side], group: str) -> None:
    """The real one takes a name that is no text for a topic's."""
    codes_seen: list[tuple[int, int]] = []
    for data in (
        b"\0",
        b"\xff\xff\0\0",
        assignment("twelve", 1)[:-6],
        b"\0\1\xff\xff\xff\xff",
        b"\0\1\x7f\xff\xff\xff",
        b"\0\1\0\0\0\0\0\0\0\5ab",
        b"\0\1\0\0\0\1\0\1\xff\0\0\0\0\xff\xff\xff\xff",
    ):
        for side in sides:
            side.begin()
        codes_seen.append(
            upgraded(sides, f"{group}-{len(codes_seen)}", assignment("twelve", 0), data)
        )
    assert codes_seen == [(69, 69)] * 6 + [(69, 0)]


def test_a_member_that_joins_again_with_another_instance_id_has_only_that(
    sides: tuple[Side, Side], group: str
) -> None:
    """Before Kafka 4.4 it kept the old one, too, also after it had left."""
    for instance in ("i-1", "i-2"):
        assert codes(sides, modern(group, "m", instance=instance)) == (0, 0)
    assert codes(sides, Beat(group, "m", 2, owned=TOLD, instance="i-1")) == (25, 25)
    assert codes(sides, Beat(group, "m", 2, owned=TOLD, instance="i-2")) == (0, 0)
    assert codes(sides, Beat(group, "m", -1, instance="i-2")) == (0, 0)
    assert codes(sides, modern(group, "n", instance="i-1")) == (0, 0)


def a_refusal_that_forgets(sides: tuple[Side, Side], group: str) -> None:
    exchange(sides, modern(group, "m"))
    exchange(sides, Beat(group, "m", -1))
    assert codes(sides, classic(group, "x", version=9, member_id="ghost")) == (25, 25)
    assert [result["answer"]["epoch"] for result in exchange(sides, modern(group, "n"))] == [4, 2]


ODDITIES = {
    "the leader when a classic client replaces the last consumer-protocol member": [the_leader],
    "an upgrade of a group with an assigned partition that does not exist": [
        a_partition_that_is_not_there,
        a_partition_that_is_not_there_by_range,
    ],
    "an upgrade of a group with an assigned topic whose name is not UTF-8": [
        bytes_that_are_no_assignment
    ],
    "a classic client that is refused by a consumer group without members": [
        a_refusal_that_forgets
    ],
}
"""Rows of docs/differences.md, and what shows that the real one still does that."""


@pytest.mark.parametrize("oddity", [each for some in ODDITIES.values() for each in some])
def test_an_oddity_of_kafka_is_still_there(
    sides: tuple[Side, Side], group: str, oddity: Callable[[tuple[Side, Side], str], None]
) -> None:
    oddity(sides, group)


def test_leaving_twice_in_one_request_is_answered_alike(
    sides: tuple[Side, Side], group: str
) -> None:
    exchange(sides, modern(group, "m", instance="i-m"))
    exchange(sides, classic(group, "a"))
    exchange(sides, classic(group, "b", version=5, instance="i-b"))
    ours, theirs = exchange(
        sides,
        Leave(
            group,
            (("a1", None), ("a1", None), ("", "i-b"), ("b1", "i-b"), ("", "i-m"), ("m", "i-m")),
        ),
    )
    assert ours == theirs
