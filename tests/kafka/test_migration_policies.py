"""Every migration policy on our broker and on a real Kafka: who may join what, and what the group
is then.

Here a classic group has two members at the most and a consumer group four, so that groups are just
full, or one too large.
"""

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from apportion.testing.kafka import RealKafka
from tests.kafka.differential.author import FOREVER_MS
from tests.kafka.differential.classic_author import assignment
from tests.kafka.differential.classic_clients import subscription
from tests.kafka.differential.classic_intended import INTENDED
from tests.kafka.differential.classic_play import exchange, play_waiting
from tests.kafka.differential.classic_steps import RANGE, DescribeClassic, Join, Leave, Pulse, Sync
from tests.kafka.differential.compare import side_by_side
from tests.kafka.differential.mixed_scripts import MixedScript
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import EMPTY, TOLD, Beat, Describe

if TYPE_CHECKING:
    from pathlib import Path

POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")
ALIKE = {
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.max.size": 2,
    "group.consumer.max.size": 4,
}
SCRIPTS = int(os.environ.get("APPORTION_DIFFERENTIAL_SCRIPTS", "200")) // 8
"""So many mixed scripts are played under each policy."""
FIRST = int(os.environ.get("APPORTION_DIFFERENTIAL_FIRST", "0"))
DOCUMENTED = ("leader", "skip", "members", "its id begins")
"""What the successor of the last consumer is told of who leads."""


@pytest.fixture(scope="module", params=POLICIES)
def policy(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def sides(
    policy: str, jars: "Path", tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    """Our broker and a real one under that policy."""
    settings = ALIKE | {"group.consumer.migration.policy": policy}
    directory: Path = tmp_path_factory.mktemp(policy)
    theirs = {name: str(value) for name, value in settings.items()}
    with (
        RealKafka(jars, directory / "kafka", theirs) as kafka,
        side_by_side(kafka, **settings) as both,
    ):
        yield both


def both(sides: tuple[Side, Side], step: Any, *left_out: str) -> dict[str, Any]:
    """What both brokers say, which is the same but for what depends on who has what, and on how
    often we want heartbeats.
    """
    answers, give_up = [result["answer"] for result in exchange(sides, step)], time.monotonic() + 30
    while "parked" in answers:  # nobody has to be waited for here, but the machine may be slow
        assert time.monotonic() < give_up
        results = exchange(sides, DescribeClassic((step.group,)))
        answers = [
            result["late"].get(step.member, answer)
            for result, answer in zip(results, answers, strict=True)
        ]
    ours, theirs = (bare(result, ("interval", "assignment", *left_out)) for result in answers)
    assert ours == theirs, step.line()
    return ours


def bare(answer: dict[str, Any], left_out: tuple[str, ...]) -> dict[str, Any]:
    return (
        {name: result for name, result in answer.items() if name not in left_out}
        if isinstance(answer, dict)
        else answer
    )


def kind(sides: tuple[Side, Side], group: str) -> tuple[str, int | str, list[Any]]:
    """What the group is on both brokers: its kind, its state and who is in it."""
    kinds = []
    for result in exchange(sides, Describe((group,))):
        described = result["answer"][group]
        if not described["code"]:
            kinds.append(
                (
                    "consumer",
                    described["epoch"],
                    sorted((each, result["type"]) for each, result in described["members"].items()),
                )
            )
    for result in exchange(sides, DescribeClassic((group,))):
        described = result["answer"][group]
        if not described["code"]:
            kinds.append(("classic", described["state"], sorted(described["members"])))
    assert len(kinds) == 2
    assert kinds[0] == kinds[1]
    return kinds[0]


def classic(
    group: str, letter: str, version: int = 3, topics: tuple[str, ...] = ("twelve",), **result: Any
) -> Join:
    """The JoinGroup of a classic client."""
    facts: dict[str, Any] = {
        "protocols": ((RANGE, subscription(topics)),),
        "version": version,
        "member_id": "",
    }
    return Join(group, letter, **facts | result)


def modern(group: str, letter: str, **result: Any) -> Beat:
    """The first heartbeat of a member of the consumer protocol."""
    return Beat(
        group, letter, 0, owned=EMPTY, topics=("twelve",), rebalance_ms=FOREVER_MS, **result
    )


def test_migration_policies_decide_who_joins_a_consumer_group_on_both_brokers(
    sides: tuple[Side, Side], policy: str, group: str
) -> None:
    both(sides, modern(group, "m", instance="i-m"))
    codes = {
        both(sides, classic(group, "x", version, **result))["code"]
        for version, result in (
            (3, {"protocols": ((RANGE, b"\0"),)}),
            (9, {"kind": "other"}),
            (3, {"kind": "other"}),
            (9, {"member_id": "ghost", "instance": "i-m"}),
            (9, {"member_id": "ghost", "instance": "i-n"}),
            (9, {"member_id": "ghost", "instance": "i-m", "protocols": ((RANGE, b"\0"),)}),
            (9, {"member_id": "ghost", "instance": "i-n", "protocols": ((RANGE, b"\0"),)}),
            (9, {"member_id": "", "instance": "i-n", "protocols": ((RANGE, b"\0"),)}),
            (9, {"member_id": "ghost", "session_ms": 1}),
        )
    }
    assert codes == ({23, 26} if policy == "disabled" else {-1, 23, 25, 26, 82})
    allowed = [both(sides, classic(group, "a", version))["code"] == 0 for version in (0, 5, 9)]
    # the newer ones are given an id first, or nothing
    assert allowed == [policy != "disabled", False, False]
    assert (both(sides, classic(group, "c", 5, instance="i-c"))["code"] == 0) == (
        policy != "disabled"
    )
    assert (both(sides, classic(group, "d", 9, instance="i-d"))["code"] == 0) == (
        policy != "disabled"
    )
    assert both(sides, classic(group, "e", 9, instance="i-e"))["code"] == (
        23 if policy == "disabled" else 81
    )
    assert len(kind(sides, group)[2]) == (1 if policy == "disabled" else 4)


def test_migration_policies_decide_who_joins_a_classic_group_on_both_brokers(
    sides: tuple[Side, Side], policy: str, group: str
) -> None:
    both(sides, classic(group, "a"))
    both(sides, Sync(group, "a", 1, (("a1", assignment("twelve", *range(12))),), version=2))
    is_let_in = both(sides, modern(group, "m"))["code"] == 0
    assert is_let_in == (policy in ("upgrade", "bidirectional"))
    assert kind(sides, group)[0] == ("consumer" if is_let_in else "classic")
    if is_let_in:
        both(sides, Beat(group, "m", -1))
        assert kind(sides, group)[0] == ("consumer" if policy == "upgrade" else "classic")
    both(sides, Pulse(group, "a", 1, 2))


@pytest.mark.parametrize("classics", [2, 3])
def test_when_the_last_consumer_goes(
    sides: tuple[Side, Side], policy: str, group: str, classics: int
) -> None:
    """A group of exactly `group.max.size` classic members becomes classic; a larger one does
    not.
    """
    if policy == "disabled":
        return  # there are no classic members in a consumer group
    both(sides, modern(group, "m"))
    for letter in "abc"[:classics]:
        both(sides, classic(group, letter))
    both(sides, Beat(group, "m", -1))
    assert kind(sides, group)[0] == (
        "consumer" if policy == "upgrade" or classics == 3 else "classic"
    )


@pytest.mark.parametrize("says", ["its own id", "no id"])
@pytest.mark.parametrize("version", [5, 9])
@pytest.mark.parametrize("others", [0, 1, 2])
def test_the_last_consumer_comes_back_as_a_classic_member(
    sides: tuple[Side, Side], policy: str, group: str, says: str, version: int, others: int
) -> None:
    """Also where the group has exactly `group.max.size` members then, and where it would have one
    more.
    """
    both(sides, modern(group, "m", instance="i-m"))
    if policy == "disabled":
        others = 0
    epoch = 2 + others
    letters = "ab"[:others]
    for letter in letters:
        both(sides, classic(group, letter))
    for _ in range(3):
        both(sides, Beat(group, "m", both_epochs(sides, group, "m"), owned=TOLD, instance="i-m"))
        for letter in letters:
            both(sides, classic(group, letter, member_id=None))
            both(sides, Sync(group, letter, epoch, version=2))
    member_id = "m" if says == "its own id" else ""
    back = classic(group, "c", version, member_id=member_id, instance="i-m")
    answer = both(sides, back, *DOCUMENTED)
    assert answer["code"] == (23 if policy == "disabled" else 0)
    is_classic = policy in ("downgrade", "bidirectional") and others < 2
    described = kind(sides, group)
    assert described[0] == ("classic" if is_classic else "consumer")
    if is_classic:
        assert (described[1], answer["generation"]) == ("Stable", epoch)
        both(sides, Sync(group, "c", epoch, version=3, instance="i-m"))
        for letter in letters:
            assert both(sides, Pulse(group, letter, epoch, 2))["code"] == 0


def both_epochs(sides: tuple[Side, Side], group: str, letter: str) -> int:
    """The epoch that the member believes in, on both brokers."""
    epochs = [side.views[group, letter].epoch for side in sides]
    assert epochs[0] == epochs[1]
    return epochs[0]


def test_a_group_without_members_becomes_the_other_kind_whatever_the_policy(
    sides: tuple[Side, Side], group: str
) -> None:
    both(sides, modern(group, "m"))
    both(sides, Beat(group, "m", -1))
    assert both(sides, classic(group, "a"))["code"] == 0
    both(sides, Leave(group, (("a1", None),)))
    assert both(sides, modern(group, "n"))["code"] == 0
    assert kind(sides, group)[0] == "consumer"


def test_mixed_scripts_agree_under_every_policy(sides: tuple[Side, Side], policy: str) -> None:
    reports: list[str]
    unsteady: list[str]
    reports, unsteady = [], []
    for seed in range(FIRST, FIRST + SCRIPTS):
        for token in (f"{policy}-{time.time_ns()}", f"again-{time.time_ns()}"):
            author = MixedScript(seed, token, sides[1])
            played = play_waiting(seed, 30, author, sides, INTENDED)
            if not played.disagreements:
                break
            (reports if token.startswith("again") else unsteady).append(played.report())
    assert reports == [], "\n\n".join(reports)
    assert len(unsteady) <= 1 + SCRIPTS // 50, "\n\n".join(unsteady)
