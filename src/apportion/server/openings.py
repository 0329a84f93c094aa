"""The beginning of a connection to each listener: at once, with TLS, with SASL, or with both.

What a listener does not need is not imported: most brokers have neither. What the first group or
the first records need, above all NumPy, is imported once the first client has connected.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from apportion.lazy_imports import import_lazy_modules
from apportion.machine import ANONYMOUS
from apportion.node.listeners import Listener
from apportion.security.scram_credentials import Decoys
from apportion.server.connection import ServerConnection

if TYPE_CHECKING:
    from apportion.server.sasl_connection import SaslListener, SaslReceiver

DECOY_KEY_BYTES = 32

Opening = Callable[[], asyncio.Protocol]
"""Begins one connection, as asyncio wants it."""


class Openings:
    """The beginnings of connections to the listeners of one broker."""

    def __init__(self, receiver: "SaslReceiver") -> None:
        """Begin without listeners."""
        self._receiver = receiver
        self._with_sasl: list[SaslListener] = []
        # One for all listeners: two salts of a name would say that there is no such user.
        self._decoys = Decoys(os.urandom(DECOY_KEY_BYTES))
        self._has_begun_imports = False

    def begin(self, listener: Listener) -> Opening:
        """Return the function that begins each connection to a listener.

        Errors: SettingRefused for certificates, and for a check of tokens, that cannot be used.
        """
        return partial(self._open, self._opening(listener))

    def stop(self) -> None:
        """End the threads of listeners."""
        for each in self._with_sasl:
            each.stop()

    def _open(self, opening: Opening) -> asyncio.Protocol:
        """Begin one connection; with the first one, begin the imports that a start leaves out.

        They take longer than a request may wait. On a thread of their own, other requests are
        answered meanwhile; a request that needs one of the modules waits for the rest. A broker
        without clients stays small.
        """
        if not self._has_begun_imports:
            self._has_begun_imports = True
            threading.Thread(target=import_lazy_modules, name="apportion-imports").start()
        return opening()

    def _opening(self, listener: Listener) -> Opening:
        """Return the function that begins each connection, after the imports."""
        above = self._above_tls(listener)
        tls = listener.security.tls
        if tls is None:
            return partial(above, ANONYMOUS, None)
        from apportion.server.tls import tls_context
        from apportion.server.tls_connection import TlsConnection

        return partial(TlsConnection, self._receiver, listener.name, (tls, tls_context(tls)), above)

    def _above_tls(self, listener: Listener) -> Callable[[str, float | None], asyncio.Protocol]:
        """Return the function that begins what is above TLS, or above the socket itself.

        It takes the principal of the client's certificate, and when the client must have
        authenticated.
        """
        receiver, name, sasl = self._receiver, listener.name, listener.security.sasl
        if sasl is None:
            return lambda principal, _deadline_s: ServerConnection(receiver, name, principal)
        from apportion.server.sasl_connection import SaslListener

        with_sasl = SaslListener(receiver, name, sasl, self._decoys)
        self._with_sasl.append(with_sasl)
        # A login names the user, whatever the certificate says.
        return lambda _principal, deadline_s: with_sasl.open(deadline_s)
