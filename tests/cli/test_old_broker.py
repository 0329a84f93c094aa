"""`apportion groups` on a broker that has older versions of the APIs."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from tests.cli.old_broker import OldBroker


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A broker without KIP-848."""
    broker = OldBroker()
    broker.start()
    yield broker.bootstrap
    broker.close()


def test_groups_of_an_old_broker_are_listed_and_described(bootstrap: str) -> None:
    at = ["--bootstrap", bootstrap]
    listed = CliRunner().invoke(app, ["groups", "list", "--type", "classic", *at])
    described = CliRunner().invoke(app, ["groups", "describe", "g", *at])
    assert (listed.exit_code, described.exit_code) == (0, 0)
    assert listed.output == ("GROUP  TYPE  STATE  MEMBERS  LAG\ng      ?     Empty        0    -\n")
    assert described.output == (
        "g: a classic group, Empty, 0 members\n"
        "No offset is committed, and no member owns a partition: do the topics exist?\n"
    )
