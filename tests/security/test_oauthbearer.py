"""OAUTHBEARER: the examples of RFC 7628, extensions, and tokens that are not accepted."""

from typing import Any

import pytest

from apportion.security import oauthbearer
from apportion.security.exchange import REJECTED, Authenticated, AuthenticationFailed
from apportion.security.oauthbearer import TokenAccepted, TokenCheck, TokenRejected

# RFC 7628, section 4
TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
FIRST = (
    b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01"
    b"auth=Bearer " + TOKEN.encode() + b"\x01\x01"
)
SCOPE, CONFIGURATION = (
    "example_scope",
    "https://example.com/.well-known/openid-configuration",
)
ERROR = (
    b'{"status": "invalid_token", "scope": "example_scope", '
    b'"openid-configuration": "https://example.com/.well-known/openid-configuration"}'
)
ACCEPTED = TokenAccepted("user@example.com", 1_700_000_000_000)
REJECTED_TOKEN = TokenRejected("it is expired", "invalid_token", SCOPE, CONFIGURATION)


def test_the_server_takes_the_first_message_of_rfc_7628() -> None:
    server = oauthbearer.server()
    extensions = {"host": "server.example.com", "port": "143"}
    assert server.step(FIRST) == TokenCheck(TOKEN, extensions)
    assert server.step(ACCEPTED) == Authenticated(
        "user@example.com", b"", 1_700_000_000_000, extensions
    )


def test_the_server_refuses_a_token_in_the_steps_of_rfc_7628() -> None:
    server = oauthbearer.server()
    server.step(FIRST)
    assert server.step(REJECTED_TOKEN) == ERROR
    assert server.step(b"\x01") == AuthenticationFailed("it is expired", ERROR.decode())


def test_an_error_about_a_token_need_not_name_a_scope() -> None:
    server = oauthbearer.server()
    server.step(FIRST)
    assert server.step(TokenRejected("it is expired")) == b'{"status": "invalid_token"}'
    assert server.step(b"go on") == AuthenticationFailed(
        "the client does not acknowledge the error about its token", REJECTED
    )


def test_a_client_sends_its_token_and_its_extensions() -> None:
    client = oauthbearer.client(TOKEN, {"logicalCluster": "lkc-1", "identityPoolId": "pool 2"})
    assert (
        client.step(b"")
        == (
            f"n,,\x01auth=Bearer {TOKEN}\x01logicalCluster=lkc-1\x01identityPoolId=pool 2\x01\x01"
        ).encode()
    )
    assert client.step(b"") == Authenticated()


def test_a_client_acknowledges_the_error_and_says_why_it_failed() -> None:
    client = oauthbearer.client(TOKEN, {})
    client.step(b"")
    assert client.step(ERROR) == b"\x01"
    assert client.step(b"") == AuthenticationFailed(
        "the server does not accept the token: 'invalid_token', for the scope 'example_scope'"
    )


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (b"\xff", "it gives no reason that can be shown"),
        (b"no", "it gives no reason that can be shown"),
        (b"[" * 8_000, "it gives no reason that can be shown"),
        (b"7" * 8_000, "it gives no reason that can be shown"),
        (b'{"scope": "x"}', "it gives no reason that can be shown"),
        (b'{"status": {"a": 1}}', "it gives no reason that can be shown"),
        (b'{"status": "no", "scope": 7}', "'no'"),
        (b'{"status": "a\\nb"}', r"'a\nb'"),
        (
            f'{{"status": "bad token {TOKEN}"}}'.encode(),
            "it gives no reason that can be shown",
        ),
    ],
)
def test_a_client_acknowledges_whatever_the_error_is(error: bytes, why: str) -> None:
    client = oauthbearer.client(TOKEN, {})
    client.step(b"")
    assert client.step(error) == b"\x01"
    assert client.step(b"") == AuthenticationFailed(f"the server does not accept the token: {why}")


def test_a_client_does_not_read_an_error_of_any_length() -> None:
    for length, end in (
        (8_192, b"\x01"),
        (8_193, AuthenticationFailed("the peer sent 8193 bytes, and 8192 are allowed")),
    ):
        client = oauthbearer.client(TOKEN, {})
        client.step(b"")
        assert client.step(b"x" * length) == end


def test_both_sides_agree_about_a_token_and_its_extensions() -> None:
    client, server = oauthbearer.client(TOKEN, {"a": "1", "b": ""}), oauthbearer.server()
    first: Any = client.step(b"")
    assert server.step(first) == TokenCheck(TOKEN, {"a": "1", "b": ""})
    end = server.step(TokenAccepted("alice", 5))
    assert end == Authenticated("alice", b"", 5, {"a": "1", "b": ""})


def test_a_user_acts_as_nobody_else() -> None:
    server = oauthbearer.server()
    server.step(FIRST)
    assert server.step(TokenAccepted("alice", 5)) == AuthenticationFailed(
        "user 'alice' wants to act as 'user@example.com'"
    )


def test_a_client_waits_while_its_token_is_checked() -> None:
    server = oauthbearer.server()
    server.step(FIRST)
    assert server.step(FIRST) == AuthenticationFailed(
        "the client goes on while its token is being checked"
    )


NO_TOKEN = "the client's first message has no bearer token"
NO_MESSAGE = "the client's first message is not one of OAUTHBEARER"


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"", "the client's first message has no GS2 header"),
        (b"\x01", "the client's first message has no GS2 header"),
        (b"n,,", NO_MESSAGE),
        (b"n,,\x01\x01", NO_TOKEN),
        (b"n,,\x01\x01\x01", NO_MESSAGE),
        (b"n,,\x01auth=Bearer t\x01", NO_MESSAGE),
        (b"n,,\x01auth=Bearer t\x01\x01x", NO_MESSAGE),
        (b"n,,\x01auth=Bearer t\x01a-b=1\x01\x01", NO_MESSAGE),
        (b"n,,\x01auth=Bearer t\x01a=\xc3\xa9\x01\x01", NO_MESSAGE),
        (
            b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
            "the client's first message says something twice",
        ),
        (b"n,,\x01auth=Basic t\x01\x01", NO_TOKEN),
        (b"n,,\x01auth=Bearer\x01\x01", NO_TOKEN),
        (b"n,,\x01auth=Bearer t u\x01\x01", NO_TOKEN),
        (b"n,,\x01auth=Bearer t,u\x01\x01", NO_TOKEN),
        (b"n,,\x01" + b"a" * 65_536, "the peer sent 65540 bytes, and 65536 are allowed"),
    ],
)
def test_a_first_message_that_is_wrong_fails_with_the_reason(first: bytes, why: str) -> None:
    assert oauthbearer.server().step(first) == AuthenticationFailed(why, REJECTED)


def test_the_word_bearer_may_be_written_in_any_case() -> None:
    assert oauthbearer.server().step(b"n,,\x01auth=bEARER  t\x01\x01") == TokenCheck("t", {})


@pytest.mark.parametrize("token", ["", "a b", "a\x01b", "a,b", "é", "=", "a=b", "a\n"])
def test_a_token_that_cannot_be_sent_is_refused(token: str) -> None:
    with pytest.raises(ValueError) as caught:
        oauthbearer.client(token, {})
    assert str(caught.value) == "a token has letters, digits and the characters -._~+/ only, then ="


@pytest.mark.parametrize(
    ("key", "value"), [("auth", "x"), ("", "x"), ("a-b", "x"), ("a", "\x01"), ("a", "é")]
)
def test_an_extension_that_cannot_be_sent_is_refused(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^the extension '{key}' must have a name of letters"):
        oauthbearer.client(TOKEN, {key: value})


def test_no_repr_shows_a_token() -> None:
    assert repr(TokenCheck(TOKEN, {"a": "1"})) == "TokenCheck(extensions={'a': '1'})"
