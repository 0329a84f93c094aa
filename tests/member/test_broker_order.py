"""A request that any broker can answer: who is asked, for how long, and in which order."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.broker_order import BrokerOrder, HostAndPort, SendToAddress
from apportion.member.time_limits import ReadClock
from apportion.rules import run_rule

A, B, C = (("a", 1), ("b", 1), ("c", 1))
LIMIT_MS = 9_000


class Client:
    """A client of three brokers, of which some hang and some refuse connections at once.

    asked: each request with its timeout.
    """

    def __init__(self) -> None:
        self.order = BrokerOrder()
        self.hanging: set[HostAndPort] = set()
        self.down: set[HostAndPort] = set()
        self.now_ms = 1_000
        self.asked: list[tuple[HostAndPort, int]] = []

    def send(self, *addresses: HostAndPort, limit_ms: int = LIMIT_MS) -> Any:
        """Return who has answered."""
        self.asked.clear()
        return run_rule(self.order.send_to_any(addresses or (A, B, C), limit_ms), self._answer)

    def _answer(self, query: Any) -> Any:
        if isinstance(query, ReadClock):
            return self.now_ms
        assert isinstance(query, SendToAddress)
        self.asked.append((query.address, query.timeout_ms))
        if query.address in self.hanging | self.down:
            self.now_ms += query.timeout_ms if query.address in self.hanging else 0
            self.order.record_failure(query.address)
            raise Unanswerable(f"{query.address[0]} is away")
        self.order.record_success(query.address)
        return query.address


@pytest.fixture
def client() -> Client:
    return Client()


def test_the_first_broker_is_asked_alone_while_it_answers(client: Client) -> None:
    assert [client.send(), client.send()] == [A, A]
    assert client.asked == [(A, 3_000)]


def test_one_broker_has_all_the_time(client: Client) -> None:
    assert client.send(B) == B
    assert client.send(B, B) == B
    assert client.asked == [(B, LIMIT_MS)]


def test_a_broker_that_hangs_leaves_time_for_the_others(client: Client) -> None:
    client.hanging = {A, B}
    assert client.send() == C
    assert client.asked == [(A, 3_000), (B, 3_000), (C, 3_000)]


def test_a_broker_that_is_down_leaves_its_time_to_the_others(client: Client) -> None:
    client.down = {A, B}
    assert client.send() == C
    assert client.asked == [(A, 3_000), (B, 4_500), (C, LIMIT_MS)]


def test_brokers_that_have_failed_are_asked_last_and_the_latest_at_the_end(client: Client) -> None:
    client.hanging = {A}
    client.send()
    assert client.send() == B
    assert client.asked == [(B, 3_000)]
    client.hanging = {B}
    client.send()
    assert client.asked == [(B, 3_000), (C, 3_000)]
    client.hanging = {C}
    client.send()
    assert client.asked == [(C, 3_000), (A, 3_000)]


def test_a_broker_that_fails_again_goes_to_the_end_again(client: Client) -> None:
    for address in (A, B, C, A):
        client.order.record_failure(address)
    assert client.send() == B


def test_a_broker_that_has_answered_another_request_is_asked_in_its_turn(client: Client) -> None:
    client.hanging = {A}
    client.send()
    client.order.record_success(A)
    client.hanging.clear()
    assert client.send() == A


def test_the_last_error_is_raised_if_no_broker_answers(client: Client) -> None:
    client.hanging = {A, B, C}
    with pytest.raises(Unanswerable, match="c is away"):
        client.send()
    assert client.now_ms == 1_000 + LIMIT_MS


def test_an_error_of_the_response_is_raised_at_once(client: Client) -> None:
    refused = Refused(Code.SASL_AUTHENTICATION_FAILED)

    def refuse(query: Any) -> Any:
        if isinstance(query, SendToAddress):
            raise refused
        return 0

    with pytest.raises(Refused) as raised:
        run_rule(client.order.send_to_any([A, B], LIMIT_MS), refuse)
    assert raised.value is refused


def test_no_timeout_is_nothing(client: Client) -> None:
    client.hanging = {A, B}
    client.send(limit_ms=1)
    assert client.asked == [(A, 1), (B, 1), (C, 1)]


def test_the_failure_of_a_broker_that_left_the_cluster_is_forgotten(client: Client) -> None:
    client.order.record_failure(A)
    client.send(B, C)
    assert client.send() == A
