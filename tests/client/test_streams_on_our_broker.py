"""Python processes in a Streams group, on our own broker: every scenario of
streams_scenarios.py.
"""

from collections.abc import Iterator

import pytest

from apportion.server.embedded import EmbeddedBroker
from tests.client.shared_scenarios import adopt

adopt(globals(), "streams_scenarios")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Where a broker of ours listens."""
    with EmbeddedBroker() as running:
        yield running.bootstrap
