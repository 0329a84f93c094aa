"""The assignors for kafka-python: what a member owns comes with the generation in which it got
it.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import TopicPartition

from apportion.adapters.kafka_python import KafkaPythonCooperativeSticky, KafkaPythonSticky
from apportion.assign.by_name import TopicParts
from apportion.member.assignors.serde import decode_subscription
from apportion.wire.records.consumer_serde import decode_sticky
from tests.adapters.rounds import PARTITIONS, TOPIC, Cluster, Coordinator, moved


class Group:
    """Members by name, each an assignor with the coordinator of its consumer, which joins again
    until nothing is owed.
    """

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.members: dict[str, tuple[Any, Coordinator]] = {}
        self.generation = 0

    def member(self, name: str) -> tuple[Any, Coordinator]:
        if name not in self.members:
            assignor, coordinator = self.kind(), Coordinator()
            if hasattr(assignor, "bind"):
                assignor.bind(coordinator)
            self.members[name] = (assignor, coordinator)
        return self.members[name]

    def round(self, *names: str) -> dict[str, list[int]]:
        """One generation of these members, led by the first. What each has then."""
        self.generation += 1
        rows = []
        for name in names:
            subscription = ConsumerProtocolSubscription.decode(
                self.member(name)[0].metadata([TOPIC]).encode()
            )
            rows.append(
                SimpleNamespace(member_id=name, group_instance_id=None, metadata=subscription)
            )
        answers = self.member(names[0])[0].assign(Cluster(), rows)
        given = {
            name: ConsumerProtocolAssignment.decode(answer.encode())
            for name, answer in answers.items()
        }
        shares = {
            name: sorted(each.partition for each in given[name].partitions()) for name in names
        }
        for name in names:
            assignor, coordinator = self.member(name)
            coordinator.generation = self.generation
            coordinator.assigned = [TopicPartition(TOPIC, number) for number in shares[name]]
            assignor.on_assignment(given[name], self.generation)
        return shares

    def settle(self, *names: str) -> dict[str, list[int]]:
        """As many rounds as it takes until every partition has an owner."""
        for _ in range(5):
            shares = self.round(*names)
            if sum(map(len, shares.values())) == PARTITIONS:
                return shares
        raise AssertionError(f"after five rounds only {shares} are given")


def after_the_return_of_a_stale_member(
    kind: type[Any],
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """a had everything, was cut off, and comes back when b and c have shared it: what b and c had,
    and what all get.
    """
    group = Group(kind)
    group.settle("a")
    group.settle("b")
    before = group.settle("b", "c")
    return before, group.settle("a", "b", "c")


def test_a_member_that_comes_back_with_an_old_claim_takes_its_share_and_no_more() -> None:
    assert moved(*after_the_return_of_a_stale_member(KafkaPythonCooperativeSticky)) == 1


def test_a_sticky_member_keeps_what_it_can_and_an_old_claim_counts_for_nothing() -> None:
    assert moved(*after_the_return_of_a_stale_member(KafkaPythonSticky)) == 1


def test_a_sticky_member_says_in_its_user_data_what_it_had_until_it_loses_its_place() -> None:
    group = Group(KafkaPythonSticky)
    group.round("a", "b")
    shares = group.round("a", "b")
    assignor, coordinator = group.member("a")
    assert assignor.supported_protocols() == [RebalanceProtocol.EAGER]
    user_data = decode_sticky(decode_subscription(assignor.metadata([TOPIC]).encode()).user_data)
    had = [(part.topic, tuple(part.partitions)) for part in user_data.topic_partitions]
    assert (had, user_data.generation) == ([(TOPIC, tuple(shares["a"]))], 2)
    coordinator.generation = -1
    user_data = decode_sticky(decode_subscription(assignor.metadata([TOPIC]).encode()).user_data)
    assert (user_data.topic_partitions, user_data.generation) == ((), -1)


def test_with_the_clients_own_assignor_the_old_claim_counts_as_much_as_the_new_ones() -> None:
    assert moved(*after_the_return_of_a_stale_member(CooperativeStickyAssignor)) > 1


def test_the_subscription_says_what_is_owned_and_since_when() -> None:
    group = Group(KafkaPythonCooperativeSticky)
    group.round("a")
    subscription = decode_subscription(group.member("a")[0].metadata([TOPIC]).encode())
    assert (subscription.owned, subscription.generation) == ((TopicParts(TOPIC, (0, 1, 2, 3)),), 1)


def test_the_clients_own_assignor_does_not_say_since_when() -> None:
    group = Group(CooperativeStickyAssignor)
    group.round("a")
    subscription = decode_subscription(group.member("a")[0].metadata([TOPIC]).encode())
    assert (subscription.owned, subscription.generation) == ((TopicParts(TOPIC, (0, 1, 2, 3)),), -1)


def test_a_member_that_lost_its_place_claims_nothing() -> None:
    group = Group(KafkaPythonCooperativeSticky)
    group.round("a")
    assignor, coordinator = group.member("a")
    coordinator.generation = -1
    subscription = decode_subscription(assignor.metadata([TOPIC]).encode())
    assert (subscription.owned, subscription.generation) == ((), -1)


@pytest.mark.parametrize("kind", [KafkaPythonSticky, KafkaPythonCooperativeSticky])
def test_an_assignor_without_its_consumer_says_which_class_to_use(kind: type[Any]) -> None:
    with pytest.raises(
        RuntimeError, match=r"use the KafkaConsumer of apportion\.adapters\.kafka_python"
    ):
        kind().metadata([TOPIC])
