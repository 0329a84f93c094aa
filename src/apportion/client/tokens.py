"""Tokens for OAUTHBEARER: from an OAuth server, or from a function of the user's.

A client has one token for all its connections, and obtains the next one when four fifths of its
lifetime are over.
"""

import base64
import json
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPSHandler, Request

from apportion.client.tls import tls_context
from apportion.drive.fetching import NotFetched, fetched, opener_of
from apportion.errors import Code, Refused, Unanswerable
from apportion.readable import shortened
from apportion.security.client_security import (
    BearerToken,
    ClientCredentials,
    TlsSettings,
    TokenFunction,
)
from apportion.security.names import LOCAL_HOSTS

TIMEOUT_S = 10.0
MOST_ANSWER_BYTES = 1 << 20
USED_SHARE = 0.8
"""The part of a token's lifetime after which the next one is obtained."""


class TokenSource:
    """The tokens of one client. Thread-safe."""

    def __init__(self, source: ClientCredentials | TokenFunction) -> None:
        """Obtain nothing yet. Raises ValueError for a function or file that cannot be loaded."""
        self._lock = threading.Lock()
        self._source = source
        self._token: BearerToken | None = None
        self._good_until_s = 0.0
        if isinstance(source, TokenFunction):
            self._function = _loaded(source.function)
        else:
            context = tls_context(TlsSettings(trusted=source.trusted))
            self._opener = opener_of(HTTPSHandler(context=context))

    def token(self) -> BearerToken:
        """Return a token that is good.

        Raises Refused where the OAuth server or the function gives none, Unanswerable where the
        server does not answer.
        """
        # One at a time: all connections of a client want a token when it starts.
        with self._lock:
            if self._token is None or time.time() >= self._good_until_s:
                self._token = self._obtained()
                expires_at_s = self._token.expires_at_s
                now_s = time.time()
                self._good_until_s = (
                    now_s if expires_at_s is None else now_s + (expires_at_s - now_s) * USED_SHARE
                )
            return self._token

    def _obtained(self) -> BearerToken:
        if isinstance(self._source, ClientCredentials):
            return self._of_server(self._source)
        name = _name(self._source.function)
        try:
            answer = self._function(self._source.config)
        # The user's own, whatever it is; not its text, which may have a secret.
        except Exception as error:
            why = f"the token function {name} raised {type(error).__name__}"
            raise Refused(Code.SASL_AUTHENTICATION_FAILED, why) from None
        match answer:
            case str(text):
                return BearerToken(text)
            case (str(text), int() | float() as expires_at_s):
                return BearerToken(text, expires_at_s)
            # As confluent-kafka's oauth_cb returns it, with the principal, which the token has.
            case (str(text), int() | float() as expires_at_s, _, Mapping() as extensions):
                return BearerToken(text, expires_at_s, {**extensions})
        raise Refused(
            Code.SASL_AUTHENTICATION_FAILED,
            f"the token function {name} must return a token, or (token, expiry in seconds since "
            f"1970), not a {type(answer).__name__}",
        )

    def _of_server(self, asked: ClientCredentials) -> BearerToken:
        """Ask the OAuth server for a token (RFC 6749, section 4.4.2)."""
        fields = {"grant_type": "client_credentials"}
        if asked.scope:
            fields["scope"] = asked.scope
        # No such error may have the secret in it.
        pair = f"{asked.client_id}:{asked.client_secret}".encode(errors="replace")
        request = Request(
            asked.token_url,
            urlencode(fields).encode(),
            {
                "Authorization": f"Basic {base64.b64encode(pair).decode()}",
                "Accept": "application/json",
            },
        )
        try:
            answer = fetched(self._opener, request, TIMEOUT_S, MOST_ANSWER_BYTES)
        except NotFetched as problem:
            if problem.status:
                raise _refusal(asked, problem.status) from None
            if problem.certificate_fault:
                why = f"no TLS with the token server {_host(asked)}: {problem.certificate_fault}"
                raise Refused(Code.SSL_HANDSHAKE_FAILED, why) from None
            why = f"the token server {_host(asked)} does not answer: {problem.error_name}"
            raise Unanswerable(why) from None
        return _parsed(asked, answer)


def _refusal(asked: ClientCredentials, status: int) -> Refused:
    """Return the error of a server that gives no token; not its words, which may repeat ours."""
    return Refused(
        Code.SASL_AUTHENTICATION_FAILED,
        f"the token server {_host(asked)} gives no token to client {asked.client_id!r}: HTTP "
        f"status {status}; see that the client's id, its secret and the scope are right",
    )


def _parsed(asked: ClientCredentials, answer: bytes) -> BearerToken:
    """Return the token in a server's answer. Raises Refused."""
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        said = None
    match said:
        case {"access_token": str(text)}:
            lifetime_s = said.get("expires_in")
            is_known = isinstance(lifetime_s, int | float)
            expires_at_s = time.time() + lifetime_s if is_known else None
            return BearerToken(text, expires_at_s, dict(asked.extensions))
    why = f"the token server {_host(asked)} gives an answer without an access_token"
    raise Refused(Code.SASL_AUTHENTICATION_FAILED, why)


def _host(asked: ClientCredentials) -> str:
    """Return the server's address without path and query, which may have secrets."""
    return shortened(urlsplit(asked.token_url).netloc.rpartition("@")[2], 100)


def _name(function: Any) -> str:
    return function if isinstance(function, str) else getattr(function, "__name__", "")


def _loaded(function: Any) -> Any:
    """Return the function that is named "module:function". Raises ValueError."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    try:
        loaded = getattr(import_module(module), name)
    # Whatever the module raises while it is imported.
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"the token function {function} cannot be loaded: {why}") from None
    if not callable(loaded):
        raise ValueError(f"the token function {function} is no function")
    return loaded


def url_fault_or_none(url: str) -> str | None:
    """Return what is wrong with the address of a token server; None if it can be used."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must be an address such as https://login.example.com/oauth2/token"
    # The secret would be readable on the way.
    if parts.scheme == "http" and parts.hostname not in LOCAL_HOSTS:
        return "must begin with https://, as the client's secret is sent there"
    return None
