"""PLAIN: the examples of RFC 4616, right and wrong passwords, and what is no message of it."""

import pytest

from apportion.security import plain
from apportion.security.exchange import REJECTED, Authenticated, AuthenticationFailed

PASSWORDS = {"tim": "tanstaaftanstaaf", "Kurt": "xipj3plmq", "zoë": "pässwörd"}


def test_the_client_says_what_rfc_4616_has_it_say() -> None:
    exchange = plain.client("tim", "tanstaaftanstaaf")
    assert exchange.step(b"") == b"\0tim\0tanstaaftanstaaf"
    assert exchange.step(b"") == Authenticated()


def test_the_server_knows_the_user_of_rfc_4616() -> None:
    server = plain.server(PASSWORDS)
    assert server.step(b"\0tim\0tanstaaftanstaaf") == Authenticated("tim")


def test_a_user_may_act_as_himself_and_as_nobody_else() -> None:
    # kafka-python names the user twice. The example of RFC 4616 has Kurt act as Ursel.
    assert plain.server(PASSWORDS).step(b"Kurt\0Kurt\0xipj3plmq") == Authenticated("Kurt")
    assert plain.server(PASSWORDS).step(b"Ursel\0Kurt\0xipj3plmq") == AuthenticationFailed(
        "user 'Kurt' wants to act as 'Ursel'"
    )


def test_names_and_passwords_beyond_ascii_are_the_same_on_both_sides() -> None:
    first = plain.client("zoë", "pässwörd").step(b"")
    assert isinstance(first, bytes)
    assert plain.server(PASSWORDS).step(first) == Authenticated("zoë")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\0tim\0wrong", "user 'tim' gave a wrong password"),
        (b"\0nobody\0tanstaaftanstaaf", "user 'nobody' is unknown"),
        (b"\0two\nlines\0p", r"user 'two\nlines' is unknown"),
        (b"", "a message of PLAIN has three parts, and the client's 1"),
        (b"tim\0secret", "a message of PLAIN has three parts, and the client's 2"),
        (b"\0tim\0a\0b", "a message of PLAIN has three parts, and the client's 4"),
        (b"\0\0secret", "the client's message of PLAIN has no user or no password"),
        (b"\0tim\0", "the client's message of PLAIN has no user or no password"),
        (b"\0tim\0\xff", "the peer's message is not UTF-8"),
        (b"\0tim\0" + b"p" * 65_536, "the peer sent 65541 bytes, and 65536 are allowed"),
    ],
)
def test_a_message_that_is_wrong_fails_with_the_reason(message: bytes, why: str) -> None:
    assert plain.server(PASSWORDS).step(message) == AuthenticationFailed(why, REJECTED)


def test_a_message_of_the_greatest_length_is_looked_at() -> None:
    message = b"\0tim\0" + b"p" * (65_536 - 5)
    assert plain.server(PASSWORDS).step(message) == AuthenticationFailed(
        "user 'tim' gave a wrong password"
    )


def test_a_long_name_is_shortened_in_the_reason() -> None:
    end = plain.server(PASSWORDS).step(b"\0" + b"n" * 81 + b"\0p")
    assert end == AuthenticationFailed(f"user '{'n' * 38}...{'n' * 38}' is unknown")
    end = plain.server(PASSWORDS).step(b"\0" + b"n" * 80 + b"\0p")
    assert end == AuthenticationFailed(f"user '{'n' * 80}' is unknown")


def test_a_user_without_a_password_in_the_table_is_no_unknown_user() -> None:
    # Nobody can log in with the password that stands for none.
    assert plain.server({"tim": ""}).step(b"\0tim\0x") == AuthenticationFailed(
        "user 'tim' gave a wrong password"
    )


def test_a_server_that_answers_with_bytes_has_not_agreed() -> None:
    exchange = plain.client("tim", "tanstaaftanstaaf")
    exchange.step(b"")
    assert exchange.step(b"more") == AuthenticationFailed(
        "the server answers PLAIN with bytes, where it may only agree"
    )


@pytest.mark.parametrize(
    ("name", "password", "sentence"),
    [
        ("", "secret", "a name of a user must have"),
        ("tim", "", "a password must have"),
        ("tim", "sec\0ret", "a password must have"),
        ("tim", "sec\ud800ret", "a password must have"),
        ("t\udfffim", "secret", "a name of a user must have"),
        ("t\0im", "secret", "a name of a user must have"),
    ],
)
def test_a_name_or_password_that_cannot_be_sent_is_refused(
    name: str, password: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"^{sentence} characters, and neither NUL nor") as caught:
        plain.client(name, password)
    assert "sec" not in str(caught.value)
