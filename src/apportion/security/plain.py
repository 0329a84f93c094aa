"""SASL PLAIN (RFC 4616): user and password in one message, for connections that TLS protects."""

import hashlib
from collections.abc import Mapping
from hmac import compare_digest
from typing import Never

from apportion.security.exchange import (
    Authenticated,
    AuthenticationFailed,
    Exchange,
    Mechanism,
    UnacceptableBytes,
    as_text,
    require_text,
    shown,
)

NAME = "PLAIN"
MOST_BYTES = 65_536
"""Passwords may be tokens, which are long; RFC 4616 wants 255 bytes of each part at the least."""


def client(name: str, password: str) -> Exchange[Never, Never]:
    """Return the client's side of PLAIN, for this user.

    Errors: ValueError for a name or password that the message cannot have; the text has neither.
    """
    require_text(name, "name of a user")
    require_text(password, "password")
    return Exchange(_client(name, password), MOST_BYTES)


def server(passwords: Mapping[str, str]) -> Exchange[Never, Never]:
    """Return the server's side of PLAIN.

    passwords: of all users, by their names.
    """
    return Exchange(_server(passwords), MOST_BYTES)


def _client(name: str, password: str) -> Mechanism[Never, Never]:
    yield b""
    answer = yield f"\0{name}\0{password}".encode()
    if answer:
        raise UnacceptableBytes("the server answers PLAIN with bytes, where it may only agree")
    return Authenticated()


def _server(passwords: Mapping[str, str]) -> Mechanism[Never, Never]:
    parts = as_text((yield b"")).split("\0")
    if len(parts) != 3:
        raise UnacceptableBytes(
            f"a message of PLAIN has three parts, and the client's {len(parts)}"
        )
    authorization, name, password = parts
    if not name or not password:
        raise UnacceptableBytes("the client's message of PLAIN has no user or no password")
    user = f"user {shown(name)}"
    expected = passwords.get(name)
    # Compared for an unknown user, too, and as digests, which have one length.
    is_right = compare_digest(_digest(password), _digest(expected or ""))
    if expected is None:
        return AuthenticationFailed(f"{user} is unknown")
    if not is_right:
        return AuthenticationFailed(f"{user} gave a wrong password")
    if authorization not in ("", name):
        return AuthenticationFailed(f"{user} wants to act as {shown(authorization)}")
    return Authenticated(name)


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
