"""The assignors for aiokafka: they know the generation, and what all members said."""

import asyncio
from typing import Any

import pytest
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from apportion.adapters.aiokafka import AIOKafkaConsumer, AiokafkaCooperativeSticky, AiokafkaSticky
from apportion.assign.by_name import Subscription, TopicParts
from apportion.client.cluster import Cluster as Admin
from apportion.member.assignors.serde import decode_subscription, encode_subscription
from apportion.server.embedded import EmbeddedBroker
from tests.adapters.rounds import PARTITIONS, TOPIC, Cluster, Coordinator, moved


class Group:
    """Members by name, each an assignor with the coordinator of its consumer."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.members: dict[
            str, tuple[AiokafkaCooperativeSticky | AiokafkaSticky | type[Any], Coordinator]
        ] = {}
        self.generation = 0

    def member(
        self, name: str
    ) -> tuple[AiokafkaCooperativeSticky | AiokafkaSticky | type[Any], Coordinator]:
        if name not in self.members:
            coordinator = Coordinator()
            if issubclass(self.kind, StickyPartitionAssignor):
                assignor = type(name, (self.kind,), {})  # its memory is the class's
            else:
                assignor = self.kind()
                assignor.bind(coordinator)
            self.members[name] = (assignor, coordinator)
        return self.members[name]

    def round(self, *names: str) -> dict[str, list[int]]:
        """One generation of these members, led by the first. What each has then."""
        self.generation += 1
        blobs = {}
        for name in names:
            subscription = self.member(name)[0].metadata([TOPIC])
            blobs[name] = subscription if isinstance(subscription, bytes) else subscription.encode()
        leader = self.member(names[0])[0]
        if hasattr(leader, "set_members"):
            leader.set_members([(name, None, blob) for name, blob in blobs.items()])
        read = {name: ConsumerProtocolMemberMetadata.decode(blob) for name, blob in blobs.items()}
        given = leader.assign(Cluster(), read)
        for name in names:
            assignor, coordinator = self.member(name)
            coordinator.generation = self.generation
            assignor.on_assignment(given[name])
        return {name: sorted(each.partition for each in given[name].partitions()) for name in names}


def after_the_return_of_a_stale_member(
    kind: type[Any],
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """a had everything, fell out, and comes back when b and c have shared it: what b and c had, and
    what all get.
    """
    group = Group(kind)
    group.round("a")
    group.round("b")
    before = group.round("b", "c")
    after = group.round("a", "b", "c")
    assert sorted(number for numbers in after.values() for number in numbers) == list(
        range(PARTITIONS)
    )
    return before, after


def test_a_member_that_comes_back_with_an_old_claim_takes_its_share_and_no_more() -> None:
    assert moved(*after_the_return_of_a_stale_member(AiokafkaSticky)) == 1


def test_with_the_clients_own_assignor_the_old_claim_counts_as_much_as_the_new_ones() -> None:
    assert moved(*after_the_return_of_a_stale_member(StickyPartitionAssignor)) > 1


def test_in_a_cooperative_group_a_partition_comes_to_its_new_owner_a_round_later() -> None:
    group = Group(AiokafkaCooperativeSticky)
    assert group.round("a") == {"a": [0, 1, 2, 3]}
    first = group.round("a", "b")
    assert (len(first["a"]), first["b"], group.member("a")[1].rejoins) == (2, [], 1)
    assert group.round("a", "b")["b"] == [
        number for number in range(PARTITIONS) if number not in first["a"]
    ]


def test_a_member_that_lost_its_place_claims_nothing() -> None:
    group = Group(AiokafkaCooperativeSticky)
    group.round("a")
    assignor, coordinator = group.member("a")
    coordinator.generation = -1
    subscription = decode_subscription(assignor.metadata([TOPIC]))
    assert (subscription.owned, subscription.generation) == ((), -1)


def test_a_leader_keeps_from_others_what_a_member_of_another_client_owns() -> None:
    group = Group(AiokafkaCooperativeSticky)
    leader = group.member("a")[0]
    java = encode_subscription(Subscription((TOPIC,), None, (TopicParts(TOPIC, (0, 1, 2, 3)),), 7))
    mine = leader.metadata([TOPIC])
    leader.set_members([("a", None, mine), ("java", None, java)])
    read = {
        "a": ConsumerProtocolMemberMetadata.decode(mine),
        "java": ConsumerProtocolMemberMetadata.decode(java),
    }
    given = leader.assign(Cluster(), read)
    assert (given["a"].partitions(), len(given["java"].partitions())) == ([], 2)


def test_a_member_whose_subscription_cannot_be_read_gets_nothing_and_the_others_all() -> None:
    leader = Group(AiokafkaSticky).member("a")[0]
    mine = leader.metadata([TOPIC])
    leader.set_members([("a", None, mine), ("b", "static", b"\0\1\0")])
    given = leader.assign(Cluster(), dict.fromkeys("ab"))
    assert {member: len(each.partitions()) for member, each in given.items()} == {
        "a": PARTITIONS,
        "b": 0,
    }


@pytest.mark.parametrize("kind", [AiokafkaSticky, AiokafkaCooperativeSticky])
def test_an_assignor_without_its_consumer_says_which_class_to_use(kind: type[Any]) -> None:
    with pytest.raises(
        RuntimeError, match=r"use the AIOKafkaConsumer of apportion\.adapters\.aiokafka"
    ):
        kind().metadata([TOPIC])


def test_two_consumers_cannot_share_an_assignor() -> None:
    assignor = AiokafkaSticky()
    assignor.bind(Coordinator())
    with pytest.raises(ValueError, match="give each consumer its own"):
        assignor.bind(Coordinator())


def test_two_consumers_may_name_the_class_and_each_has_an_object_of_its_own() -> None:
    async def shares(bootstrap: str) -> frozenset[Any]:
        """What two consumers of one group have when they have shared the topic."""
        # aiokafka's own is a class as well, and stays one
        strategy = [AiokafkaCooperativeSticky, RoundRobinPartitionAssignor]
        options = {
            "bootstrap_servers": bootstrap,
            "group_id": "g",
            "heartbeat_interval_ms": 100,
            "partition_assignment_strategy": strategy,
        }
        async with (
            AIOKafkaConsumer(TOPIC, **options) as one,
            AIOKafkaConsumer(TOPIC, **options) as other,
        ):
            while (len(one.assignment()), len(other.assignment())) != (2, 2):
                await asyncio.gather(one.getmany(timeout_ms=50), other.getmany(timeout_ms=50))
            result: frozenset[Any] = one.assignment() | other.assignment()
            return result

    with EmbeddedBroker() as broker:
        admin = Admin(broker.bootstrap)
        admin.create_topic(TOPIC, PARTITIONS)
        admin.close()
        shared = asyncio.run(asyncio.wait_for(shares(broker.bootstrap), 30))
    assert sorted(each.partition for each in shared) == list(range(PARTITIONS))
