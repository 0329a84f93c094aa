"""Fixtures of tests whose module has a broker in this process, with short sessions."""

from collections.abc import Iterator

import pytest

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from tests.spark.batch_members import SHORT_SESSIONS


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(**SHORT_SESSIONS) as running:
        yield running.bootstrap


@pytest.fixture
def clients(bootstrap: str) -> Iterator[Cluster]:
    cluster = Cluster(bootstrap)
    yield cluster
    cluster.close()
