"""`apportion groups describe` of a group that changes its protocol meanwhile."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from tests.cli.migrating_broker import MigratingBroker


@pytest.fixture(params=[("Consumer", True), ("Consumer", False), ("classic", False)])
def migrating_broker(request: pytest.FixtureRequest) -> Iterator[MigratingBroker]:
    """A broker whose group migrates around the moment in which it is listed."""
    broker = MigratingBroker(*request.param)
    broker.start()
    yield broker
    broker.close()


def test_a_group_that_migrates_meanwhile_is_asked_for_again(
    migrating_broker: MigratingBroker,
) -> None:
    described = CliRunner().invoke(
        app, ["groups", "describe", "g", "--json", "--bootstrap", migrating_broker.bootstrap]
    )
    assert json.loads(described.stdout) == {
        "group": "g",
        "type": "consumer",
        "state": "Stable",
        "epoch": 7,
        "assignor": "uniform",
        "members": [
            {
                "member": "m",
                "instance": None,
                "client": "c",
                "host": "/h",
                "protocol": "consumer",
                "epoch": 7,
                "owns": {},
            }
        ],
        "sinks": [],
        "offsets": [],
    }
    assert migrating_broker.descriptions == 2
