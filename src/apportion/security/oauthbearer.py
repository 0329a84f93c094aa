"""SASL OAUTHBEARER (RFC 7628, KIP-255): the client shows a token that somebody else has issued.

Whether a token is good needs keys and a clock, so the server's side asks its driver: `step` returns
a `TokenCheck`, and takes the verdict. A bad token is answered with an error as JSON; the client
acknowledges it with the byte 1, and only then the exchange fails.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Never

from apportion.security.exchange import (
    Authenticated,
    AuthenticationFailed,
    Exchange,
    Mechanism,
    UnacceptableBytes,
    as_text,
    shown,
)
from apportion.security.gs2 import parsed_header

NAME = "OAUTHBEARER"
MOST_BYTES = 65_536
"""Tokens that list the groups of a user take some kilobytes."""
MOST_ERROR_BYTES = 8_192
SEPARATOR = "\x01"
ACKNOWLEDGED = b"\x01"
"""The client's answer to an error."""
AUTH = "auth"
"""The key of the token; no extension may have it."""
TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
KEY, VALUE = "[A-Za-z]+", r"[\x21-\x7e \t\r\n]*"
EXTENSION = re.compile(f"(?!{AUTH}=){KEY}={VALUE}")
PAIRS = re.compile(f"{SEPARATOR}((?:{KEY}={VALUE}{SEPARATOR})*){SEPARATOR}")
"""What follows the header of the client's first message."""


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """The question to the server's driver whether this token is good, and whose it is."""

    token: str = field(repr=False)
    extensions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TokenAccepted:
    """The token is good.

    expires_at_ms: on the wall clock.
    """

    name: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class TokenRejected:
    """The token is not good.

    why: for the log, without the token. status, scope, configuration: for the client; the scope
    that a token needs, and the address of the issuer's OpenID configuration.
    """

    why: str
    status: str = "invalid_token"
    scope: str | None = None
    configuration: str | None = None


TokenVerdict = TokenAccepted | TokenRejected


def client(token: str, extensions: Mapping[str, str]) -> Exchange[Never, Never]:
    """Return the client's side of OAUTHBEARER.

    Errors: ValueError for a token or an extension that the message cannot have; its text has
    neither the token nor a value.
    """
    if not TOKEN.fullmatch(token):
        raise ValueError("a token has letters, digits and the characters -._~+/ only, then =")
    for key, value in extensions.items():
        if not EXTENSION.fullmatch(f"{key}={value}"):
            raise ValueError(
                f"the extension {shown(key)} must have a name of letters, which is not {AUTH!r}, "
                "and a value of ASCII characters"
            )
    return Exchange(_client(token, extensions), MOST_ERROR_BYTES)


def server() -> Exchange[TokenCheck, TokenVerdict]:
    """Return the server's side of OAUTHBEARER."""
    return Exchange(_server(), MOST_BYTES)


def _client(token: str, extensions: Mapping[str, str]) -> Mechanism[Never, Never]:
    yield b""
    pairs = {AUTH: f"Bearer {token}", **extensions}
    parts = ["n,,", *(f"{key}={value}" for key, value in pairs.items()), "", ""]
    answer = yield SEPARATOR.join(parts).encode()
    if not answer:
        return Authenticated()
    why = f"the server does not accept the token: {_reason(answer, token)}"
    yield ACKNOWLEDGED
    return AuthenticationFailed(why)


def _server() -> Mechanism[TokenCheck, TokenVerdict]:
    first = yield b""
    assert isinstance(first, bytes), "no question has been asked yet"
    header = parsed_header(as_text(first))
    pairs = _pairs(header.rest)
    token = _token(pairs.pop(AUTH, ""))
    verdict = yield TokenCheck(token, pairs)
    if isinstance(verdict, bytes):
        raise UnacceptableBytes("the client goes on while its token is being checked")
    if isinstance(verdict, TokenRejected):
        error = _error(verdict)
        if (yield error.encode()) != ACKNOWLEDGED:
            raise UnacceptableBytes("the client does not acknowledge the error about its token")
        # As in Kafka, the client gets the error once more, in SaslAuthenticate.
        return AuthenticationFailed(verdict.why, error)
    if header.authorization not in ("", verdict.name):
        return AuthenticationFailed(
            f"user {shown(verdict.name)} wants to act as {shown(header.authorization)}"
        )
    return Authenticated(verdict.name, b"", verdict.expires_at_ms, pairs)


def _pairs(text: str) -> dict[str, str]:
    """Return the keys and values after the header of a first message. Errors: UnacceptableBytes."""
    matched = PAIRS.fullmatch(text)
    if matched is None:
        raise UnacceptableBytes("the client's first message is not one of OAUTHBEARER")
    split = [part.partition("=") for part in matched[1].split(SEPARATOR)[:-1]]
    pairs = {key: value for key, _, value in split}
    if len(pairs) < len(split):
        raise UnacceptableBytes("the client's first message says something twice")
    return pairs


def _token(auth: str) -> str:
    """Return the token of a first message. Errors: UnacceptableBytes."""
    scheme, _, token = auth.partition(" ")
    token = token.lstrip(" ")
    if scheme.lower() != "bearer" or not TOKEN.fullmatch(token):
        raise UnacceptableBytes("the client's first message has no bearer token")
    return token


def _error(rejected: TokenRejected) -> str:
    """Return the server's error as JSON (RFC 7628, section 3.2.2)."""
    said = {
        "status": rejected.status,
        "scope": rejected.scope,
        "openid-configuration": rejected.configuration,
    }
    return json.dumps({key: value for key, value in said.items() if value is not None})


def _reason(answer: bytes, token: str) -> str:
    """Return the status and the scope of a server's error, for the client's log."""
    try:
        reason = rejection_or_none(as_text(answer), token)
    except UnacceptableBytes:
        reason = None
    return reason or "it gives no reason that can be shown"


def rejection_or_none(error: str, token: str) -> str | None:
    """Return the status and the scope of a server's error as words; None for what is none.

    error: as JSON (RFC 7628, section 3.2.2), which may come in SaslAuthenticate, too. One that has
    the token in it is not shown.
    """
    try:
        said = json.loads(error)
    # RecursionError: arrays in arrays, a byte for each.
    except (ValueError, RecursionError):
        return None
    status, scope = (
        (said.get("status"), said.get("scope")) if isinstance(said, dict) else (None, None)
    )
    if not isinstance(status, str):
        return None
    if token in f"{status} {scope}":
        return None
    return shown(status) + (f", for the scope {shown(scope)}" if isinstance(scope, str) else "")
