"""The worked example of docs/assignors.md in a group: it shares out by weight, whoever leads."""

import time
from collections.abc import Iterator

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.client.consumer import Consumer
from apportion.server.embedded import EmbeddedBroker
from tests.member.worked_example import weighted

PATIENT_S = 60


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.create_topic("eight", 8)
        cluster.close()
        yield broker.bootstrap


def settle(*consumers: Consumer) -> list[int]:
    """All poll until every partition is owned; how many each has."""
    deadline = time.monotonic() + PATIENT_S
    while time.monotonic() < deadline:
        for consumer in consumers:
            consumer.poll(20)
        owned = [partition for consumer in consumers for partition in consumer.assignment]
        if len(owned) == len(dict.fromkeys(owned)) == 8 and all(
            consumer.assignment for consumer in consumers
        ):
            return [len(consumer.assignment) for consumer in consumers]
    raise AssertionError([consumer.assignment for consumer in consumers])


@pytest.mark.parametrize("weights", [(1, 3), (3, 1)])
def test_the_assignor_of_the_page_shares_out_by_weight_in_a_group(
    bootstrap: str, weights: tuple[int, int]
) -> None:
    kind, group = weighted(), f"by-weight-{weights[0]}"

    def joining(weight: int) -> Consumer:
        classic = {
            "group_protocol": "classic",
            "partition_assignment_strategy": kind(weight),
            "heartbeat_interval_ms": 100,
        }
        return apportion.Consumer(bootstrap, group, topics=["eight"], **classic)

    first, second = weights
    with joining(first) as leader:
        assert settle(leader) == [8]
        with joining(second) as follower:
            assert settle(leader, follower) == [2 * first, 2 * second]
        assert settle(leader) == [8]
