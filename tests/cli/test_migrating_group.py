"""`apportion groups describe` of a group that changes its protocol meanwhile."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from tests.cli.migrating_broker import MigratingBroker


def start_broker(listed: str, is_classic: bool) -> Iterator[MigratingBroker]:
    broker = MigratingBroker(listed, is_classic)
    broker.start()
    yield broker
    broker.close()


@pytest.fixture(params=["Consumer", "classic"])
def migrating_broker(request: pytest.FixtureRequest) -> Iterator[MigratingBroker]:
    """A broker whose group migrates around the moment in which it is listed."""
    yield from start_broker(listed=request.param, is_classic=False)


@pytest.fixture
def classic_broker() -> Iterator[MigratingBroker]:
    """A broker whose group is classic until it was described."""
    yield from start_broker(listed="Consumer", is_classic=True)


def test_a_classic_group_is_shown_as_described_if_it_migrates_thereafter(
    classic_broker: MigratingBroker,
) -> None:
    described = CliRunner().invoke(
        app, ["groups", "describe", "g", "--json", "--bootstrap", classic_broker.bootstrap]
    )
    assert json.loads(described.stdout) == {
        "group": "g",
        "type": "classic",
        "state": "Stable",
        "members": [],
        "sinks": [],
        "lag": None,
        "offsets": [],
    }
    assert classic_broker.descriptions == 1


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
        "assignment_epoch": 0,
        "assignor": "uniform",
        "members": [
            {
                "member": "m",
                "instance": None,
                "client": "c",
                "host": "/h",
                "protocol": "consumer",
                "rack": None,
                "epoch": 7,
                "owns": {},
                "target": {},
                "topics": [],
                "regex": None,
            }
        ],
        "sinks": [],
        "lag": None,
        "offsets": [],
    }
    assert migrating_broker.descriptions == 2
