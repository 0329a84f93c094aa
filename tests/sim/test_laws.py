"""Each law of a group sees its violation, and none sees one in what a real coordinator does."""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from apportion.coord import records
from apportion.coord.consumer.client_assignors import OfferingMember
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroupSavedState
from apportion.coord.records import CoordinatorRecord
from apportion.coord.shard import Shard
from apportion.coord.shard_events import TopicsChanged
from apportion.errors import Code
from apportion.machine import Arrived, Caller, Instant, Reply, Tick, Ticket
from apportion.sim.checks.consumer_laws import GROUP_LAWS
from apportion.sim.checks.saved import replay_records
from apportion.topics import Topic, Topics
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    RecordClientAssignor,
    RecordTopicPartitions,
)
from tests.coord.shard_driver import settings_with
from tests.sim.laws import TLA, WATCHED_LAWS

FOO, BAR = b"foo".rjust(16, b"."), b"bar".rjust(16, b".")
TOPICS = Topics([Topic("foo", FOO, 4), Topic("bar", BAR, 1)])


def member_metadata(*topic_names: str, **facts: Any) -> ConsumerGroupMemberMetadataValue:
    facts = {
        "instance_id": None,
        "rack_id": None,
        "subscribed_topic_regex": "",
        "server_assignor": None,
    } | facts
    return ConsumerGroupMemberMetadataValue(subscribed_topic_names=topic_names, **facts)


def member_record(
    member_id: str, topic_names: tuple[str, ...] = ("foo",), **facts: Any
) -> CoordinatorRecord:
    return records.member_metadata("g", member_id, member_metadata(*topic_names, **facts))


def target(member_id: str, *partitions: int, topic_id: bytes = FOO) -> CoordinatorRecord:
    return records.target_assignment("g", member_id, [(topic_id, partitions)] if partitions else [])


def partitions_given(
    parts: Iterable[tuple[bytes, tuple[int, ...]]], epoch: int
) -> tuple[RecordTopicPartitions, ...]:
    """These partitions of topics, which were all given at that epoch."""
    return tuple(
        RecordTopicPartitions(
            topic_id=topic_id, partitions=partitions, assignment_epochs=(epoch,) * len(partitions)
        )
        for topic_id, partitions in parts
        if partitions
    )


def has(
    member_id: str,
    *partitions: int,
    epoch: int = 3,
    before: int = 2,
    state: MemberState = MemberState.STABLE,
    revoking: tuple[int, ...] = (),
    at: int = 3,
) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=before,
        state=int(state),
        assigned_partitions=partitions_given([(FOO, partitions)], at),
        partitions_pending_revocation=partitions_given([(FOO, revoking)], at),
    )
    return records.current_assignment("g", member_id, value)


SETTLED = (
    member_record("a", instance_id="i", server_assignor="range"),
    member_record("b"),
    records.group_epoch("g", 3, 7),
    target("a", 0, 1),
    target("b", 2, 3),
    records.assignment_epoch("g", 3, 0),
    has("a", 0, 1),
    has("b", 2, 3),
)
"""A group at epoch 3 in which everything is as it shall be."""


def without_foo() -> Topics:
    """The topics of these histories after one was deleted."""
    return Topics(topic for topic in TOPICS if topic.name != "foo")


def settled(*changes: CoordinatorRecord) -> Any:
    """The settled group after these records."""
    return replay_records([*SETTLED, *changes]).groups["g"]


def broken(group: Any, topics: Topics = TOPICS) -> dict[str, list[str]]:
    """What every law says of the group, without those that hold."""
    return {name: why for name, law in GROUP_LAWS.items() if (why := list(law(group, topics)))}


def after(*changes: CoordinatorRecord) -> dict[str, list[str]]:
    """What the laws say of the settled group after these records."""
    return broken(settled(*changes))


def test_a_settled_group_keeps_every_law() -> None:
    assert settled().state == "Stable"
    assert after() == {}


@pytest.mark.parametrize(
    ("law", "why", "changes"),
    [
        ("one-holder", ["foo-1 is held by a and by b."], [has("b", 1, 2, 3)]),
        ("one-holder", ["foo-1 is held by a and by b."], [has("b", 2, 3, revoking=(1,))]),
        (
            "bounded-epochs",
            ["the assignment epoch 4 is above the group's 3."],
            [records.assignment_epoch("g", 4, 0)],
        ),
        ("bounded-epochs", ["b is at epoch 4, above the group's 3."], [has("b", 2, 3, epoch=4)]),
        (
            "bounded-epochs",
            ["b is at epoch -1, which means nothing."],
            [has("b", epoch=-1, before=-1)],
        ),
        (
            "bounded-epochs",
            ["b is at epoch 2 and was at 3 before."],
            [has("b", 2, 3, epoch=2, before=3, at=2)],
        ),
        (
            "bounded-epochs",
            ["b is at epoch -2 and was at 4 before."],
            [has("b", 2, 3, epoch=-2, before=4, at=0)],
        ),
        (
            "bounded-epochs",
            ["b is at epoch 2 and has a partition that was given at 3."],
            [has("b", 2, epoch=2, before=2, state=MemberState.UNREVOKED, revoking=(3,))],
        ),
        ("legal-target", ["the target gives foo-3 to nobody."], [target("b", 2)]),
        (
            "legal-target",
            ["the target gives bar-0 to nobody."],
            [member_record("b", ("bar", "foo"))],
        ),
        ("legal-target", ["the target gives foo-1 to a and to b."], [target("b", 1, 2, 3)]),
        ("legal-target", ["the target names c, which is no member."], [target("c")]),
        (
            "legal-target",
            ["the target gives foo-4 to b, which does not subscribe to it."],
            [target("b", 2, 3, 4)],
        ),
        (
            "legal-target",
            [
                "the target gives foo-2 to b, which does not subscribe to it.",
                "the target gives foo-3 to b, which does not subscribe to it.",
                "the target gives foo-2 to nobody.",
                "the target gives foo-3 to nobody.",
            ],
            [member_record("b", ())],
        ),
        (
            "valid-member-epoch",
            ["b is at the target's epoch 3 and uses foo-1, which the target gives to a."],
            [has("a", 0, epoch=2, before=2, at=2), has("b", 1, 2, 3, state=MemberState.UNRELEASED)],
        ),
        (
            "valid-member-epoch",
            ["b is at the target's epoch 3 and uses foo-4, which the target gives to nobody."],
            [has("b", 2, 3, 4)],
        ),
        (
            "valid-member-epoch",
            ["b is STABLE at the target's epoch 3 with 1 of 2 partitions."],
            [has("b", 2)],
        ),
        (
            "stable-is-settled",
            ["the group is Stable, but b still has to give up 1 partitions."],
            [has("b", 2, 3, revoking=(4,))],
        ),
        (
            "stable-is-settled",
            ["the group is Stable, but what b uses is not its target."],
            [has("b", 2)],
        ),
        ("counts-agree", ["c is a member and never said anything."], [has("c", epoch=3)]),
        (
            "counts-agree",
            ["the count of instances is {'i': 'b'}, and a recount gives {'i': 'c'}."],
            [member_record("c", instance_id="i"), member_record("b", instance_id="i")],
        ),
    ],
)
def test_each_law_sees_its_violation(
    law: str, why: list[str], changes: list[CoordinatorRecord]
) -> None:
    assert after(*changes)[law] == why


def test_a_member_that_is_not_where_the_counters_say_makes_a_stable_group_unsettled() -> None:
    group = settled()
    member = group.saved.members["b"]
    member.state, member.epoch = MemberState.UNRELEASED, 2
    assert broken(group)["stable-is-settled"] == [
        "the group is Stable, but b is UNRELEASED.",
        "the group is Stable at epoch 3, but b is at 2.",
    ]
    assert broken(group)["counts-agree"] == [
        "the count of settled members is {3: 2}, and a recount gives {3: 1}."
    ]


def test_the_holders_table_must_say_what_the_members_hold() -> None:
    group = settled()
    owners, units = group.saved.owners, group.saved.units
    owners.release("a", [units.unit(FOO, 0)])
    owners.claim("a", [units.unit(FOO, 2)])
    owners.claim("gone", [units.unit(FOO, 9)])
    assert broken(group) == {
        "holders-agree": [
            "foo-2 is held by b, but the table of holders says a.",
            "foo-9 is held by nobody, but the table of holders says gone.",
            "foo-0 is held by a, but the table of holders says nobody.",
        ]
    }


@pytest.mark.parametrize(
    "name",
    [
        "subscriber_counts",
        "expression_counts",
        "assignor_votes",
        "client_offers",
        "protocol_counts",
        "stable_members_by_epoch",
        "instances",
    ],
)
def test_every_counter_is_recounted(name: str) -> None:
    group = settled()
    getattr(group.saved, name)["stray"] = 1
    (why,) = broken(group)["counts-agree"]
    assert "'stray': 1" in why


def test_the_metadata_that_waits_is_recounted() -> None:
    group = settled()
    offering = group.live.offering_members["a"] = OfferingMember()
    offering.early = (RecordClientAssignor(name="lag", metadata=b"123"),)
    assert broken(group) == {
        "counts-agree": ["the count of waiting bytes is 0, and a recount gives 3."]
    }


def test_a_resolution_without_a_subscriber_is_one_too_many() -> None:
    group = settled()
    group.saved.resolutions["stray"] = ()
    assert broken(group) == {"counts-agree": ["stray is resolved, and no member subscribes to it."]}


@pytest.mark.parametrize(
    "changes",
    [
        # dismissed: the target waits for a heartbeat
        [records.group_epoch("g", 4, 7), *records.member_tombstones("g", "b")],
        [has("a", 0, 1, epoch=-2, before=3, at=0)],  # away
        [has("b", 2, 3, state=MemberState.UNKNOWN)],  # written by a newer coordinator
        [has("a", 0, 1, epoch=0, before=0, at=0)],  # has just taken over
    ],
)
def test_ordinary_histories_break_no_law(changes: list[CoordinatorRecord]) -> None:
    assert after(*changes) == {}


def test_the_target_is_judged_by_the_topics_that_it_was_made_of() -> None:
    grown = Topics([*without_foo(), Topic("foo", FOO, 5)])
    assert broken(settled(), grown) == {"legal-target": ["the target gives foo-4 to nobody."]}


def test_a_deleted_topic_is_called_by_its_id() -> None:
    (why,) = GROUP_LAWS["one-holder"](settled(has("b", 1, 2, 3)), Topics())
    assert why == f"{FOO.hex()}-1 is held by a and by b."


class Run:
    """A real shard, whose group is asked after every step whether it keeps the laws."""

    def __init__(self) -> None:
        self.mono_ms = 0
        self.shard = Shard(settings_with(), TOPICS)
        self.shard.loaded(self.now)
        self.targeted = (1, TOPICS)
        self.states: list[str] = []
        self.tickets = map(Ticket, itertools.count())

    @property
    def now(self) -> Instant:
        return Instant(self.mono_ms, 1_000_000 + self.mono_ms)

    def step(self, event: TopicsChanged | Arrived | Tick) -> list[ConsumerGroupHeartbeatResponse]:
        actions = self.shard.step(event, self.now)
        if (group := self.shard.ledger.groups.get("g")) is not None:
            assert isinstance(group.saved, ConsumerGroupSavedState)
            if self.targeted[0] != group.saved.assignment_epoch:
                self.targeted = (group.saved.assignment_epoch, self.shard.topics)
            assert broken(group, self.targeted[1]) == {}
            self.states.append(group.state)
        return [action.body for action in actions if isinstance(action, Reply)]

    def beat(self, member_id: str, epoch: int, **facts: Any) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, **facts
        )
        (answer,) = self.step(Arrived(next(self.tickets), request, 1, Caller("c", "h"), bytes(16)))
        assert answer.error_code == Code.NONE
        return answer.member_epoch

    def join(self, member_id: str, *topic_names: str, instance_id: str | None = None) -> int:
        return self.beat(
            member_id,
            0,
            instance_id=instance_id,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=topic_names,
            topic_partitions=(),
        )


def test_a_real_coordinator_keeps_the_laws() -> None:
    """Members join, one is away and replaced, a topic goes and comes again, one falls silent, all
    leave.
    """
    run: Any = Run()
    # subscribes to nothing: the group stays at its first epoch and has no target
    run.join("nothing")
    a = run.join("a", "foo", "bar", instance_id="i")
    b = run.join("b", "foo")
    a = run.beat(
        "a",
        a,
        instance_id="i",
        topic_partitions=(RecordTopicPartitions(topic_id=FOO, partitions=(0,)),),
    )
    a = run.beat("a", a, instance_id="i", topic_partitions=())
    b = run.beat("b", b)
    assert run.beat("nothing", 1) == a == b == run.shard.ledger.groups["g"].saved.epoch
    assert run.states[-1] == "Stable"
    run.step(TopicsChanged(without_foo()))
    run.beat("b", b, topic_partitions=())
    run.step(TopicsChanged(Topics([*without_foo(), Topic("foo", b"again".rjust(16, b"."), 2)])))
    run.beat("a", -2, instance_id="i")
    run.join("c", "bar", instance_id="i")
    run.beat("nothing", -1)
    run.mono_ms += 45_000
    run.step(Tick())
    assert list(dict.fromkeys(run.states)) == ["Stable", "Reconciling", "Assigning", "Empty"]


def test_a_law_has_one_name_and_the_sketch_is_covered() -> None:
    assert not set(GROUP_LAWS) & set(WATCHED_LAWS)
    assert set(GROUP_LAWS) == {law.__name__.replace("_", "-") for law in GROUP_LAWS.values()}
    laws = {*GROUP_LAWS, *WATCHED_LAWS}
    assert [
        name for stands in TLA.values() for name in stands.split(", ") if name not in laws
    ] == []


def test_records_that_a_group_does_not_know_yet_break_nothing() -> None:
    assert replay_records([CoordinatorRecord(record.key, None) for record in SETTLED]).groups == {}
