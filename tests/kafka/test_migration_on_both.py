"""Where decision 33 departs from Kafka: one migration on both brokers, and who may use what; and
Kafka's records, read by us.
"""

from typing import Any

import confluent_kafka as ck

from apportion.coord.config import GroupSettings
from apportion.coord.records import CoordinatorRecord
from apportion.coord.shard import Shard
from apportion.machine import Instant
from apportion.topics import Topic, Topics
from apportion.wire.records.codec import decode_key, decode_value
from tests.kafka.conftest import until
from tests.kafka.differential.author import FOREVER_MS
from tests.kafka.differential.classic_author import assignment
from tests.kafka.differential.classic_clients import places_of, subscription
from tests.kafka.differential.classic_play import answered, exchange
from tests.kafka.differential.classic_steps import DescribeClassic, Join, Sync
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import EMPTY, Beat, Describe

ALIKE = {"group.initial.rebalance.delay.ms": 0}
TOPIC, PARTITIONS = "twelve", 12
STICKY = "cooperative-sticky"
WANTS = ((STICKY, subscription((TOPIC,))),)
ALL = frozenset((TOPIC, index) for index in range(PARTITIONS))
OWNS = ((STICKY, subscription((TOPIC,), ALL)),)
SPOKEN: dict[str, Any] = {"kind": "consumer", "protocol": STICKY}
Sides = tuple[Side, Side]


def beat(group: str, letter: str, instance: str | None = None) -> Beat:
    """The first heartbeat of a member of the consumer protocol."""
    fields: dict[str, Any] = {"topics": (TOPIC,), "rebalance_ms": FOREVER_MS, "member_id": letter}
    return Beat(group, letter, 0, owned=EMPTY, instance=instance, **fields)


def alone(sides: Sides, group: str) -> None:
    """A classic member has everything."""
    answered(sides, Join(group, "a", WANTS, version=3, member_id=""))
    shares = (("a1", assignment(TOPIC, *range(PARTITIONS))),)
    answers = answered(sides, Sync(group, "a", 1, shares, **SPOKEN))
    assert [len(places_of(each["assignment"])) for each in answers] == [PARTITIONS] * 2


def said(sides: Sides, sync: Sync) -> list[tuple[int, bool]]:
    """What both brokers answer: the code, and whether there are partitions."""
    return [(each["code"], bool(places_of(each["assignment"]))) for each in answered(sides, sync)]


def test_kafka_hands_out_what_its_owner_has_not_heard_to_be_revoked_and_we_do_not(
    sides: Sides, group: str
) -> None:
    alone(sides, group)
    exchange(sides, Join(group, "b", WANTS, version=3, member_id=""))
    leaders = [each["leader"] for each in answered(sides, Join(group, "a", OWNS, version=3))]
    assert leaders == ["a1", "a1"]
    # An answer that `a` does not hear: it goes on with twelve.
    half = (("a1", assignment(TOPIC, *range(6))),)
    assert [each["code"] for each in answered(sides, Sync(group, "a", 2, half, **SPOKEN))] == [0, 0]
    answers = answered(sides, beat(group, "c"))
    assert [bool(each["assignment"]) for each in answers] == [False, True]


def test_a_member_that_waits_is_given_what_another_has_by_a_static_members_return(
    sides: Sides, group: str
) -> None:
    exchange(sides, beat(group, "s", instance="i1"))
    joined = answered(sides, Join(group, "k", WANTS, member_id="k"))
    # Its share is still in the hands of `s`.
    sync = Sync(group, "k", joined[0]["generation"], **SPOKEN)
    assert said(sides, sync) == [(0, False)] * 2
    exchange(sides, Join(group, "b", WANTS, member_id="", instance="i1"))
    until(lambda: said(sides, sync) == [(27, False), (0, True)])


def test_a_downgrade_saves_targets_on_kafka_and_here_what_is_in_use(
    sides: Sides, group: str
) -> None:
    alone(sides, group)
    exchange(sides, beat(group, "c"))
    for side in sides:
        described = side.play(Describe((group,)))
        assert {
            label: tuple(len(each[name].get(TOPIC, ())) for name in ("assignment", "target"))
            for label, each in described[group]["members"].items()
        } == {"a1": (12, 6), "c": (0, 6)}
    exchange(sides, Beat(group, "c", -1))
    saved = [side.play(DescribeClassic((group,)))[group]["members"] for side in sides]
    assert [
        {label: len(places_of(each["assignment"])) for label, each in members.items()}
        for members in saved
    ] == [{"a1": 12}, {"a1": 6}]


def records_of(bootstrap: str, group: str) -> list[CoordinatorRecord]:
    """What the broker has written about that group, from the first record to the last that is there
    now.
    """
    consumer = ck.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    shards = sorted(
        consumer.list_topics("__consumer_offsets", 30).topics["__consumer_offsets"].partitions
    )
    consumer.assign([ck.TopicPartition("__consumer_offsets", index, 0) for index in shards])
    records, ended = [], 0
    while ended < len(shards):
        message: Any = consumer.poll(30)
        assert message is not None
        if message.error():
            ended += 1
            continue
        key = decode_key(message.key())
        if group in (getattr(key, "group_id", None), getattr(key, "group", None)):
            records.append(
                CoordinatorRecord(
                    key, None if message.value() is None else decode_value(key, message.value())
                )
            )
    consumer.close()
    return records


def read_by_us(side: Side, group: str) -> Any:
    """The group as a shard of ours has it that read the log of that broker."""
    shard = Shard(GroupSettings(), Topics([Topic(TOPIC, side.topic_id(TOPIC), PARTITIONS)]))
    for record in records_of(side.bootstrap, group):
        shard.replay(record)
    shard.loaded(Instant(0, 0))
    return shard.ledger.groups[group]


def test_kafkas_records_of_a_migrating_group_are_read(sides: Sides, group: str) -> None:
    alone(sides, group)
    _, epoch = (each["epoch"] for each in answered(sides, beat(group, "c")))
    kafka = sides[1]
    described = kafka.play(Describe((group,)))[group]
    read = read_by_us(kafka, group)
    assert (read.saved.epoch, read.saved.assignment_epoch) == (epoch, epoch)
    assert (described["epoch"], described["assignment epoch"]) == (epoch, epoch)
    assert {
        kafka.who(each.member_id): (each.epoch, int(not each.is_classic))
        for each in read.saved.members.values()
    } == {label: (each["epoch"], each["type"]) for label, each in described["members"].items()}
    held = read.saved.owners.owned(read.saved.units)
    assert held == dict.fromkeys(
        ((kafka.topic_id(TOPIC), index) for index in range(PARTITIONS)), kafka.ids["a1"]
    )

    exchange(sides, Beat(group, "c", -1))
    read = read_by_us(kafka, group)
    assert (read.type_name, read.live.generation, list(read.live.members)) == (
        "classic",
        epoch,
        [kafka.ids["a1"]],
    )
