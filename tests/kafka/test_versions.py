"""What our broker advertises, beside what a real Kafka does: every API that we have, and every one
that we lack, with its reason in `wire/absent_apis.py` or `own_apis.py`; and the error codes.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from apportion.client.connection import BrokerConnection, Misrouted
from apportion.client.network_client import NetworkClient
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.wire.absent_apis import ABSENT_APIS
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.table import SERVED_APIS
from tests.kafka.java import tool_output
from tests.kafka.own_apis import OWN_KEYS

FEATURES = {"group.version": (0, 1)}
"""What we advertise of Kafka's features: consumer groups (KIP-848). Clients look at this one
alone.
"""


KNOWS_NO_BROKER: tuple[str | None, int] = (None, -1)


def advertised(
    bootstrap: str, version: int, wanted: tuple[str | None, int] = KNOWS_NO_BROKER
) -> Any:
    """The answer to ApiVersions. wanted: the cluster id and the node id that the client expects."""
    host, _, port = bootstrap.rpartition(":")
    connection = BrokerConnection(host, int(port), "versions", 30_000)
    cluster_id, node_id = wanted
    try:
        hello = ApiVersionsRequest(
            client_software_name="test",
            client_software_version="1",
            cluster_id=cluster_id,
            node_id=node_id,
        )
        return connection.call(hello, timeout_ms=30_000, version=version)
    finally:
        connection.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """Where our broker listens."""
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("version", range(6))
def test_apis_and_their_versions_differ_from_a_real_kafka_by_the_rows_of_a_table(
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
        key: (our.get(key), their.get(key))
        for key in our.keys() | their.keys()
        if our.get(key) != their.get(key)
    } == {key: (None, their.get(key)) for key in ABSENT_APIS} | {
        key: (our.get(key), None) for key in OWN_KEYS
    }


@pytest.mark.parametrize("node_id", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("cluster", [None, "", "this", "another"])
def test_a_client_of_another_broker_is_answered_as_by_a_real_kafka(
    kafka: RealKafka, ours: str, cluster: str | None, node_id: int
) -> None:
    """KIP-1242."""
    answers = []
    for bootstrap in (ours, kafka.bootstrap):
        with closing(NetworkClient(bootstrap)) as client:
            own = client.call(MetadataRequest(topics=())).cluster_id
        wanted = (own if cluster == "this" else cluster, node_id)
        answer = advertised(bootstrap, 5, wanted)
        has_epoch = answer.finalized_features_epoch >= 0
        answers.append((answer.error_code, bool(answer.api_keys), has_epoch))
        assert advertised(bootstrap, 4, wanted).error_code == Code.NONE
    assert answers[0] == answers[1]


def test_our_client_begins_again_where_a_real_kafka_is_not_the_broker_that_it_wants(
    kafka: RealKafka,
) -> None:
    with closing(NetworkClient(kafka.bootstrap)) as client:
        [node] = client.nodes()
        right = (client.metadata.cluster_id, client.metadata.nodes)
    with closing(NetworkClient(kafka.bootstrap)) as client:
        client.metadata.cluster_id, client.metadata.nodes = "another", right[1]
        with pytest.raises(Misrouted, match=f"is not broker {node} of the cluster another, whose"):
            client.call(MetadataRequest(topics=()), node=node)
        assert client.nodes() == right[1]
        client.call(MetadataRequest(topics=()), node=node)
        assert client.metadata.cluster_id == right[0]


def test_error_codes_are_those_of_a_real_kafka(jars: Path) -> None:
    printed = tool_output(jars, str(Path(__file__).with_name("ErrorCodes.java")))
    assert [line.split() for line in printed.splitlines()] == [
        [str(int(code)), code.name, str(code.retriable).lower()]
        for code in sorted(Code)
        if Code.of(code) is code
    ]


def test_the_features_that_we_advertise_have_the_levels_of_a_real_kafka(
    kafka: RealKafka, ours: str
) -> None:
    our, their = (advertised(bootstrap, 5) for bootstrap in (ours, kafka.bootstrap))
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
