"""A member leaves while one of its own requests is still on its way."""

import threading
from contextlib import closing
from typing import Any

from apportion.client.cluster import Cluster
from apportion.member.assignors.builtin import Range
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery, DescribeGroupsQuery
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.sessions import FAST_HEARTBEATS, cluster_with_topic, new_session


class SlowCluster(Cluster):
    """A cluster that is reached by no heartbeat of an admitted member before `released` is set.

    is_slow: set when the first one waits.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.is_slow, self.released = threading.Event(), threading.Event()

    def _send(
        self, address: tuple[str, int], request: Any, timeout_ms: int, version: int | None
    ) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch > 0:
            self.is_slow.set()
            self.released.wait(timeout_ms / 1000)
        return super()._send(address, request, timeout_ms, version)


def test_a_leave_does_not_wait_for_a_slow_heartbeat() -> None:
    with (
        cluster_with_topic(FAST_HEARTBEATS) as cluster,
        closing(SlowCluster(cluster.bootstrap_servers)) as slow,
    ):
        session = new_session(slow)
        session.start()
        assert slow.is_slow.wait(20)
        assert session.leave(3_000)
        assert cluster.ask_coordinator(ConsumerGroupDescribeQuery("g")).members == ()
        slow.released.set()


def test_a_static_member_leaves_for_good_while_its_join_is_held_back() -> None:
    settings: dict[str, Any] = {
        "protocol": "classic",
        "assignors": (Range(),),
        "heartbeat_interval_ms": 100,
    }
    with cluster_with_topic() as cluster:
        first, second = (
            new_session(cluster, instance_id=name, **settings) for name in ("first", "second")
        )
        first.start()
        view = first.wait(lambda view: view.target is not None, 20_000)
        first.adopt(view.incarnation, view.target or ())
        second.start()
        # The join of the second one waits for the first one, which has to revoke its partition.
        assert first.wait(lambda view: view.target == (), 20_000).target == ()
        assert second.leave(3_000, for_good=True)
        group = cluster.ask_coordinator(DescribeGroupsQuery("g"))
        assert group is not None
        assert [each.group_instance_id for each in group.members] == ["first"]
        assert first.leave(3_000, for_good=True)
