"""SASL on one connection, as a machine: the order of a client's requests until it has a name.

    ApiVersions   SaslHandshake   SaslAuthenticate ... SaslAuthenticate   everything else

It stands before the node: what comes too early is refused here, and the node sees requests of users
who have authenticated. A session may have an end; a client that wants to go on authenticates again
before it, on the same connection (KIP-368). The bytes of the mechanisms are `security`'s matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apportion.errors import Code
from apportion.machine import Arrived, Instant, Reply, Tick
from apportion.node.error_responses import error_response, expects_response
from apportion.node.sasl_settings import SaslSettings
from apportion.security import oauthbearer, plain, scram
from apportion.security.exchange import Authenticated, AuthenticationFailed, Exchange, shown
from apportion.security.oauthbearer import TokenCheck, TokenVerdict
from apportion.security.scram_credentials import Decoys, ScramCredential, ScramMechanism
from apportion.security.sessions import session_lifetime_ms
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from apportion.wire.table import api_of

BETWEEN_AUTHENTICATIONS_MS = 1_000
"""A client may authenticate again once in this time, as in Kafka."""
EARLY = "it sent {0} before it authenticated: the listener has SASL"
LOGIN_APIS = frozenset(
    api_of(request).key
    for request in (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest)
)
"""The keys of the requests of a login."""
TOO_SLOW = "it has not authenticated in time (apportion.authentication.timeout.ms)"


@dataclass(frozen=True, slots=True)
class ScramUsers:
    """The users of SCRAM as they are now: for each mechanism, a credential for each name."""

    credentials: Mapping[ScramMechanism, Mapping[str, ScramCredential]] = field(repr=False)
    decoys: Decoys = field(repr=False)


class ClientAsked(NamedTuple):
    """The client has sent a request.

    scram_users: as they are now.
    """

    arrived: Arrived
    scram_users: ScramUsers


@dataclass(frozen=True, slots=True)
class TokenChecked:
    """The token of a `TokenCheck` was looked at."""

    verdict: TokenVerdict


@dataclass(frozen=True, slots=True)
class PassOn:
    """Hand the request that has just arrived to the node."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The client has authenticated: its requests are this principal's from now on."""

    principal: str


@dataclass(frozen=True, slots=True)
class EndConnection:
    """Close the connection.

    why: for the log, without a secret. response: to be sent first, if there is any. delay_ms: to be
    waited before both.
    """

    why: str
    response: Any = None
    delay_ms: int = 0


class SaslAuthenticator:
    """The machine of one connection of a listener with SASL.

    Its events are `ClientAsked`, one request after the other, `TokenChecked` and `Tick`. Its
    actions are `PassOn`, `Reply`, `LoggedIn`, `EndConnection`, and `TokenCheck`, which is answered
    by `TokenChecked`; until then a further request ends the connection.
    """

    __slots__ = (
        "_again_from_ms",
        "_asked",
        "_deadline_ms",
        "_ends_at_ms",
        "_exchange",
        "_is_checking",
        "_is_over",
        "_mechanism",
        "_principal",
        "_settings",
    )

    def __init__(self, settings: SaslSettings, deadline_ms: int) -> None:
        """Begin at a new connection, whose client has no name yet.

        deadline_ms: when it must have one, on the monotonic clock.
        """
        self._settings = settings
        self._deadline_ms = deadline_ms
        self._exchange: Exchange[Any, Any] | None = None
        self._is_checking = False
        self._is_over = False
        self._mechanism = ""
        self._principal = ""
        self._asked: Arrived
        self._ends_at_ms: int | None = None
        self._again_from_ms = 0

    def wake_at(self) -> int | None:
        """Return when the client must have authenticated; None if it has."""
        return None if self._principal or self._is_over else self._deadline_ms

    def passes(self, request: Any, mono_ms: int) -> bool:
        """Return whether the request is one for the node: then it need not be given to `step`."""
        if not self._principal or self._exchange is not None or self._is_over:
            return False
        if type(request) is SaslHandshakeRequest and self._may_begin_again(mono_ms):
            return False
        return self._ends_at_ms is None or mono_ms < self._ends_at_ms

    @property
    def is_exchanging(self) -> bool:
        """True while the client has no name yet, or authenticates again."""
        return not self._principal or self._exchange is not None

    def step(self, event: Any, now: Instant) -> list[Any]:
        """Return what follows from an event on the connection."""
        if self._is_over:
            return []
        match event:
            case ClientAsked():
                return self._arrived(event.arrived, event.scram_users, now)
            case TokenChecked():
                return self._go_on(event.verdict, now)
            case Tick() if not self._principal and now.mono_ms >= self._deadline_ms:
                return [self._end(TOO_SLOW)]
        return []

    def _arrived(self, arrived: Arrived, users: ScramUsers, now: Instant) -> list[Any]:
        request = arrived.request
        if self.passes(request, now.mono_ms):
            return [PassOn()]
        name = api_of(type(request)).name
        if self._is_checking:
            return [self._end(f"it sent {name} while its token was being checked")]
        self._asked = arrived
        if self._exchange is not None:
            if isinstance(request, SaslAuthenticateRequest):
                return self._go_on(bytes(request.auth_bytes), now)
            # Kafka answers here, and not before SaslHandshake.
            response = (
                error_response(arrived, Code.ILLEGAL_SASL_STATE)
                if expects_response(arrived)
                else None
            )
            return [self._end(f"it sent {name} in place of SaslAuthenticate", response)]
        may_begin = not self._principal or self._may_begin_again(now.mono_ms)
        if isinstance(request, SaslHandshakeRequest) and may_begin:
            return self._begin(request.mechanism, users, now)
        if self._principal:
            return [self._end("its session is over, and it has not authenticated again")]
        if isinstance(request, ApiVersionsRequest):
            return [PassOn()]
        return [self._end(EARLY.format(name))]

    def _may_begin_again(self, mono_ms: int) -> bool:
        return self._ends_at_ms is not None and mono_ms >= self._again_from_ms

    def _begin(self, mechanism: str, users: ScramUsers, now: Instant) -> list[Any]:
        """Begin an exchange of the mechanism that the client has chosen."""
        # A client that authenticates again does so by the same mechanism.
        offered = (self._mechanism,) if self._principal else self._settings.mechanisms
        if self._asked.version == 0:
            why = "it wants SASL without SaslAuthenticate (SaslHandshake 0), as before KIP-152"
            response = SaslHandshakeResponse(
                error_code=Code.UNSUPPORTED_VERSION, mechanisms=offered
            )
            return [self._end(why, response)]
        if mechanism not in offered:
            why = f"it wants the SASL mechanism {shown(mechanism)}, and may use "
            response = SaslHandshakeResponse(
                error_code=Code.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered
            )
            return [self._end(why + ", ".join(offered), response)]
        if self._principal:
            self._again_from_ms = now.mono_ms + BETWEEN_AUTHENTICATIONS_MS
        self._mechanism = mechanism
        self._exchange = self._server_of(mechanism, users)
        return [Reply(self._asked.ticket, SaslHandshakeResponse(mechanisms=offered))]

    def _server_of(self, mechanism: str, users: ScramUsers) -> Exchange[Any, Any]:
        if mechanism == plain.NAME:
            return plain.server(self._settings.passwords)
        if mechanism == oauthbearer.NAME:
            return oauthbearer.server()
        kind = ScramMechanism(mechanism)
        credentials = users.credentials.get(kind, {})
        return scram.server(kind, credentials, users.decoys, self._asked.fresh.hex())

    def _go_on(self, received: bytes | TokenVerdict, now: Instant) -> list[Any]:
        """Go on with the exchange by the client's bytes, or by the verdict about its token."""
        assert self._exchange is not None, "only an exchange asks for a verdict"
        outcome = self._exchange.step(received)
        self._is_checking = isinstance(outcome, TokenCheck)
        if isinstance(outcome, TokenCheck):
            return [outcome]
        if isinstance(outcome, bytes):
            return [self._reply(outcome, 0)]
        if isinstance(outcome, AuthenticationFailed):
            return [self._refuse(outcome.why, outcome.sentence)]
        return self._authenticated(outcome, now)

    def _authenticated(self, outcome: Authenticated, now: Instant) -> list[Any]:
        """Begin a session of the user."""
        principal = f"User:{outcome.name}"
        if self._principal not in ("", principal):
            return [
                self._refuse(
                    f"{shown(self._principal)} wants to go on as {shown(principal)}",
                    "A connection goes on with the user who has authenticated on it first.",
                )
            ]
        most_ms = self._settings.most_session_ms.get(self._mechanism, 0)
        lifetime_ms = session_lifetime_ms(outcome.expires_at_ms, most_ms, now.wall_ms)
        self._ends_at_ms = None if lifetime_ms is None else now.mono_ms + lifetime_ms
        self._exchange = None
        actions: list[Any] = [] if self._principal else [LoggedIn(principal)]
        self._principal = principal
        return [*actions, self._reply(outcome.reply, lifetime_ms or 0)]

    def _reply(self, auth_bytes: bytes, lifetime_ms: int) -> Reply:
        # The text is empty and not null, as in Kafka.
        response = SaslAuthenticateResponse(
            error_message="", auth_bytes=auth_bytes, session_lifetime_ms=lifetime_ms
        )
        return Reply(self._asked.ticket, response)

    def _refuse(self, why: str, sentence: str) -> EndConnection:
        """End the connection of a client that has not shown who it is.

        Later, so that passwords cannot be tried as fast as the broker can look at them.
        """
        response = SaslAuthenticateResponse(
            error_code=Code.SASL_AUTHENTICATION_FAILED, error_message=sentence
        )
        return self._end(
            f"SASL {self._mechanism}: {why}", response, self._settings.failure_delay_ms
        )

    def _end(self, why: str, response: Any = None, delay_ms: int = 0) -> EndConnection:
        self._is_over = True
        self._exchange = None
        return EndConnection(why, response, delay_ms)
