"""A broker with two groups, and what `apportion groups` prints of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client import changes


def join(cluster: Cluster, group_id: str, member_id: str) -> None:
    """That member of the consumer protocol has joined, and wants `t`."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    assert cluster.call(request, coordinator=group_id).error_code == Code.NONE


@contextmanager
def broker_with_groups() -> Iterator[str]:
    """A broker with a member of `g` that owns `t` and has read one of its two records, and a group
    `h` of offsets alone.
    """
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap, client_id="reader")
        (partition,) = partitions_of(cluster.create_topic("t", 1))
        records = [(None, b"a", ()), (None, b"b", ())]
        cluster.produce(partition, encode_batch(records, timestamp_ms=1))
        changes.commit(cluster, "h", {partition: 2})
        changes.commit(cluster, "g", {partition: 1})
        join(cluster, "g", "member-1")
        cluster.close()
        yield broker.bootstrap


def run(*arguments: str) -> tuple[int, list[list[str]]]:
    """Exit code, and the lines of the command's output as words."""
    result = CliRunner().invoke(app, ["groups", *arguments])
    return result.exit_code, [line.split() for line in result.output.splitlines()]
