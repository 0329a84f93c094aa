"""Our classic member, session and Consumer on our own broker: every scenario of scenarios.py and
consumer_scenarios.py, eager and cooperative, and of classic_scenarios.py and static_scenarios.py.
"""

from collections.abc import Iterator

import pytest

from apportion.server.embedded import EmbeddedBroker
from tests.client.shared_scenarios import adopt

adopt(globals(), "scenarios", "consumer_scenarios", "classic_scenarios", "static_scenarios")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker of ours; KIP-848 members have sessions of 5 s there."""
    with EmbeddedBroker(
        group_consumer_session_timeout_ms=5_000, group_consumer_heartbeat_interval_ms=500
    ) as running:
        yield running


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    """Where our broker listens."""
    return broker.bootstrap
