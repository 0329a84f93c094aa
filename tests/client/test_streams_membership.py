"""A membership that also has tasks: its snapshots, and what it reports to the group."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.client.streams_membership import StreamsMembership
from apportion.member.classic.requests import ClassicSettings
from apportion.member.cluster_queries.groups import DescribeGroupsQuery
from apportion.member.membership import MembershipState
from apportion.member.streams.assignor import StreamsSettings
from apportion.member.streams.machine import StreamsEvent, StreamsMember, TaskOffsetSums
from apportion.server.embedded import EmbeddedBroker
from apportion.streams.metadata.codec import decode_subscription
from apportion.streams.metadata.model import TaskId
from apportion.streams.topology_parser import topology_of
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import decode

TOPOLOGY = topology_of([{"sources": ["lines"]}])
TASKS = [TaskId(0, 0), TaskId(0, 1)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.create_topic("lines", 2)
        yield cluster
        cluster.close()


@pytest.fixture
def membership_of(cluster: Cluster) -> Iterator[Callable[[str], StreamsMembership[StreamsEvent]]]:
    """`membership_of(group)`: the membership of a process that is alone in the group."""
    started = []

    def start(group: str) -> StreamsMembership[StreamsEvent]:
        settings = ClassicSettings(group, (), session_timeout_ms=6_000, heartbeat_interval_ms=100)
        member = StreamsMember(StreamsSettings(topology=TOPOLOGY, process_id=b"p" * 16), settings)
        started.append(StreamsMembership(cluster, member, ("lines",)))
        started[-1].start()
        return started[-1]

    yield start
    for each in started:
        each.leave()


def test_a_snapshot_has_the_tasks_whose_partitions_are_in_its_target(
    cluster: Cluster, membership_of: Callable[[str], StreamsMembership[StreamsEvent]]
) -> None:
    membership = membership_of("with-tasks")
    assert [*membership.snapshot().tasks.active] == []
    membership.wait(lambda view: bool(view.target), 20_000)
    snapshot = membership.snapshot()
    assert [*snapshot.tasks.active] == TASKS
    assert snapshot.view.target is not None
    assigned = cluster.resolve_names(snapshot.view.target)
    assert [each.topic_partition for each in assigned] == [
        partition for partitions in snapshot.tasks.active.values() for partition in partitions
    ]


def test_reported_offset_sums_are_in_the_subscription_of_the_next_join(
    cluster: Cluster, membership_of: Callable[[str], StreamsMembership[StreamsEvent]]
) -> None:
    membership = membership_of("with-state")
    view = membership.wait(lambda view: bool(view.target), 20_000)
    membership.adopt(view.incarnation, view.target or ())
    membership.report(TaskOffsetSums({TASKS[0]: 7}, view.incarnation))
    # A change of the subscription makes the member join again.
    cluster.create_topic("words", 1)
    membership.subscribe(("lines", "words"))
    membership.wait(
        lambda now: now.epoch > view.epoch and now.state is MembershipState.STABLE, 20_000
    )
    assert subscribed_sums(cluster, "with-state") == {TASKS[0]: 7}


def subscribed_sums(cluster: Cluster, group: str) -> dict[TaskId, int]:
    """The task offset sums in the subscription of the group's one member."""
    description: Any = cluster.ask_coordinator(DescribeGroupsQuery(group))
    _, subscription = decode(ConsumerProtocolSubscription, description.members[0].member_metadata)
    info: Any = decode_subscription(bytes(subscription.user_data or b""))
    return dict(info.offset_sums)
