"""`apportion groups` shows what a running broker knows."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from tests.cli.groups_on_a_broker import broker_with_groups, join


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the groups `g` and `h`."""
    with broker_with_groups() as bootstrap:
        yield bootstrap


def test_names_are_shown_as_they_are_and_the_terminal_obeys_none(bootstrap: str) -> None:
    odd = "[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    cluster = Cluster(bootstrap, client_id=odd)
    join(cluster, odd, "m")
    listed = CliRunner().invoke(app, ["groups", "list", "--bootstrap", bootstrap])
    described = CliRunner().invoke(app, ["groups", "describe", odd, "--bootstrap", bootstrap])
    refused = CliRunner().invoke(app, ["groups", "describe", odd + "er", "--bootstrap", bootstrap])
    leave = ConsumerGroupHeartbeatRequest(group_id=odd, member_id="m", member_epoch=-1)
    assert cluster.call(leave, coordinator=odd).error_code == Code.NONE
    assert (
        cluster.call(DeleteGroupsRequest(groups_names=(odd,)), coordinator=odd)
        .results[0]
        .error_code
        == Code.NONE
    )
    cluster.close()
    name = r"[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    assert sum(name in line for line in listed.stdout.splitlines()) == 1
    # the group, and its client
    assert [name in line for line in described.stdout.splitlines() if "odd" in line] == [True, True]
    assert name in refused.stderr
