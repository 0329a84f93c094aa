"""Our member, session, cluster and Consumer on a real Apache Kafka: every scenario of
tests/client/scenarios.py, consumer_scenarios.py and expression_scenarios.py.
"""

import pytest

from apportion.testing.kafka import RealKafka
from tests.client.shared_scenarios import adopt

adopt(globals(), "scenarios", "consumer_scenarios", "expression_scenarios")


@pytest.fixture
def bootstrap(kafka: RealKafka) -> str:
    """Where the real Kafka listens."""
    return kafka.bootstrap
