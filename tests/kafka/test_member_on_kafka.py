"""Our member, session, cluster and Consumer on a real Apache Kafka: every scenario of
tests/client/scenarios.py, consumer_scenarios.py and expression_scenarios.py.
"""

from contextlib import closing

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.wire.messages.list_groups import ListedGroup
from tests.client.shared_scenarios import adopt

adopt(globals(), "scenarios", "consumer_scenarios", "expression_scenarios")


def test_a_member_with_assignors_of_its_own_ends_before_it_joins(bootstrap: str) -> None:
    with (
        apportion.Consumer(
            bootstrap, "own-assignors", topics=["t"], group_local_assignors="lag-weighted"
        ) as consumer,
        pytest.raises(Refused) as refusal,
    ):
        while True:
            consumer.poll(100)
    assert refusal.value.code is Code.UNSUPPORTED_VERSION
    assert refusal.value.why == (
        "this broker has no client-side assignors, as no Apache Kafka has: use "
        "group.remote.assignor, or partition.assignment.strategy with group.protocol=classic"
    )
    assert "own-assignors" not in [each.group_id for each in groups_of(bootstrap)]


def groups_of(bootstrap: str) -> list[ListedGroup]:
    with closing(Cluster(bootstrap)) as cluster:
        return cluster.list_groups()
