"""One connection to a broker: whose errors are the connection's, and what an error leaves."""

import re
import signal
import socket
from collections.abc import Iterator
from types import FrameType

import pytest

from apportion.client.connection import BrokerConnection, Disconnected
from apportion.errors import Code, Refused
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

A_MINUTE_MS = 60_000
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=A_MINUTE_MS,
    rebalance_timeout_ms=A_MINUTE_MS,
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range"),),
)
"""A request that waits, in version 3, until the first generation begins."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=A_MINUTE_MS) as running:
        yield running


@pytest.fixture
def connection(broker: EmbeddedBroker) -> Iterator[BrokerConnection]:
    host, _, port = broker.bootstrap.rpartition(":")
    opened = BrokerConnection(host, int(port), "test", A_MINUTE_MS)
    opened.call(FindCoordinatorRequest(key="g"), timeout_ms=A_MINUTE_MS, version=3)
    yield opened
    opened.close()


@pytest.mark.parametrize("error", [TimeoutError, OSError, ConnectionResetError, KeyboardInterrupt])
def test_a_signal_handlers_error_goes_to_the_caller_and_closes_the_connection(
    connection: BrokerConnection, error: type[BaseException]
) -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise error("time is up")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(error, match="time is up") as raised:
            connection.call(JOIN, timeout_ms=A_MINUTE_MS, version=3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not isinstance(raised.value, Disconnected)
    # Its response may be half read.
    with pytest.raises(Disconnected):
        connection.call(JOIN, timeout_ms=A_MINUTE_MS, version=3)


def test_a_broker_that_does_not_answer_in_time_is_named(connection: BrokerConnection) -> None:
    why = f"the broker at {connection.address} did not answer JoinGroup within 50 ms"
    with pytest.raises(Disconnected, match=why):
        connection.call(JOIN, timeout_ms=50, version=3)


def test_an_address_where_nobody_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Disconnected, match=f"no connection to the broker at 127.0.0.1:{port}: "):
        BrokerConnection("127.0.0.1", port, "test", A_MINUTE_MS)


def test_a_field_that_the_brokers_version_does_not_have_is_refused_in_words(
    connection: BrokerConnection,
) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_regex="flights-.*"
    )
    with pytest.raises(Refused) as refused:
        connection.call(request, timeout_ms=A_MINUTE_MS, version=0)
    assert (refused.value.code, refused.value.why) == (
        Code.UNSUPPORTED_VERSION,
        f"the broker at {connection.address} is too old for this request: "
        "ConsumerGroupHeartbeatRequest v0: subscribed_topic_regex: this version has no such field",
    )
    # The connection is still good.
    connection.call(FindCoordinatorRequest(key="g"), timeout_ms=A_MINUTE_MS, version=3)


def test_a_number_that_does_not_fit_its_field_is_the_fault_of_the_request(
    connection: BrokerConnection,
) -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=2**63)
    request = ListOffsetsRequest(topics=(ListOffsetsTopic(name="t", partitions=(partition,)),))
    with pytest.raises(Refused) as refused:
        connection.call(request, timeout_ms=A_MINUTE_MS)
    assert refused.value.code is Code.INVALID_REQUEST
    assert re.fullmatch(
        r"a request cannot be sent to a broker: ListOffsetsRequest v\d+: topics\.partitions\..*: "
        "a value does not fit",
        refused.value.why,
    )


@pytest.mark.parametrize("text", ["caf\udce9", "x" * 100 + "\udce9"])
def test_a_text_that_is_no_unicode_is_refused_in_words(
    connection: BrokerConnection, text: str
) -> None:
    shown = r"caf\udce9" if len(text) == 4 else "x" * 38 + "..." + "x" * 32 + r"\udce9"
    why = f"'{shown}' cannot be sent to a broker: it is not UTF-8"
    with pytest.raises(Refused) as refused:
        connection.call(FindCoordinatorRequest(key=text), timeout_ms=A_MINUTE_MS, version=3)
    assert (refused.value.code, refused.value.why) == (Code.INVALID_REQUEST, why)
    connection.call(FindCoordinatorRequest(key="g"), timeout_ms=A_MINUTE_MS, version=3)
    host, _, port = connection.address.rpartition(":")
    with pytest.raises(Refused) as refused:
        BrokerConnection(host, int(port), text, A_MINUTE_MS)
    assert (refused.value.code, refused.value.why) == (Code.INVALID_REQUEST, why)
