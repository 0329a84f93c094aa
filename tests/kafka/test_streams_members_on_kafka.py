"""Python processes in a Streams group, on a real Apache Kafka: every scenario of
tests/client/streams_scenarios.py.
"""

import pytest

from apportion.testing.kafka import RealKafka
from tests.client.shared_scenarios import adopt

adopt(globals(), "streams_scenarios")


@pytest.fixture
def bootstrap(kafka: RealKafka) -> str:
    """Where the real Kafka listens."""
    return kafka.bootstrap
