"""Our member, session, cluster and Consumer on a real Apache Kafka: every scenario of
tests/client/scenarios.py and consumer_scenarios.py.
"""

import pytest

from apportion.testing.kafka import RealKafka
from tests.client.adopting import adopt

adopt(globals(), "scenarios", "consumer_scenarios")


@pytest.fixture
def bootstrap(kafka: RealKafka) -> str:
    """Where the real Kafka listens."""
    return kafka.bootstrap
