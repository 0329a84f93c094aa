"""Members that others wrote name an assignor of the broker's operator."""

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from apportion.assignors import Assignor, Given, Subscription, TopicShape, by_topic
from apportion.broker import EmbeddedBroker

PATIENCE_S = 30


class ByWeight(Assignor):
    """Partition 0 weighs as much as all others."""

    name = "by-weight"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        first, *others = sorted(members)
        shares: dict[str, list[tuple[str, int]]] = {member: [] for member in members}
        for topic, shape in sorted(cluster.items()):
            shares[first].append((topic, 0))
            for number in range(1, shape.partitions):
                shares[[*others, first][0]].append((topic, number))
        return {member: Given(by_topic(share)) for member, share in shares.items()}


def consumer(bootstrap: str, assignor: str, errors: list[ck.KafkaError]) -> ck.Consumer:
    """A member of librdkafka that asks for an assignor."""
    return ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "group.protocol": "consumer",
            "group.remote.assignor": assignor,
            "error_cb": errors.append,
        }
    )


def test_two_members_of_librdkafka_are_assigned_by_the_brokers_custom_assignor() -> None:
    errors: list[ck.KafkaError] = []
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(group_consumer_assignors=["uniform", ByWeight]))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(PATIENCE_S)
        members = [
            stack.enter_context(closing(consumer(broker.bootstrap, "by-weight", errors)))
            for _ in range(2)
        ]
        for member in members:
            member.subscribe(["t"])
        owned: list[list[int]] = []
        give_up = time.monotonic() + PATIENCE_S
        while sorted(owned) != [[0], [1, 2, 3]]:
            assert time.monotonic() < give_up, (owned, errors)
            for member in members:
                message = member.poll(0.1)
                assert message is None or message.error() is None, message
            owned = [sorted(each.partition for each in member.assignment()) for member in members]
    assert errors == []
