"""A group of librdkafka's members goes live from the classic protocol to the new one and back, in
both ways that it rebalances.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import NewTopic

from tests.compat.foreign_clients import Client, GroupUnderTest

PARTITIONS = 6
DRIVER = Path(__file__).with_name("clients") / "confluent.py"

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Rolling:
    """A group whose members change one by one, while records flow: every step produces before it
    and at its end.
    """

    def __init__(self, tested: GroupUnderTest) -> None:
        self.tested = tested
        self.producer = tested.client([sys.executable, str(DRIVER)], "producer", "consumer")
        self.members: list[Client]
        self.everybody: list[Client]
        self.sent: set[tuple[int, int]]
        self.members, self.everybody, self.sent = [], [], set()

    def start(self, name: str, strategy: str, instance: str | None = None) -> Client:
        """A member comes."""
        self.flow()
        member = self.tested.client([sys.executable, str(DRIVER)], name, strategy, instance)
        member.join()
        self.members.append(member)
        self.everybody.append(member)
        self.settled()
        return member

    def stop(self, member: Client, how: str) -> None:
        """A member goes: it leaves, or its process is killed."""
        self.flow()
        for each in self.members:
            each.commit()
        self.members.remove(member)
        getattr(member, how)()
        self.settled()

    def flow(self) -> None:
        self.sent |= self.producer.produce(list(range(PARTITIONS)) * 5)

    def settled(self) -> None:
        """The members share all partitions, and each record has been read by whoever owns it now,
        or by somebody before.
        """
        self.tested.until(
            self.is_shared, f"{[member.name for member in self.members]} share the partitions"
        )
        self.flow()
        self.tested.until(self.is_read, "everything is read")

    def is_shared(self) -> bool:
        owned = [member.owned() for member in self.members]
        sizes = [len(each) for each in owned]
        whole = sorted(partition for each in owned for partition in each) == list(range(PARTITIONS))
        return whole and max(sizes) - min(sizes) <= 1

    def is_read(self) -> bool:
        return self.sent <= {record for member in self.everybody for record in member.read()}

    def described(self) -> tuple[str, int]:
        """(type, members) as the broker says."""
        group = self.tested.admin.describe_consumer_groups([self.tested.group])[
            self.tested.group
        ].result(20)
        return group.type.name, len(group.members)

    def committed(self) -> dict[int, int]:
        """{partition: next offset} as the broker says."""
        asked = [ConsumerGroupTopicPartitions(self.tested.group)]
        offsets = self.tested.admin.list_consumer_group_offsets(asked)[self.tested.group].result(20)
        return {partition.partition: partition.offset for partition in offsets.topic_partitions}


@pytest.fixture
def group(bootstrap: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rolling]:
    """A topic and a group of this test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    tested = GroupUnderTest(bootstrap, name, name, tmp_path)
    tested.admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)
    yield Rolling(tested)
    tested.end()


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_group_goes_to_the_new_protocol_and_back_while_records_flow(
    group: Rolling, strategy: str
) -> None:
    old = [group.start("old-1", strategy), group.start("old-2", strategy)]
    assert group.described() == ("CLASSIC", 2)
    new = [group.start("new-1", "consumer")]
    assert group.described() == ("CONSUMER", 3)
    group.stop(old[0], "leave")
    new.append(group.start("new-2", "consumer"))
    group.stop(old[1], "leave")
    assert group.described() == ("CONSUMER", 2)

    back = [group.start("back-1", strategy)]
    assert group.described() == ("CONSUMER", 3)
    group.stop(new[0], "leave")
    back.append(group.start("back-2", strategy))
    group.stop(new[1], "crash")
    assert group.described() == ("CLASSIC", 2)
    for member in group.members:
        member.commit()
    newest = {
        partition: max(offset for each, offset in group.sent if each == partition)
        for partition in range(PARTITIONS)
    }
    assert group.committed() == {partition: offset + 1 for partition, offset in newest.items()}
    group.stop(back[0], "leave")
    group.members[0].leave()


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_static_member_comes_back_in_the_other_protocol(group: Rolling, strategy: str) -> None:
    member = group.start("old-1", strategy, "i1")
    group.start("old-2", strategy, "i2")
    for name, with_strategy, kind in (
        ("new-1", "consumer", "CONSUMER"),
        ("back-1", strategy, "CLASSIC"),
        ("again-1", "consumer", "CONSUMER"),
    ):
        group.members.remove(member)
        member.leave()
        member = group.start(name, with_strategy, "i1")
        assert group.described() == (kind, 2)
