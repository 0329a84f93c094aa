"""An application of Kafka Streams and its source topic, for the modules that `adopt` them."""

from uuid import uuid4

import pytest

from apportion.client.cluster import Cluster
from apportion.topics import Topic


@pytest.fixture
def application() -> str:
    return f"application-{uuid4().hex[:8]}"


@pytest.fixture
def lines(cluster: Cluster, application: str) -> Topic:
    return cluster.create_topic(f"{application}-lines", 4)
