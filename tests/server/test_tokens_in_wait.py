"""Tokens of OAUTHBEARER that wait until one of the broker's threads can look at them."""

import queue
import threading
from contextlib import ExitStack

import pytest

from apportion.broker import EmbeddedBroker
from apportion.errors import Code
from apportion.security.oauthbearer import (
    TokenAccepted,
    TokenCheck,
    TokenRejected,
    TokenVerdict,
)
from apportion.server.token_threads import THREADS, TokenThreads
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.peer import Peer
from tests.server.planted import plant
from tests.server.secured import NAME, SETTINGS, Secured, with_token

END_S = 4_000_000_000


class Looks:
    """A check of tokens that has no result before the test allows it."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.taken = threading.Semaphore(0)
        self.may_return = threading.Event()

    def look(self, token: str) -> tuple[str, int]:
        self.tokens.append(token)
        self.taken.release()
        assert self.may_return.wait(60)
        return "alice", END_S


def offer(peer: Peer, token: str) -> None:
    peer.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    peer.answer(SaslHandshakeRequest, 1)
    peer.ask(SaslAuthenticateRequest(auth_bytes=with_token(token)), 2)


def wait_for_connections(secured: Secured, count: int) -> None:
    """Wait until the broker has so many connections beside the one that asks."""
    with Peer(secured.plain) as asking:
        for _ in range(10_000):
            asking.ask(ApiVersionsRequest(), 0)
            asking.answer(ApiVersionsRequest, 0)
            if len(secured.server._connections) == count + 1:
                return
    pytest.fail("closed connections are still counted")


@pytest.mark.parametrize("raised", [ValueError, SystemExit])
def test_a_check_that_raises_rejects_its_token_and_others_are_looked_at(
    raised: type[BaseException],
) -> None:
    def check(asked: TokenCheck) -> TokenVerdict:
        if asked.token == "good":
            return TokenAccepted("alice", END_S)
        raise raised(asked.token)

    threads = TokenThreads(check)
    verdicts: queue.Queue[TokenVerdict] = queue.Queue()
    for _ in range(THREADS):
        threads.begin(TokenCheck("bad", {}), verdicts.put)
        rejected = TokenRejected(f"its check raised {raised.__name__}")
        assert verdicts.get(timeout=10) == rejected
    threads.begin(TokenCheck("good", {}), verdicts.put)
    assert verdicts.get(timeout=10) == TokenAccepted("alice", END_S)
    threads.stop()


def test_tokens_of_closed_connections_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks()
    settings = SETTINGS | {
        "apportion.oauthbearer.unsecured": "false",
        "apportion.authentication.timeout.ms": 60_000,
        f"{NAME}.oauthbearer.sasl.server.callback.handler.class": plant(monkeypatch, looks.look),
    }
    with EmbeddedBroker(**settings) as broker, ExitStack() as stack:
        secured = Secured(broker)
        first = [stack.enter_context(Peer(secured.sasl)) for _ in range(THREADS)]
        for number, peer in enumerate(first):
            offer(peer, f"first-{number}")
            assert looks.taken.acquire(timeout=10)
        for number in range(50):
            with Peer(secured.sasl) as peer:
                offer(peer, f"closed-{number}")
        wait_for_connections(secured, THREADS)
        last = stack.enter_context(Peer(secured.sasl))
        offer(last, "last")
        looks.may_return.set()
        for peer in (*first, last):
            answer = peer.answer(SaslAuthenticateRequest, 2)[1]
            assert answer.error_code == Code.NONE
    assert looks.tokens == [*(f"first-{number}" for number in range(THREADS)), "last"]
