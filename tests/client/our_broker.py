"""A broker of ours for the modules that play the scenarios on it: `adopt` takes it into each."""

from collections.abc import Iterator

import pytest

from apportion.server.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker of ours; members of the consumer protocol have sessions of 5 s there."""
    with EmbeddedBroker(
        group_consumer_session_timeout_ms=5_000, group_consumer_heartbeat_interval_ms=500
    ) as running:
        yield running
