"""What our broker advertises, beside what a real Kafka does: every API that we have, and every one
that we lack.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from apportion.client.connection import BrokerConnection
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.table import SERVED_APIS
from tests.kafka.own_apis import OWN_KEYS

FEATURES = {"group.version": (0, 1)}
"""What we advertise of Kafka's features: consumer groups (KIP-848). Clients look at this one
alone.
"""


def advertised(bootstrap: str, version: int) -> Any:
    """The answer to ApiVersions."""
    host, _, port = bootstrap.rpartition(":")
    connection = BrokerConnection(host, int(port), "versions", 30_000)
    try:
        hello = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        return connection.call(hello, timeout_ms=30_000, version=version)
    finally:
        connection.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """Where our broker listens."""
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("version", range(5))
def test_every_api_that_we_have_is_offered_in_the_versions_of_a_real_kafka(
    kafka: RealKafka, ours: str, version: int
) -> None:
    our, their = (
        {
            each.api_key: (each.min_version, each.max_version)
            for each in advertised(bootstrap, version).api_keys
        }
        for bootstrap in (ours, kafka.bootstrap)
    )
    assert our.keys() == SERVED_APIS.keys()
    assert {
        SERVED_APIS[key].name: (span, their.get(key))
        for key, span in our.items()
        if span != their.get(key) and key not in OWN_KEYS
    } == {}


def test_the_features_that_we_advertise_have_the_levels_of_a_real_kafka(
    kafka: RealKafka, ours: str
) -> None:
    our, their = (advertised(bootstrap, 4) for bootstrap in (ours, kafka.bootstrap))
    for answer, keeps in ((our, lambda name: True), (their, FEATURES.__contains__)):
        supported = {
            each.name: (each.min_version, each.max_version)
            for each in answer.supported_features
            if keeps(each.name)
        }
        finalized = {
            each.name: each.max_version_level
            for each in answer.finalized_features
            if keeps(each.name)
        }
        assert (supported, finalized) == (FEATURES, {"group.version": 1})
