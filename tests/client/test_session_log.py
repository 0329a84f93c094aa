"""The log lines of a group member's session."""

import re
from contextlib import closing

import pytest

from apportion.client.cluster import Cluster
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.sessions import FAST_HEARTBEATS, cluster_with_topic, new_session


def test_each_loss_of_a_membership_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with (
        cluster_with_topic(FAST_HEARTBEATS) as cluster,
        closing(Cluster(cluster.bootstrap_servers)) as its_own,
    ):
        session = new_session(its_own)
        session.start()
        epochs = [0]
        while epochs[-1] < 12:
            view = session.wait(lambda view: view.epoch > epochs[-1], 20_000)
            epochs.append(view.epoch)
            leaves = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=view.member_id, member_epoch=-1
            )
            cluster.call(leaves, coordinator="g")
        assert session.wait(lambda view: view.epoch > epochs[-1], 20_000).epoch > epochs[-1]
        assert session.leave()
    lost = [re.search(r"lost its place at epoch (\d+)", line) for line in caplog.messages]
    assert [int(found[1]) for found in lost if found] == epochs[1:]
