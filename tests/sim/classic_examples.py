"""A tiny example for each planted bug of classic and mixed groups: what comes of it without the
bug, and with it.
"""

from collections.abc import Callable
from typing import Any

from apportion.assign.by_name import Subscription, TopicParts, TopicShape
from apportion.deadlines import Deadlines
from apportion.errors import Code, Refused
from apportion.machine import Instant
from apportion.member.assignors.builtin import CooperativeSticky, Sticky
from apportion.member.assignors.interface import to_named_parts
from apportion.member.classic.leader import assign_partitions
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import FetchMetadata, MetadataFetched
from apportion.member.ownership import OwnedPartitions
from apportion.member.step import Step
from apportion.sim.checks.subscriptions import assigned_partitions
from apportion.topics import IdPartition
from apportion.wire.group_states import GroupState
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.records.consumer_serde import encode_sticky
from tests.coord.classic_shard_driver import (
    ClassicShardDriver,
    ScriptedClient,
    ask,
    join_and_sync,
)
from tests.member.script_player import ScriptPlayer
from tests.member.simulated_group import Actor, SimulatedGroup

P0, P1 = (IdPartition(b"T" * 16, number) for number in range(2))
COOPERATIVE, EAGER = "cooperative-sticky", "range"


def settled(*assignors: str, **sizes: Any) -> tuple[Any, Any]:
    """A group at rest: "A" with these assignors, classic; with the topic t, of 4 partitions unless
    `sizes` says otherwise.
    """
    group = SimulatedGroup(**sizes)
    actor = group.joins("A", *assignors)
    group.settle()
    return group, actor


def told_to_rejoin(group: SimulatedGroup, actor: Actor, *, adopts: bool) -> None:
    """Somebody else has joined, and the member has heard so in a heartbeat."""
    newcomer = group.joins("B", *(assignor.name for assignor in actor.machine.settings.assignors))
    group.run(newcomer, adopts=False)
    group.wait(3_000)
    group.run(actor, adopts=adopts)


def rests(group: SimulatedGroup) -> None:
    """Ten seconds pass in which every message arrives and every owner is quick."""
    for _ in range(40):
        while group.mail:
            group.deliver(0)
            for actor in group.alive():
                group.adopts(actor)
        group.wait(250)


def named(group: SimulatedGroup, ids: tuple[str, ...]) -> Any:
    """The names of those members that have these ids."""
    return sorted(name for name, actor in group.actors.items() if actor.view.member_id in ids)


def who_is_left_of_those_that_wait() -> Any:
    """B has joined and waits for A, whose owner is slow to let go, for longer than B's session."""
    group, a = settled(EAGER)
    b = group.joins("B", EAGER)
    group.settle()
    group.run(group.joins("C", EAGER), adopts=False)
    group.wait(3_000)
    group.run(b, adopts=True)
    for _ in range(4):
        group.wait(3_000)
        group.run(a, adopts=False)
    return named(group, group.current())


def what_is_due_though_it_was_put_off() -> Any:
    deadlines, due = Deadlines(), []
    deadlines.arm(("a",), 5)
    deadlines.arm(("b",), 5)
    for key in deadlines.take_due(5):
        due.append(key)
        deadlines.arm(("b",), 9)
    return due


def how_many_are_left_of_those_silent_since_a_crash() -> Any:
    group, _ = settled(EAGER)
    group.crash()
    group.wait(60_000)
    return len(group.current())


def lost_generation() -> tuple[ClassicShardDriver, ScriptedClient]:
    """A shard after a crash, and the only member of its group, whose last generation had no
    assignment by then.
    """
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
    return driver, client


def what_a_member_of_a_lost_generation_is_told() -> Any:
    """At the ends of two sessions."""
    driver, client = lost_generation()
    told = []
    for request in (client.beating(), client.syncing()):
        driver.advance(client.session_ms - 1)
        told.append(Code(driver.send(request, 4).error_code))
    return told


def what_a_static_member_is_told_after_a_generation_without_it() -> Any:
    """The generation has the number of one that the member knows, and that a crash has lost."""
    driver, client, other = ClassicShardDriver(), ScriptedClient("A"), ScriptedClient("B")
    client.instance_id, client.session_ms = "i", 2 * client.rebalance_ms
    join_and_sync(driver, client)
    driver.crash()
    client.generation += 1
    ask(driver, other, other.joining(), version=3)
    driver.advance(client.rebalance_ms)
    return Code(driver.send(client.beating(), 4).error_code)


def commits(group: SimulatedGroup, actor: Actor, generation: int) -> Code:
    """What the coordinator says to a commit of that member."""
    [code] = group.coordinator.commit(generation, {("t", 0): 7}, actor.view.member_id)
    return Code(code)


def a_commit_of_the_generation_before() -> Any:
    group, a = settled(EAGER)
    return commits(group, a, a.view.epoch - 1)


def a_commit_before_the_leader_has_shared_out() -> Any:
    group: Any = SimulatedGroup()
    a = group.joins("A", EAGER)
    while a.view.epoch < 0:
        group.deliver_to(a)
        group.wait(0)
    assert (
        group.shard.ledger.classic_group_or_none("g").live.state is GroupState.COMPLETING_REBALANCE
    )
    return commits(group, a, a.view.epoch)


def what_b_gets_of_what_a_owns() -> Any:
    members = {
        "A": Subscription(("t",), owned=(TopicParts("t", (0, 1)),), generation=1),
        "B": Subscription(("t",)),
    }
    return CooperativeSticky().assign({"t": TopicShape(2)}, members)["B"].partitions


def what_is_claimed_before_it_is_let_go_of() -> Any:
    holding, step = OwnedPartitions(1), Step(Instant(0, 0))
    holding.set_target(step, (P0, P1))
    holding.adopt(1, (P0, P1))
    holding.set_target(step, (P0,))
    return holding.claim()


def which_generation_an_eager_member_is_in_whose_owner_still_works() -> Any:
    group, a = settled(EAGER)
    told_to_rejoin(group, a, adopts=False)
    return a.view.epoch


def what_is_offered_on_the_way_to_a_generation() -> Any:
    """A's look at its topics ends when it has given everything back, and waits for C."""
    group, a = settled(EAGER)
    group.joins("C", EAGER)
    group.settle()
    group.wait(1_000)
    group.run(group.joins("B", EAGER), adopts=False)
    group.wait(2_000)
    looks = [mail for mail in group.mail if isinstance(mail[1], FetchMetadata)]
    assert looks
    group.mail = [mail for mail in group.mail if mail not in looks]
    group.run(a, adopts=True)
    group.mail += looks
    group.deliver_to(a)
    return len(a.view.target)


def what_a_member_holds_that_was_put_out_and_taken_in() -> Any:
    """A knows that it has to join again, and its request is under way for longer than its session:
    M has everything meanwhile.
    """
    group, a = settled(COOPERATIVE)
    group.joins("M")
    rests(group)
    group.joins("N")
    while not any(
        actor is a and what == "ask" and isinstance(a.flight.request, JoinGroupRequest)
        for actor, what, _ in group.mail
    ):
        group.deliver(0)
        group.wait(250)
    mine = [mail for mail in group.mail if mail[0] is a and mail[1] == "ask"]
    group.mail = [mail for mail in group.mail if mail[0] is not a]
    others = [actor for actor in group.alive() if actor is not a]
    for _ in range(60):
        while group.mail:
            group.deliver(0)
            for actor in others:
                group.adopts(actor)
        group.wait(250)
    assert a.view.member_id not in group.current()
    group.mail = mine
    group.deliver_to(a)
    [(_, answered, _)] = group.mail
    a.machine.step(answered, group.coordinator.now)
    return len(a.view.owned)


def what_a_static_member_holds_that_missed_a_generation() -> Any:
    player = ScriptPlayer()
    for step in (f"new classic {COOPERATIVE} instance_id=i", "joined T-0"):
        player.play(step)
    player.play("3000 beat REBALANCE_IN_PROGRESS")
    player.play("20000 answer 7 generation_id=3")
    return player.member.view().owned


def what_is_offered_of_a_namesake() -> Any:
    group, a = settled(COOPERATIVE)
    group.wait(3_000)
    [look] = [what for _, what, _ in group.mail if isinstance(what, FetchMetadata)]
    group.tell(
        a, MetadataFetched(look.request_id, (TopicDescription("t", b"another".rjust(16, b"."), 4),))
    )
    return len(a.view.target)


def what_a_group_says_that_a_member_has_since_it_is_classic() -> Any:
    group, a = settled(COOPERATIVE)
    m = group.joins("M")
    rests(group)
    group.leaves(m)
    group.run(m, adopts=False)
    [member] = group.shard.ledger.classic_group_or_none("g").saved.members
    assert member.member_id == a.view.member_id
    return list(assigned_partitions(member))


def what_a_member_owes_since_its_group_is_incremental() -> Any:
    """A is to give half of its partitions to B, and has not heard so, when the first KIP-848 member
    comes.
    """
    group, a = settled(COOPERATIVE)
    told_to_rejoin(group, a, adopts=False)
    while group.shard.ledger.classic_group_or_none("g").live.state is not GroupState.STABLE:
        group.deliver_to(a)
    group.run(group.joins("M"), adopts=False)
    return len(
        group.shard.ledger.consumer_group_or_none("g")
        .saved.members[a.view.member_id]
        .pending_revocation.units
    )


def what_a_member_holds_that_joins_with_all_that_it_uses() -> Any:
    group, a = settled(COOPERATIVE, t=6)
    group.joins("M")
    rests(group)
    group.run(group.joins("N"), adopts=False)
    group.wait(3_000)
    group.run(a, adopts=False)
    return len(
        group.shard.ledger.consumer_group_or_none("g").saved.members[a.view.member_id].units()
    )


def what_a_classic_member_has_of_a_consumer_group() -> Any:
    """M had everything, and has given half of it up for A, whose group is at A's epoch already."""
    group = SimulatedGroup()
    group.joins("M")
    group.settle()
    a = group.joins("A", COOPERATIVE)
    rests(group)
    return len(a.view.owned)


def who_keeps_what_by_user_data() -> Any:
    """A was away since the first generation; B and C have what it had."""

    def subscription(generation: int, *partitions: int) -> Subscription:
        return Subscription(
            ("t",), encode_sticky(to_named_parts((TopicParts("t", partitions),)), generation)
        )

    given = Sticky().assign(
        {"t": TopicShape(2)},
        {"A": subscription(1, 0, 1), "B": subscription(2, 0), "C": subscription(2, 1)},
    )
    return {name: share.partitions for name, share in given.items() if share.partitions}


def who_keeps_what_two_members_claim() -> Any:
    owned = (TopicParts("t", (0,)),)
    members = {
        name: Subscription(("t",), owned=owned, generation=at) for name, at in (("A", 1), ("B", 2))
    }
    given = CooperativeSticky().assign({"t": TopicShape(1)}, members)
    return [name for name, share in given.items() if share.partitions]


def what_a_leader_does_with_claims_of_an_older_generation() -> Any:
    members = {
        "A": Subscription(("t",), owned=(TopicParts("t", (0, 1)),), generation=1),
        "B": Subscription(("t",), generation=2),
    }
    try:
        planned: Any = assign_partitions(
            CooperativeSticky(), {"t": TopicShape(2)}, members, checks=True
        )
        return planned.has_pending_revocation
    except Refused as refused:
        return refused.why


# bug -> an example, what comes of it without it, and with it
CLASSIC_EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "parked-is-silent": (who_is_left_of_those_that_wait, ["A", "B", "C"], ["A", "C"]),
    "due-all-the-same": (what_is_due_though_it_was_put_off, [("a",)], [("a",), ("b",)]),
    "classic-session-after-recovery": (how_many_are_left_of_those_silent_since_a_crash, 0, 1),
    "lost-generation": (
        what_a_member_of_a_lost_generation_is_told,
        [Code.REBALANCE_IN_PROGRESS] * 2,
        [Code.REBALANCE_IN_PROGRESS, Code.UNKNOWN_MEMBER_ID],
    ),
    "lost-number": (
        what_a_static_member_is_told_after_a_generation_without_it,
        Code.UNKNOWN_MEMBER_ID,
        Code.NONE,
    ),
    "commit-generation": (a_commit_of_the_generation_before, Code.ILLEGAL_GENERATION, Code.NONE),
    "commit-between-generations": (
        a_commit_before_the_leader_has_shared_out,
        Code.REBALANCE_IN_PROGRESS,
        Code.NONE,
    ),
    "cooperative-gives-at-once": (what_b_gets_of_what_a_owns, (), (TopicParts("t", (1,)),)),
    "rejoin-before-adopted": (what_is_claimed_before_it_is_let_go_of, (P0, P1), (P0,)),
    "eager-joins-at-once": (which_generation_an_eager_member_is_in_whose_owner_still_works, 1, 2),
    "learns-while-joining": (what_is_offered_on_the_way_to_a_generation, 0, 2),
    "taken-back": (what_a_member_holds_that_was_put_out_and_taken_in, 0, 2),
    "missed-generation": (what_a_static_member_holds_that_missed_a_generation, (), (P0,)),
    "namesake": (what_is_offered_of_a_namesake, 0, 4),
    "downgrade-forgets": (
        what_a_group_says_that_a_member_has_since_it_is_classic,
        [("t", 0), ("t", 1)],
        [],
    ),
    "upgrade-forgets-debts": (what_a_member_owes_since_its_group_is_incremental, 2, 0),
    "join-owns-nothing": (what_a_member_holds_that_joins_with_all_that_it_uses, 3, 2),
    "rejoin-by-epoch-alone": (what_a_classic_member_has_of_a_consumer_group, 2, 0),
    "KAFKA-7026": (
        who_keeps_what_by_user_data,
        {"B": (TopicParts("t", (0,)),), "C": (TopicParts("t", (1,)),)},
        {"A": (TopicParts("t", (0,)),), "B": (TopicParts("t", (1,)),)},
    ),
    "KAFKA-12984": (who_keeps_what_two_members_claim, ["B"], []),
    "KAFKA-13406": (
        what_a_leader_does_with_claims_of_an_older_generation,
        True,
        "the assignor gives partition 1 of 't' to 'B' while 'A' still owns it",
    ),
}
