"""Groups of three foreign clients: they share, leave, die, commit, resume and come back, client by
client.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewTopic
from tools.go_programs import GoMissing, built

from apportion.wire.records.codec import decode_key, decode_value
from apportion.wire.records.groups import GroupMetadataKey
from tests.compat.foreign_clients import SESSION_MS, Client, GroupUnderTest
from tests.compat.lanes import LANES, ONE_EACH, Lane
from tests.compat.node import node_with_clients
from tests.compat.wheels import TARGET, InstallFailed

if TYPE_CHECKING:
    from tests.compat.conftest import Served


PARTITIONS = 6
CLIENTS = Path(__file__).with_name("clients")

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def tested(
    bootstrap: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[GroupUnderTest]:
    """A topic and a group of this test's own, and nobody there yet."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    tested = GroupUnderTest(bootstrap, name, name, tmp_path)
    tested.admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)
    yield tested
    tested.end()


@pytest.fixture
def client(
    tested: GroupUnderTest, lane: Lane, lane_missing: Callable[[str], NoReturn]
) -> Callable[..., Client]:
    """`client(name, instance)` starts one client of the lane."""
    try:
        command = command_of(lane)
    except (InstallFailed, GoMissing) as problem:
        lane_missing(str(problem))
    return lambda name, instance=None: tested.client(command, name, lane.strategy_option, instance)


def command_of(lane: Lane) -> list[str]:
    """The words that start a client of the lane. Raises InstallFailed and GoMissing."""
    if lane.driver == "go":
        return [str(built(CLIENTS / "go", "drive", TARGET)), lane.client]
    program = sys.executable if lane.driver.endswith(".py") else str(node_with_clients())
    return [program, str(CLIENTS / lane.driver)]


def shared_by(*members: Client) -> bool:
    """True when these members own all partitions, each of them once and none more than its
    share.
    """
    owned = [member.owned() for member in members]
    sizes = [len(each) for each in owned]
    return (
        sorted(partition for each in owned for partition in each) == list(range(PARTITIONS))
        and max(sizes) - min(sizes) <= 1
    )


def read_by(*members: Client) -> set[tuple[int, int]]:
    return {record for member in members for record in member.read()}


def read_by_owners(records: set[tuple[int, int]], *members: Client) -> bool:
    return all(
        record in member.read()
        for member in members
        for record in records
        if record[0] in member.owned()
    )


def described(tested: GroupUnderTest) -> tuple[str, str, dict[str, list[int]]]:
    """(state, assignor, {client id: partitions}) as the broker says."""
    group = tested.admin.describe_consumer_groups([tested.group])[tested.group].result(20)
    members = {
        each.client_id: sorted(
            partition.partition for partition in each.assignment.topic_partitions
        )
        for each in group.members
    }
    return group.state.name, group.partition_assignor, members


def committed(tested: GroupUnderTest) -> dict[int, int]:
    """{partition: next offset} as the broker says."""
    offsets = tested.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(tested.group)]
    )[tested.group].result(20)
    return {partition.partition: partition.offset for partition in offsets.topic_partitions}


def saved_generation(tested: GroupUnderTest) -> int:
    """The newest generation of the classic group in the broker's own log."""
    consumer = Consumer(
        {
            "bootstrap.servers": tested.bootstrap,
            "group.id": "onlooker",
            "enable.partition.eof": True,
        }
    )
    partitions = (
        consumer.list_topics("__consumer_offsets", 20).topics["__consumer_offsets"].partitions
    )
    consumer.assign([TopicPartition("__consumer_offsets", each, 0) for each in partitions])
    generations, ended = [0], 0
    while ended < len(partitions):
        message: Any = consumer.poll(20)
        assert message is not None
        if message.error():
            ended += 1
        elif message.value() and decode_key(message.key()) == GroupMetadataKey(group=tested.group):
            generations.append(
                decode_value(GroupMetadataKey(group=tested.group), message.value()).generation
            )
    consumer.close()
    return generations[-1]


@pytest.mark.parametrize("lane", LANES, ids=str)
def test_three_share_leave_and_die_and_every_record_is_read(
    tested: GroupUnderTest, client: Callable[..., Client], lane: Lane
) -> None:
    first, second, third = everybody = [client(name) for name in ("first", "second", "third")]
    sent = first.produce([*range(PARTITIONS)] * 10)
    assert len(sent) == 10 * PARTITIONS
    first.join()
    tested.until(lambda: shared_by(first), "one member owns everything")
    second.join()
    tested.until(lambda: shared_by(first, second), "two members share")
    third.join()
    tested.until(
        lambda: shared_by(*everybody) and sent <= read_by(*everybody),
        "three members share, and all is read",
    )
    assignor = "uniform" if lane.strategy == "consumer" else lane.strategy
    tested.until(
        # who has revoked joins once more, and each of them may have its share before that
        lambda: (
            described(tested)
            == ("STABLE", assignor, {member.name: member.owned() for member in everybody})
        ),
        "the broker says the same",
    )
    # a fetch of before the rebalance may still bring the first of these to a member that has lost
    # the partition
    for _ in range(2):
        sent = first.produce(range(PARTITIONS))
        tested.until(lambda now=sent: now <= read_by(*everybody), "what came is read")
    for member in everybody:
        assert [record for record in sorted(member.read()) if record in sent] == [
            (each, 11) for each in member.owned()
        ]

    third.leave()
    took = tested.until(
        lambda: shared_by(first, second), "two members share what the third has left"
    )
    assert took < SESSION_MS / 1000, "a leave is not found out by a timeout"
    sent = first.produce(range(PARTITIONS))
    tested.until(lambda: sent <= read_by(first, second), "what came is read")
    positions = second.commit()
    second.crash()
    tested.until(lambda: shared_by(first), "the last member has what the dead one had")
    seen = len(first.read())
    sent = first.produce(range(PARTITIONS))
    tested.until(lambda: sent <= read_by(first), "what came is read")
    taken_over = [
        (partition, offset) for partition, offset in first.read()[seen:] if partition in positions
    ]
    assert sorted(taken_over) == sorted(record for record in sent if record[0] in positions)
    # which gives everything back first
    if lane.strategy in ("cooperative-sticky", "consumer") and lane.client != "aiokafka":
        assert [] not in first.values_of("owned"), "a cooperative member goes on with what it keeps"
    first.leave()
    assert described(tested)[::2] == ("EMPTY", {})


@pytest.mark.parametrize("lane", ONE_EACH, ids=str)
def test_a_successor_reads_on_exactly_from_what_was_committed(
    tested: GroupUnderTest, client: Callable[..., Client]
) -> None:
    first = client("first")
    sent = first.produce([*range(PARTITIONS)] * 10)
    first.join()
    tested.until(lambda: sent <= read_by(first), "all is read")
    positions = first.commit()
    assert positions == dict.fromkeys(range(PARTITIONS), 10)
    assert committed(tested) == positions
    sent = first.produce([*range(PARTITIONS)] * 5)
    tested.until(lambda: sent <= read_by(first), "more is read, and not committed")
    first.leave()
    assert committed(tested) == positions
    second = client("second")
    second.join()
    tested.until(lambda: sent <= read_by(second), "the successor has read on")
    assert sorted(second.read()) == sorted(sent)
    second.leave()


@pytest.mark.parametrize("lane", [lane for lane in LANES if lane.static], ids=str)
def test_a_static_member_comes_back_and_nobody_else_notices(
    tested: GroupUnderTest, client: Callable[..., Client], lane: Lane
) -> None:
    names = ("first", "second", "third")
    members = {name: client(name, instance=name) for name in names}
    members["first"].produce(range(PARTITIONS))
    for count, name in enumerate(names, 1):
        members[name].join()
        tested.until(
            lambda now=count: shared_by(*[members[each] for each in names[:now]]), f"{count} share"
        )
    sent = members["first"].produce(range(PARTITIONS))
    tested.until(
        lambda: read_by_owners(sent, *members.values()),
        "what came is read, and no rebalance is under way",
    )
    generation = saved_generation(tested)
    for name, crashes in (("first", True), ("third", not lane.stays)):  # the first is the leader
        others = [members[each] for each in names if each != name]
        before = members[name].owned(), [each.values_of("owned") for each in others]
        members[name].crash() if crashes else members[name].leave()
        members[name] = client(name, instance=name)
        members[name].join()
        tested.until(lambda came=members[name]: came.owned(), f"{name} is back")
        assert (members[name].owned(), [each.values_of("owned") for each in others]) == before
    assert saved_generation(tested) == generation + lane.again
    sent = members["first"].produce(range(PARTITIONS))
    tested.until(lambda: sent <= read_by(*members.values()), "what came is read")


@pytest.mark.parametrize("lane", ONE_EACH, ids=str)
def test_members_go_on_after_the_broker_was_killed(
    broker: "Served", tested: GroupUnderTest, client: Callable[..., Client]
) -> None:
    first, second = both = client("first"), client("second")
    first.produce(range(PARTITIONS))
    first.join()
    tested.until(lambda: shared_by(first), "one member owns everything")
    second.join()
    tested.until(lambda: shared_by(*both), "two members share")
    sent = first.produce(range(PARTITIONS))
    tested.until(lambda: read_by_owners(sent, *both), "what came is read")
    positions = first.commit() | second.commit()
    owned = first.owned(), second.owned()
    broker.kill()
    broker.start()
    sent = first.produce(range(PARTITIONS))
    tested.until(
        lambda: shared_by(*both) and read_by_owners(sent, *both),
        "they share, and what came is read",
    )
    assert (first.owned(), second.owned()) == owned
    assert committed(tested) == positions == dict.fromkeys(range(PARTITIONS), 2)
