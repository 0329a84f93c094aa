"""The lag that `apportion groups describe` and `apportion streams describe` show is one."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.streams.metadata.model import TaskId
from tests.cli.streams_groups import as_json, assignment, group, subscription


@pytest.fixture(scope="module")
def broker() -> Iterator[SimpleNamespace]:
    """A broker with the topic `t`, to which nobody has written."""
    with EmbeddedBroker() as embedded:
        cluster = Cluster(embedded.bootstrap)
        cluster.create_topic("t", 1)
        yield SimpleNamespace(bootstrap=embedded.bootstrap, clusters={"one": cluster})
        cluster.close()


def describe(broker: SimpleNamespace, group_id: str) -> Any:
    command = ["groups", "describe", group_id, "--json", "--bootstrap", broker.bootstrap]
    return json.loads(CliRunner().invoke(app, command).stdout)


def test_an_empty_partition_without_a_commit_has_no_lag_and_adds_none(
    broker: SimpleNamespace,
) -> None:
    info = assignment((0,), 11, active=(TaskId(0, 0),))
    with group(broker, "fresh", [("one", subscription(11, 11), info)]):
        described, streams = describe(broker, "fresh"), as_json(broker, "fresh")
    owner = described["members"][0]["member"]
    rows = [{"topic": "t", "partition": 0, "committed": None, "end": 0, "lag": None}]
    assert described["offsets"] == [{**rows[0], "owner": owner}]
    (process,) = streams["processes"]
    assert process["active"][0]["partitions"] == rows
    # Nothing is unread, wherever the group begins.
    assert (described["lag"], streams["lag"], process["lag"], process["active"][0]["lag"]) == (
        0,
        0,
        0,
        0,
    )
