"""Tokens of a client: from an OAuth server, or from a function of the user's."""

import json
import time
from typing import Any

import pytest

from apportion.client.tokens import TokenSource
from apportion.errors import Code, Refused, Unanswerable
from apportion.security.client_security import BearerToken, ClientCredentials, TokenFunction
from tests.web_server import WebServer, web_server

SECRET = "the-secret-of-a-client"
# "etl:" and the secret, in base64
BASIC = "Basic ZXRsOnRoZS1zZWNyZXQtb2YtYS1jbGllbnQ="


def credentials(server: WebServer) -> ClientCredentials:
    return ClientCredentials(
        f"{server.address}/token", "etl", SECRET, "kafka read", (("pool", "p1"),)
    )


def test_a_token_of_an_oauth_server_is_kept_for_most_of_its_life() -> None:
    answer = json.dumps({"access_token": "t0k3n", "token_type": "Bearer", "expires_in": 600})
    with web_server(200, answer.encode()) as server:
        source = TokenSource(credentials(server))
        before = time.time()
        token = source.token()
        assert source.token() is token
        assert (token.text, token.extensions) == ("t0k3n", {"pool": "p1"})
        assert token.expires_at_s is not None
        assert 600 <= token.expires_at_s - before < 700
        assert server.requests == [
            {"body": "grant_type=client_credentials&scope=kafka+read", "authorization": BASIC}
        ]


def test_a_token_that_ends_at_once_is_obtained_anew() -> None:
    answer = json.dumps({"access_token": "t0k3n", "expires_in": 0}).encode()
    with web_server(200, answer) as server:
        source = TokenSource(credentials(server))
        assert source.token() is not source.token()
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (
            401,
            SECRET,
            "gives no token to client 'etl': HTTP status 401; see that the client's id, its "
            "secret and the scope are right",
        ),
        (
            302,
            "/elsewhere",
            "gives no token to client 'etl': HTTP status 302; see that the client's id, its "
            "secret and the scope are right",
        ),
        (200, SECRET, "gives an answer without an access_token"),
        (200, '{"access_token": 7}', "gives an answer without an access_token"),
        (200, "[" * 100_000, "gives an answer without an access_token"),
    ],
)
def test_a_server_that_gives_no_token_is_named_without_the_secret(
    status: int, answer: str, why: str
) -> None:
    with (
        web_server(status, answer.encode()) as server,
        pytest.raises(Refused) as refused,
    ):
        TokenSource(credentials(server)).token()
    host = server.address.removeprefix("http://")
    assert (refused.value.code, refused.value.why) == (
        Code.SASL_AUTHENTICATION_FAILED,
        f"the token server {host} {why}",
    )
    # A redirection is not followed: the secret goes to the server that the user named.
    assert len(server.requests) == 1


def test_a_server_that_does_not_answer_may_do_so_later() -> None:
    with web_server(200, b"") as server:
        pass
    with pytest.raises(Unanswerable, match=r"^the token server 127.0.0.1:\d+ does not answer: "):
        TokenSource(credentials(server)).token()


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ("t0k3n", BearerToken("t0k3n")),
        (("t0k3n", 5.5), BearerToken("t0k3n", 5.5)),
        (("t0k3n", 5, "alice", {"pool": "p1"}), BearerToken("t0k3n", 5, {"pool": "p1"})),
    ],
)
def test_a_function_returns_a_token_as_that_of_confluent_kafka(
    answer: Any, token: BearerToken
) -> None:
    asked = []

    def function(config: str) -> Any:
        asked.append(config)
        return answer

    assert TokenSource(TokenFunction(function, "of-etl")).token() == token
    assert asked == ["of-etl"]


def test_a_function_can_be_named() -> None:
    source = TokenSource(TokenFunction("builtins:str", "t0k3n"))
    assert source.token() == BearerToken("t0k3n")


@pytest.mark.parametrize("answer", [None, 7, ("t0k3n",), (SECRET, "soon")])
def test_a_function_that_returns_no_token_is_named(answer: Any) -> None:
    def no_token(_config: str) -> Any:
        return answer

    with pytest.raises(Refused) as refused:
        TokenSource(TokenFunction(no_token)).token()
    assert refused.value.why == (
        "the token function no_token must return a token, or (token, expiry in seconds since "
        f"1970), not a {type(answer).__name__}"
    )


def test_an_error_of_a_function_is_shown_without_its_text() -> None:
    def fails(_config: str) -> str:
        raise ValueError(SECRET)

    with pytest.raises(Refused) as refused:
        TokenSource(TokenFunction(fails)).token()
    assert refused.value.why == "the token function fails raised ValueError"
    assert refused.value.__cause__ is None
