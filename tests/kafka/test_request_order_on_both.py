"""Requests in flight together on one connection, on a real Kafka and on our broker: each shows what
those before it did, and a Fetch that waits holds them up.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from tests.kafka.test_unacknowledged_on_both import led
from tests.server.peer import Peer
from tests.server.test_request_order import (
    LOG,
    RECORD,
    SHOWN,
    WRITES,
    Pair,
    behind_a_fetch,
    stale_and_shown,
)


@pytest.fixture(scope="module", params=["ours", "kafka"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        yield request.getfixturevalue("kafka").bootstrap
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.fixture
def prepared(address: str) -> Callable[[Pair], None]:
    """Makes the topic of a pair, with one record."""

    def prepare(pair: Pair) -> None:
        with closing(Cluster(address)) as cluster:
            led(cluster, f"t{pair.signs['$N']}", 1)

    return prepare


@pytest.mark.parametrize("writing", ["Produce", "Produce without an answer", "DeleteRecords"])
def test_a_log_shows_what_the_request_before_did_on_both(
    address: str, prepared: Callable[[Pair], None], writing: str
) -> None:
    _, write = WRITES[writing]
    seen = stale_and_shown(address, prepared, write, LOG)
    assert seen == (set(), SHOWN[writing])


def test_a_fetch_that_waits_holds_up_a_produce_on_both(
    address: str, prepared: Callable[[Pair], None]
) -> None:
    with Peer(address) as peer:
        pair = Pair(peer)
        prepared(pair)
        assert behind_a_fetch(pair) == [0, 1, len(RECORD)]
