"""The driver of a client's security: its TLS context, its tokens, and the answers to the rule.

One for all connections of a client. `member/fresh_connection.py` decides what is sent.
"""

import random
import secrets
import socket
import ssl
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.client.tls import tls_context
from apportion.member.fresh_connection import DrawNonce, ObtainToken
from apportion.security.client_security import PLAINTEXT, ClientSecurity, TokenLogin
from apportion.security.sessions import reauthentication_delay_ms

if TYPE_CHECKING:
    from apportion.client.tokens import TokenSource


NONCE_BYTES = 24
NEVER_S = float("inf")


class ConnectionSecurity:
    """The security of one client's connections."""

    def __init__(self, security: ClientSecurity = PLAINTEXT) -> None:
        """Load certificates, keys and token functions. Raises ValueError for what cannot be."""
        self.settings = security
        self._context = None if security.tls is None else tls_context(security.tls, security.names)
        self._tokens = _token_source_or_none(security.login)

    @property
    def is_encrypted(self) -> bool:
        """Return whether connections are TLS."""
        return self._context is not None

    def trusting_context(self) -> ssl.SSLContext:
        """Return a TLS context that shows what the client's own shows, and verifies nothing.

        Raises ValueError for a file that cannot be read any more.
        """
        assert self.settings.tls is not None, "asked only after a TLS handshake"
        settings = replace(self.settings.tls, checks_certificate=False)
        return tls_context(settings, self.settings.names)

    def encrypted(self, plain: socket.socket, host: str) -> socket.socket:
        """Return the socket after a TLS handshake, or itself where connections are plain.

        Closes it, and raises OSError, if there is no handshake within its timeout.
        """
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def answer(self, query: DrawNonce | ObtainToken) -> Any:
        """Answer a query of the rule that is none to the broker."""
        if isinstance(query, DrawNonce):
            return secrets.token_urlsafe(NONCE_BYTES)
        assert self._tokens is not None, "a login without tokens asks for none"
        return self._tokens.token()


def _token_source_or_none(login: object) -> "TokenSource | None":
    """Return the tokens of a login; None for one without."""
    if not isinstance(login, TokenLogin):
        return None
    # Here, as it imports urllib's client of HTTP, for the few who log in by a token.
    from apportion.client.tokens import TokenSource

    return TokenSource(login.source)


def reauthentication_at_s(lifetime_ms: int) -> float:
    """Return when a session that begins now is renewed, on the monotonic clock (KIP-368)."""
    if lifetime_ms <= 0:
        return NEVER_S
    return time.monotonic() + reauthentication_delay_ms(lifetime_ms, random.random()) / 1000
