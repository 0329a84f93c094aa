"""Each law of classic groups can break: something small is broken on purpose, and the law says what
it saw.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape
from apportion.coord import shard
from apportion.coord.classic import rebalance
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.migration import downgrade as downgrading
from apportion.coord.records import CoordinatorRecord
from apportion.coord.turn import Turn
from apportion.member.assignors import builtin
from apportion.member.assignors.serde import encode_assignment, encode_subscription
from apportion.member.classic import incarnation as member_incarnation
from apportion.member.classic import requests
from apportion.member.classic.generation import NO_GENERATION
from apportion.member.classic.leader import EncodedAssignments
from apportion.node import coordinators
from apportion.node.coordinator_log import stored_records
from apportion.sim.actors import protocols
from apportion.sim.checks.classic_laws import ClassicGroupChecker
from apportion.sim.checks.stickiness import needless_moves
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.kernel.scenario import Scenario, draw_scenario
from apportion.sim.kernel.settings import CLASSIC, MIXED
from apportion.sim.play import play
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment
from apportion.wire.records.consumer_protocol import ConsumerProtocolTopicPartition
from apportion.wire.records.consumer_serde import encode_sticky
from apportion.wire.records.groups import GroupMetadataValue, MemberMetadata
from tests.coord.classic_shard_driver import ClassicShardDriver, ScriptedClient
from tests.sim.bug import Swap, violation
from tests.sim.planted import PLANTED

to_save, arm, downgrade = ClassicGroup.to_record, rebalance._arm_deadline, downgrading.downgrade


def counts_backwards(self: Any) -> CoordinatorRecord:
    record = to_save(self)
    record.value.generation = 100 - record.value.generation
    return record


def gives(parts_of: Callable[[dict[str, TopicShape]], tuple[TopicParts, ...]]) -> Any:
    """A leader that gives these partitions to every member."""

    def assign(
        assignor: builtin.CooperativeSticky,
        cluster: dict[str, TopicShape],
        members: dict[str, Subscription],
        *,
        checks: bool,
    ) -> EncodedAssignments:
        encoded = encode_assignment(Given(parts_of(cluster)))
        return EncodedAssignments(
            tuple(
                SyncGroupRequestAssignment(member_id=member, assignment=encoded)
                for member in members
            ),
            False,
        )

    return assign


def everything(cluster: dict[str, TopicShape]) -> tuple[TopicParts, ...]:
    return tuple(TopicParts(name, (*range(cluster[name].partitions),)) for name in sorted(cluster))


def waits_a_tenth(turn: Turn, kind: str, group: ClassicGroup, wait_ms: int) -> None:
    arm(turn, kind, group, wait_ms // 10)


def says_nothing(subscription: Subscription) -> bytes:
    return b"\0"


def forgets_what_it_was(
    turn: Turn, group: ConsumerGroup, stayers: list[downgrading.RemainingMember], leader: Any
) -> None:
    group.saved.epoch = 1
    downgrade(turn, group, stayers, leader)


def lasts_for_ever(turn: Turn, key: tuple[str, ...]) -> None:
    return None


def nothing_is_told(subscription: Subscription) -> tuple[tuple[Any, ...], int]:
    return (), NO_GENERATION


def the_first(partition: Any) -> list[Any]:
    return [*stored_records(partition)][:1]


ID = r"\w+-[0-9a-f-]{36}"
SIZES: dict[str, Any] = {
    "workers": 0,
    "readers": 3,
    "statics": 0,
    "session_ms": 4_000,
    "duration_ms": 30_000,
}
ALL_CLASSIC = draw_scenario(3, kinds=("crash",), protocol=CLASSIC, **SIZES)
BOTH = draw_scenario(3, kinds=("switch-all",), protocol=MIXED, **SIZES)
CRASHING = draw_scenario(0, kinds=("broker-crash",), protocol=CLASSIC, duration_ms=30_000)

SABOTAGE: dict[str, tuple[Scenario, Swap, str]] = {
    "generations count backwards": (
        ALL_CLASSIC,
        (ClassicGroup, "to_record", counts_backwards),
        r"epochs-never-back: group \w+ was at generation \d+, and is at \d+\.",
    ),
    "a conversion loses the epoch": (
        BOTH,
        (downgrading, "downgrade", forgets_what_it_was),
        r"epochs-never-back: group \w+ was at epoch \d+, and is at 1\.",
    ),
    "a leader gives everything to all": (
        ALL_CLASSIC,
        (member_incarnation, "assign_partitions", gives(everything)),
        rf"one-holder: group \w+, generation \d+: t\d-0 is given to {ID} and to {ID}\.",
    ),
    "a leader gives what nobody wants": (
        ALL_CLASSIC,
        (member_incarnation, "assign_partitions", gives(lambda _: (TopicParts("strange", (0,)),))),
        rf"subscribed-only: {ID} wants t.* and has strange\.",
    ),
    "a leader gives nothing": (
        ALL_CLASSIC,
        (member_incarnation, "assign_partitions", gives(lambda _: ())),
        r"converges: \d+ ms after the last fault t\d-0 is given to nobody in \w+\.",
    ),
    "a group waits for a tenth of the time": (
        ALL_CLASSIC,
        (rebalance, "_arm_deadline", waits_a_tenth),
        rf"gone-with-cause: group \w+: {ID} was dismissed from PREPARING_REBALANCE "
        r"after \d+ ms of silence "
        r"and \d+ ms of waiting\.",
    ),
    "no session ever ends": (
        ALL_CLASSIC,
        (shard, "ON_DEADLINE", {**shard.ON_DEADLINE, SESSION: lasts_for_ever}),
        rf"gone-in-time: group \w+: {ID} is still a member after \d+ ms of silence\.",
    ),
    "a subscription says nothing": (
        ALL_CLASSIC,
        (requests, "encode_subscription", says_nothing),
        rf"no-defect: {ID} sent a subscription that cannot be read: .*",
    ),
    "a broker starts without its last records": (
        CRASHING,
        (coordinators, "stored_records", the_first),
        r"epochs-never-back: group \w+ was at generation \d+, and is at 0\.",
    ),
}
"""What is done -> where, what is replaced by what, and the law that says so, in which words."""


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_law_of_classic_groups_says_what_was_broken_on_purpose(what: str) -> None:
    scenario, swap, sentence = SABOTAGE[what]
    broken = violation(scenario, swap)
    assert re.fullmatch(sentence, f"{broken.law}: {broken.why}"), broken


@pytest.mark.parametrize(
    ("bug", "seed", "sentence"),
    [
        (
            "cooperative-gives-at-once",
            2,
            rf"no-two-hands: {ID} uses t\d-\d, which {ID} uses, too\.",
        ),
        (
            "commit-generation",
            3,
            rf"commit-is-fenced: {ID} committed t\d-\d as of epoch \d+, which it may not\.",
        ),
    ],
)
def test_a_law_of_classic_groups_says_what_a_planted_bug_does(
    bug: str, seed: int, sentence: str
) -> None:
    broken = violation(PLANTED[bug].scenario(seed), *PLANTED[bug].swaps)
    assert re.fullmatch(sentence, f"{broken.law}: {broken.why}"), broken


def test_a_member_of_a_lost_generation_is_not_removed_when_it_has_synced() -> None:
    """The shard has crashed before the last generation of its only member had an assignment."""
    driver, client = ClassicShardDriver(), ScriptedClient("A")
    for _ in range(2):
        driver.ask(client.joining(), 9)
        driver.advance(0)
        for _, answer in driver.responses:
            client.apply_join(answer)
        driver.responses.clear()
    driver.send(client.syncing([(client.member_id, b"all")]), 5)
    driver.crash()
    client.generation += 1
    laws = ClassicGroupChecker(Simulation(draw_scenario(0, protocol=CLASSIC)))
    laws.check_recovered([driver.group], driver.mono_ms, is_start=True)
    driver.advance(client.session_ms - 1)
    request = client.syncing()
    laws.reply_sent(request, driver.send(request, 5), driver.mono_ms)
    laws.check_change(driver.group, driver.mono_ms, ())
    driver.advance(1)
    driver.send(client.leaving(), 5)  # of which the laws do not hear
    with pytest.raises(LawBroken) as broken:
        laws.check_change(driver.group, driver.mono_ms, ())
    assert broken.value.law == "gone-with-cause"
    assert broken.value.why.endswith(
        "dismissed from PREPARING_REBALANCE after 1 ms of silence and 1 ms of waiting."
    )


def test_a_leader_that_believes_nobody_moves_what_could_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        protocols, "COMPATIBLE_CHOICES", ((protocols.ProtocolChoice(CLASSIC, ("sticky",)),),)
    )
    scenario = draw_scenario(3, protocol=CLASSIC, readers=3, workers=0, partitions=6)
    assert play(scenario).broken is None
    monkeypatch.setattr(builtin, "claim_from_user_data", nothing_is_told)
    broken = play(scenario).broken
    assert broken is not None, broken
    assert broken.law == "moves-with-cause", broken
    assert re.fullmatch(
        r"group readers, generation \d+: of \d+ partitions that members had, \d+ stay "
        r"where \d+ could\.",
        broken.why,
    )


def member(
    name: str,
    given: tuple[int, ...],
    last: tuple[int, ...] = (),
    at: int = NO_GENERATION,
    topics: tuple[str, ...] = ("t",),
) -> MemberMetadata:
    """A member as the log knows it: what it was given, and what it told of its last share."""
    data = (
        encode_sticky((ConsumerProtocolTopicPartition(topic="t", partitions=last),), at)
        if last
        else None
    )
    subscription = encode_subscription(Subscription(topics, data))
    return MemberMetadata(
        member_id=name,
        subscription=subscription,
        assignment=encode_assignment(Given((TopicParts("t", given),))),
    )


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([member("a", (0, 1), (0, 1), 1), member("b", (2,), (2, 3), 1), member("c", (3,))], []),
        (
            [member("a", (0, 2), (0, 1), 1), member("b", (1, 3), (2, 3), 1)],
            ["of 4 partitions that members had, 2 stay where 4 could."],
        ),
        ([member("a", (0,), (0, 1), 1), member("b", (1,), (1,), 2)], []),  # b has it since
        ([member("a", (1,), (0,), 1), member("b", (0,), (0,), 1)], []),  # nobody knows whose it was
        ([member("a", (0,), (0, 7), 1), member("b", (1,))], []),  # t-7 is gone
        # b wants more than a: nobody knows what is fair
        ([member("a", (1,), (0,), 1), member("b", (0,), topics=("t", "u"))], []),
        ([], []),
    ],
)
def test_needless_moves_are_counted(members: list[MemberMetadata], why: list[str]) -> None:
    saved: Any = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="sticky",
        leader="a",
        members=tuple(members),
    )
    assert list(needless_moves(saved)) == why
    saved.protocol = "range"
    assert list(needless_moves(saved)) == []
