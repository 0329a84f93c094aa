"""Connections of a listener with SASL: the driver of `node/sasl_authenticator.py`.

A `SaslGate` stands between a connection and the server. Until the client has a name, the connection
takes one small request at a time, and the gate has a timer; later it hands requests through.
"""

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from apportion.drive.clocks import now
from apportion.errors import DecodeError
from apportion.machine import Arrived, Caller, Reply, Tick, Ticket
from apportion.node.sasl_authenticator import (
    EARLY,
    LOGIN_APIS,
    ClientAsked,
    EndConnection,
    LoggedIn,
    PassOn,
    SaslAuthenticator,
    ScramUsers,
    TokenChecked,
)
from apportion.node.sasl_settings import SaslSettings
from apportion.node.settings import BrokerSettings
from apportion.security.oauthbearer import TokenCheck, TokenVerdict
from apportion.security.scram_credentials import Decoys
from apportion.server.connection import MAX_BYTES_WITHOUT_RECORDS, ServerConnection
from apportion.server.fresh_ids import FRESH_ID_BYTES
from apportion.server.request_receiver import RequestReceiver, ResponseSlot
from apportion.server.token_checks import checker_of
from apportion.server.token_threads import Forget, TokenThreads
from apportion.store.metadata_log import ScramCredentials
from apportion.wire.frames import request_header
from apportion.wire.table import SERVED_APIS

MOST_WAITING_REQUESTS = 8
"""How many requests a client without a name may send before it has read an answer."""
LAST_READ_SECONDS = 1
"""For how long a client without a name may read why its connection ends."""
MOST_EARLY_BYTES = 1_024
"""How large a request may be that is no part of a login, and is decoded before it; its answer may
be that it comes too early.
"""


class SaslReceiver(RequestReceiver, Protocol):
    """The part of `Server` that gates use."""

    @property
    def scram_credentials(self) -> ScramCredentials:
        """The credentials of SCRAM as they are now."""
        ...


class SaslListener:
    """The gates of one listener with SASL, and what they share."""

    def __init__(
        self, receiver: SaslReceiver, name: str, settings: SaslSettings, decoys: Decoys
    ) -> None:
        """Begin a listener of that name.

        decoys: of the broker. Errors: SettingRefused for a check of tokens that cannot be loaded.
        """
        self.receiver = receiver
        self.settings = settings
        self.decoys = decoys
        self.tokens = None if settings.tokens is None else TokenThreads(checker_of(settings.tokens))
        broker = receiver.settings
        self.bounds = replace(
            broker,
            socket_request_max_bytes=min(
                settings.most_frame_bytes, broker.socket_request_max_bytes
            ),
            apportion_connection_max_inflight_requests=1,
        )
        self._name = name

    def open(self, deadline_s: float | None = None) -> "SaslConnection":
        """Begin a connection, whose client must have a name by then.

        deadline_s: on the event loop's clock; None for as long from now as the settings allow.
        """
        if deadline_s is None:
            timeout_ms = self.bounds.apportion_authentication_timeout_ms
            deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        return SaslConnection(SaslGate(self, deadline_s), self._name)

    def stop(self) -> None:
        """End the threads that look at tokens."""
        if self.tokens is not None:
            self.tokens.stop()


class SaslConnection(ServerConnection):
    """The asyncio protocol of one client connection to a listener with SASL."""

    __slots__ = ("_has_name", "_last_timer")

    def __init__(self, gate: "SaslGate", listener: str) -> None:
        """Begin a connection of a client without a name, at its gate."""
        super().__init__(gate, listener)
        self._has_name = False
        self._most_plain_bytes = MOST_EARLY_BYTES
        self._last_timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Start requests; of a client without a name, few may wait."""
        super().data_received(data)
        # Each costs many times the bytes that it came in.
        if not self._has_name and len(self._waiting_frames) > MOST_WAITING_REQUESTS:
            self.end("it sent many requests before it authenticated")

    def log_in(self, principal: str) -> None:
        """Take the client's further requests as this principal's, as large as the broker allows."""
        self._has_name = True
        self._most_plain_bytes = MAX_BYTES_WITHOUT_RECORDS
        self._caller = self._caller._replace(principal=principal)
        self._frames.limit = self._receiver.settings.socket_request_max_bytes

    def end(self, reason: str) -> None:
        """Close the connection after the responses that are ready, with a line in the log."""
        self._close_reason = self._close_reason or reason
        # While requests are being started, their responses are not written yet.
        if not self._is_collecting:
            self._write()
            self._close_transport()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the client's connection, which is closed (asyncio's callback)."""
        if self._last_timer is not None:
            self._last_timer.cancel()
        super().connection_lost(error)

    def _refuse_undecoded(self, frame: bytes) -> None:
        """Raise DecodeError for a large request that must not even be decoded.

        Many small parts take many times their bytes, and time on the event loop.
        """
        super()._refuse_undecoded(frame)
        if self._has_name:
            return
        api = SERVED_APIS.get(key := request_header(frame)[0])
        if api is not None and key not in LOGIN_APIS:
            raise DecodeError(EARLY.format(api.name))

    def _close_transport(self) -> None:
        """Close the connection; a client without a name cannot keep it by reading nothing."""
        super()._close_transport()
        if not self._has_name and self._last_timer is None:
            loop = asyncio.get_running_loop()
            self._last_timer = loop.call_later(LAST_READ_SECONDS, self.abort)


class SaslGate:
    """The requests of one connection: for the authenticator, or through to the server.

    settings: the bounds of the connection, which are close while its client authenticates.
    """

    __slots__ = (
        "_asked",
        "_authenticator",
        "_connection",
        "_deadline_s",
        "_forget_token",
        "_listener",
        "_timer",
        "settings",
    )

    settings: BrokerSettings

    def __init__(self, listener: SaslListener, deadline_s: float) -> None:
        self.settings = listener.bounds
        self._listener = listener
        self._deadline_s = deadline_s
        self._authenticator = SaslAuthenticator(listener.settings, int(deadline_s * 1000))
        self._connection: SaslConnection | None = None  # while it is open
        self._asked: tuple[ResponseSlot, Any, Caller]
        self._timer: asyncio.TimerHandle | None = None
        self._forget_token: Forget = _nothing

    def connection_opened(self, connection: Any, accepted: socket.socket | None) -> bool:
        """Count the connection, and begin to wait for its client's name."""
        self._connection = connection
        self._timer = asyncio.get_running_loop().call_at(self._deadline_s, self._overdue)
        return self._listener.receiver.connection_opened(connection, accepted)

    def connection_closed(
        self, connection: Any, tickets: tuple[Ticket, ...], reason: str | None
    ) -> None:
        """Forget the connection."""
        self._connection = None
        self._stop_timer()
        self._forget_token()
        self._listener.receiver.connection_closed(connection, tickets, reason)

    def write_soon(self, connection: Any) -> None:
        """Write the connection's responses, together with those of other clients."""
        self._listener.receiver.write_soon(connection)

    def answer_submitted(self) -> None:
        """Have the server answer what was passed on to it."""
        self._listener.receiver.answer_submitted()

    def submit(self, connection: Any, slot: ResponseSlot, request: Any, caller: Caller) -> None:
        """Hand a request to the server, or to the authenticator if it has a say in it."""
        moment = now()
        if self._authenticator.passes(request, moment.mono_ms):
            self._listener.receiver.submit(connection, slot, request, caller)
            return
        self._listener.receiver.answer_submitted()  # the requests before it, if it is the last
        self._asked = slot, request, caller
        arrived = Arrived(Ticket(0), request, slot.version, caller, os.urandom(FRESH_ID_BYTES))
        users = ScramUsers(self._listener.receiver.scram_credentials, self._listener.decoys)
        self._perform(self._authenticator.step(ClientAsked(arrived, users), moment))

    def _perform(self, actions: list[Any]) -> None:
        """Perform the actions that follow from the request that is being answered, or from time."""
        receiver = self._listener.receiver
        is_exchanging = self._authenticator.is_exchanging
        self.settings = self._listener.bounds if is_exchanging else receiver.settings
        for action in actions:
            connection = self._connection
            if connection is None:
                return
            match action:
                case Reply():
                    connection.send_response(self._asked[0], action.body)
                case PassOn():
                    receiver.submit(connection, *self._asked)
                case LoggedIn():
                    self._stop_timer()
                    connection.log_in(action.principal)
                case TokenCheck():
                    self._check(action)
                case EndConnection(delay_ms=0):
                    self._end(action)
                case EndConnection():
                    # The client's further bytes are not read: they would be held until then.
                    connection.stop_reading()
                    self._stop_timer()
                    self._timer = asyncio.get_running_loop().call_later(
                        action.delay_ms / 1000, self._end, action
                    )

    def _end(self, action: EndConnection) -> None:
        if self._connection is not None:
            if action.response is not None:
                self._connection.send_response(self._asked[0], action.response)
            self._connection.end(action.why)

    def _check(self, asked: TokenCheck) -> None:
        """Have a token looked at beside the event loop."""
        assert self._listener.tokens is not None, "OAUTHBEARER is offered with a check alone"
        loop = asyncio.get_running_loop()

        def decided(verdict: TokenVerdict) -> None:
            with suppress(RuntimeError):  # the loop is closed: the broker has stopped
                loop.call_soon_threadsafe(self._decided, verdict)

        self._forget_token = self._listener.tokens.begin(asked, decided)

    def _decided(self, verdict: TokenVerdict) -> None:
        self._forget_token = _nothing
        self._perform(self._authenticator.step(TokenChecked(verdict), now()))

    def _overdue(self) -> None:
        """End the connection of a client that still has no name."""
        self._perform(self._authenticator.step(Tick(), now()))
        # The loop's clock may be a little before the authenticator's.
        if self._connection is not None and self._authenticator.wake_at() is not None:
            self._timer = asyncio.get_running_loop().call_later(0.001, self._overdue)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    """Forget no token: none waits."""
