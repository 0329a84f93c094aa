"""Our member, session, cluster and Consumer on our own broker: every scenario of scenarios.py,
consumer_scenarios.py and expression_scenarios.py.
"""

from collections.abc import Iterator

import pytest

from apportion.server.embedded import EmbeddedBroker
from tests.client.shared_scenarios import adopt

adopt(globals(), "scenarios", "consumer_scenarios", "expression_scenarios")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker of ours with sessions of 5 s."""
    with EmbeddedBroker(
        group_consumer_session_timeout_ms=5_000, group_consumer_heartbeat_interval_ms=500
    ) as running:
        yield running


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    """Where our broker listens."""
    return broker.bootstrap
