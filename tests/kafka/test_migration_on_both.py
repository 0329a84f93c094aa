"""Where decision 33 departs from Kafka: one migration on both brokers, and who may use what; and
Kafka's records, read by us.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import confluent_kafka as ck
import pytest

from apportion.coord.config import GroupSettings
from apportion.coord.records import CoordinatorRecord
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Instant
from apportion.testing.kafka import RealKafka
from apportion.topics import Topic, Topics
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records import consumer_serde
from apportion.wire.records.codec import decode_key, decode_value
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from tests.kafka.differential.compare import side_by_side
from tests.kafka.differential.side import Side

TOPIC, PARTITIONS = "twelve", 12
STICKY = "cooperative-sticky"


@pytest.fixture(scope="module")
def sides(kafka: RealKafka) -> Iterator[dict[str, Side]]:
    """Our broker and the real one, by name."""
    with side_by_side(kafka) as both:
        yield {side.name: side for side in both}


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{time.time_ns()}"


def parts(indexes: Sequence[int]) -> tuple[ConsumerProtocolTopicPartition, ...]:
    return (
        (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=tuple(indexes)),) if indexes else ()
    )


def join(
    side: Side,
    group: str,
    member_id: str,
    owned: Sequence[int] = (),
    generation: int = -1,
    instance_id: str | None = None,
) -> Any:
    subscription = ConsumerProtocolSubscription(
        topics=(TOPIC,), owned_partitions=parts(owned), generation_id=generation
    )
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(
            JoinGroupRequestProtocol(name=STICKY, metadata=consumer_serde.encode(subscription)),
        ),
    )
    return side.call(request, 9)


def sync(
    side: Side, group: str, joined: JoinGroupResponse, given: dict[str, range] | None = None
) -> tuple[Code, list[int]]:
    """The code, and the partitions that the member is told."""
    blobs = {
        who: consumer_serde.encode(ConsumerProtocolAssignment(assigned_partitions=parts(its)))
        for who, its in (given or {}).items()
    }
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name=STICKY,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=who, assignment=blob)
            for who, blob in blobs.items()
        ),
    )
    answer = side.call(request, 5)
    return Code(answer.error_code), indexes_of(answer.assignment)


def indexes_of(assignment: bytes) -> list[int]:
    """The partitions in an assignment; none in one that is empty."""
    if not assignment:
        return []
    _, assigned = consumer_serde.decode(ConsumerProtocolAssignment, assignment)
    return sorted(index for part in assigned.assigned_partitions for index in part.partitions)


def beat(
    side: Side,
    group: str,
    member_id: str,
    epoch: int,
    owned: Sequence[int] = (),
    instance_id: str | None = None,
) -> tuple[int, list[int] | None]:
    """The epoch, and the partitions that the member is told; None for: as before."""
    parts = (
        (TopicPartitions(topic_id=side.topic_id(TOPIC), partitions=tuple(owned)),) if owned else ()
    )
    first: dict[str, Any] = (
        {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": (TOPIC,)} if epoch == 0 else {}
    )
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        topic_partitions=parts,
        **first,
    )
    answer = side.call(request, 1)
    assert answer.error_code == Code.NONE, answer
    assigned = answer.assignment
    return answer.member_epoch, assigned and sorted(
        index for part in assigned.topic_partitions for index in part.partitions
    )


def prepare(side: Side, group: str) -> None:
    """The group's coordinator has heard of the topic, and nobody is in the group."""
    is_known = False
    while not is_known:
        _, assigned = beat(side, group, "w", 0)
        is_known = assigned == list(range(PARTITIONS))
        beat(side, group, "w", -1)


def alone(side: Side, group: str) -> Any:
    """A classic member that has everything."""
    prepare(side, group)
    who = join(side, group, "")
    joined = join(side, group, who.member_id)
    assert sync(side, group, joined, {joined.member_id: range(PARTITIONS)}) == (
        Code.NONE,
        list(range(PARTITIONS)),
    )
    return joined


@pytest.mark.parametrize(("name", "is_given"), [("Kafka", True), ("apportion", False)])
def test_a_joiner_is_given_what_a_member_has_not_heard_to_be_taken_from_it(
    sides: dict[str, Side], group: str, name: str, is_given: bool
) -> None:
    side = sides[name]
    a = alone(side, group)
    answers = []
    beside = Side(name, side.bootstrap)
    b_id = join(side, group, "").member_id
    waiting = threading.Thread(target=lambda: answers.append(join(beside, group, b_id)))
    waiting.start()
    a = join(side, group, a.member_id, range(PARTITIONS), a.generation_id)
    waiting.join(30)
    beside.close()
    assert (a.leader, [answer.generation_id for answer in answers]) == (
        a.member_id,
        [a.generation_id],
    )
    # an answer that `a` does not hear: it goes on with twelve
    assert sync(side, group, a, {a.member_id: range(6)})[0] == Code.NONE
    _, assigned = beat(side, group, "c", 0)
    assert bool(assigned) == is_given


@pytest.mark.parametrize(("name", "is_given"), [("Kafka", True), ("apportion", False)])
def test_a_member_that_waits_is_given_what_another_has_by_a_static_members_return(
    sides: dict[str, Side], group: str, name: str, is_given: bool
) -> None:
    side = sides[name]
    prepare(side, group)
    beat(side, group, "s", 0, instance_id="i1")
    waiting = join(side, group, "k")  # its share is still in the hands of `s`
    assert (waiting.error_code, sync(side, group, waiting)) == (Code.NONE, (Code.NONE, []))
    beside = Side(name, side.bootstrap)
    back = threading.Thread(target=lambda: join(beside, group, "", instance_id="i1"))
    back.start()
    for _ in range(10_000):  # until the group has become a classic one
        code, assigned = sync(side, group, waiting)
        if code is not Code.NONE or assigned:
            break
    assert (code, bool(assigned)) == (
        (Code.NONE, True) if is_given else (Code.REBALANCE_IN_PROGRESS, False)
    )
    if not is_given:
        join(side, group, "k", (), waiting.generation_id)
    back.join(30)
    beside.close()


@pytest.mark.parametrize(("name", "size"), [("Kafka", 6), ("apportion", 12)])
def test_a_downgrade_saves_targets_on_kafka_and_here_what_is_in_use(
    sides: dict[str, Side], group: str, name: str, size: int
) -> None:
    side = sides[name]
    a = alone(side, group)
    beat(side, group, "c", 0)
    (described,) = side.call(ConsumerGroupDescribeRequest(group_ids=(group,)), 1).groups
    sizes = {
        member.member_id: tuple(
            sum(len(part.partitions) for part in assignment.topic_partitions)
            for assignment in (member.assignment, member.target_assignment)
        )
        for member in described.members
    }
    assert sizes == {a.member_id: (12, 6), "c": (0, 6)}
    beat(side, group, "c", -1)
    (described,) = side.call(DescribeGroupsRequest(groups=(group,)), 6).groups
    assert {
        member.member_id: len(indexes_of(member.member_assignment)) for member in described.members
    } == {a.member_id: size}


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


def test_kafkas_records_of_a_migrating_group_are_read(sides: dict[str, Side], group: str) -> None:
    side = sides["Kafka"]
    a = alone(side, group)
    epoch, _ = beat(side, group, "c", 0)
    (described,) = side.call(ConsumerGroupDescribeRequest(group_ids=(group,)), 1).groups
    read = read_by_us(side, group)
    assert (
        (read.saved.epoch, read.saved.assignment_epoch)
        == (described.group_epoch, described.assignment_epoch)
        == (epoch, epoch)
    )
    members = {each.member_id: (each.member_epoch, each.member_type) for each in described.members}
    assert {
        each.member_id: (each.epoch, int(not each.is_classic))
        for each in read.saved.members.values()
    } == members
    held = read.saved.owners.owned(read.saved.units)
    assert held == dict.fromkeys(
        ((side.topic_id(TOPIC), index) for index in range(PARTITIONS)), a.member_id
    )

    beat(side, group, "c", -1)
    read = read_by_us(side, group)
    assert (read.type_name, read.live.generation, list(read.live.members)) == (
        "classic",
        epoch,
        [a.member_id],
    )
