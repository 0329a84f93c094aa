"""The rule of a fresh connection: what a client does on it before its first request.

It asks for the broker's versions (ApiVersions), which every listener answers, and says which broker
it wants to reach, if it knows: one that is another one says so (KIP-1242). With a SASL login it
then chooses the mechanism (SaslHandshake) and exchanges messages of it (SaslAuthenticate, KIP-152)
until both sides agree:

    ApiVersions   SaslHandshake   SaslAuthenticate ... SaslAuthenticate   the client's own requests

A session may have an end (KIP-368). Before it comes, the client authenticates again on the same
connection by the last two steps, with no other request between.

An error here is final: the same password will not be right a second later. So every error is a
`Refused` with a code that no retry mends, and one sentence. A connection that breaks is the
driver's matter, and may be tried again; so may REBOOTSTRAP_REQUIRED, at other addresses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Never

from apportion.errors import Code, Refused
from apportion.readable import MAX_QUOTED, shortened
from apportion.rules import Rule, RuleQuery
from apportion.security import oauthbearer, plain, scram
from apportion.security.client_security import (
    BearerToken,
    ClientSecurity,
    OptionNames,
    PasswordLogin,
    SaslLogin,
)
from apportion.security.exchange import AuthenticationFailed, Exchange, shown
from apportion.security.scram_credentials import ScramMechanism
from apportion.wire.fields import replaced
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from apportion.wire.table import APIS, api_of

API_VERSIONS_VERSION = 3
"""The first that carries the client's name (KIP-511)."""
CHECKING_VERSION = 5
"""The first by which the broker compares what the client wants to reach (KIP-1242)."""
HANDSHAKE_VERSION = 1
"""After version 0 the mechanism's bytes would follow as frames without headers."""
MOST_MECHANISMS = 10
SENTENCE_CHARS = 200
PASSWORD_REMEDY = "see that the name and the password are right"
TOKEN_REMEDY = (
    "see that the token has not ended, and is of the issuer and for the audience that the broker "
    "wants"
)
SASL_HANDSHAKE = api_of(SaslHandshakeRequest).key
SASL_AUTHENTICATE = api_of(SaslAuthenticateRequest).key


class WantedBroker(NamedTuple):
    """The broker that a client wants to reach, by the cluster's metadata."""

    cluster_id: str
    node_id: int


@dataclass(frozen=True, slots=True)
class SendOnConnection(RuleQuery):
    """Send the request on this connection, in this version. Answer: the response.

    The driver ends the rule where there is none.
    """

    request: Any
    version: int


@dataclass(frozen=True, slots=True)
class DrawNonce(RuleQuery):
    """Draw random characters for one exchange of SCRAM. Answer: a text, without a comma."""


@dataclass(frozen=True, slots=True)
class ObtainToken(RuleQuery):
    """Obtain a token for OAUTHBEARER. Answer: a `BearerToken`. Raises Refused, Unanswerable."""


@dataclass(frozen=True, slots=True)
class OpenedConnection:
    """A connection that takes requests.

    versions: the newest of each API that both sides support. lifetime_ms: when the client must have
    authenticated again; 0 for never.
    """

    versions: Mapping[int, int]
    lifetime_ms: int


def open_connection(
    address: str,
    security: ClientSecurity,
    software_version: str,
    wanted: WantedBroker | None = None,
) -> Rule[OpenedConnection]:
    """Agree with the broker on versions, then log in; return what holds for the connection.

    address: for the sentences of errors. wanted: None if any broker will do. Raises Refused.
    """
    versions = yield from _agree_on_versions(address, software_version, wanted)
    if security.login is None:
        return OpenedConnection(versions, 0)
    return OpenedConnection(versions, (yield from authenticate(address, security, versions)))


def _agree_on_versions(
    address: str, software_version: str, wanted: WantedBroker | None
) -> Rule[dict[int, int]]:
    """Return the newest version of each API that both sides support, by API key (KIP-35)."""
    request = ApiVersionsRequest(
        client_software_name="apportion", client_software_version=software_version
    )
    response = None
    if wanted is not None:
        asked = replaced(request, cluster_id=wanted.cluster_id, node_id=wanted.node_id)
        response = yield SendOnConnection(asked, CHECKING_VERSION)
    # A broker of before Kafka 4.4 compares nothing.
    if response is None or response.error_code == Code.UNSUPPORTED_VERSION:
        # A broker without this version answers UNSUPPORTED_VERSION and is refused.
        response = yield SendOnConnection(request, API_VERSIONS_VERSION)
    if wanted is not None and response.error_code == Code.REBOOTSTRAP_REQUIRED:
        raise Refused(
            Code.REBOOTSTRAP_REQUIRED,
            f"the broker at {address} is not broker {wanted.node_id} of the cluster "
            f"{shortened(wanted.cluster_id, MAX_QUOTED)}, whose address that was: the client "
            "begins again with its bootstrap servers",
        )
    if response.error_code != Code.NONE:
        raise Refused(
            Code.of(response.error_code),
            f"the broker at {address} does not say which API versions it supports",
        )
    return {
        theirs.api_key: min(theirs.max_version, ours.versions[-1])
        for theirs in response.api_keys
        if (ours := APIS.get(theirs.api_key)) is not None
        and max(theirs.min_version, ours.versions[0]) <= min(theirs.max_version, ours.versions[-1])
    }


def authenticate(address: str, security: ClientSecurity, versions: Mapping[int, int]) -> Rule[int]:
    """Log in on the connection, the first time or again; return the session's lifetime in ms.

    0 is for ever. Raises Refused: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, or
    SASL_AUTHENTICATION_FAILED with the broker's reason.
    """
    login, names = security.login, security.names
    assert login is not None, "only a client with a login authenticates"
    if SASL_HANDSHAKE not in versions or SASL_AUTHENTICATE not in versions:
        raise _no_sasl(address, names)
    yield from _choose_mechanism(address, login.mechanism, names)
    exchange, secret = yield from _exchange_of(login)
    lifetime_ms, outcome = 0, exchange.step(b"")
    while isinstance(outcome, bytes):
        request = SaslAuthenticateRequest(auth_bytes=outcome)
        answer = yield SendOnConnection(request, versions[SASL_AUTHENTICATE])
        if answer.error_code != Code.NONE:
            code, words = Code.of(answer.error_code), answer.error_message or ""
            # The code's own sentence says no more than that.
            reason = "" if words == code.sentence else _reason(login, words, secret)
            why = f"the broker at {address} does not accept {_who(login)}: "
            raise Refused(code, why + (reason or _remedy(login)))
        lifetime_ms, outcome = answer.session_lifetime_ms, exchange.step(answer.auth_bytes)
    if isinstance(outcome, AuthenticationFailed):
        why = f"{_who(login)} cannot log in to the broker at {address}: {outcome.why}"
        raise Refused(Code.SASL_AUTHENTICATION_FAILED, why)
    return lifetime_ms


def _choose_mechanism(address: str, mechanism: str, names: OptionNames) -> Rule[None]:
    """Have the broker take this mechanism. Raises Refused."""
    response = yield SendOnConnection(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    code = Code.of(response.error_code)
    if code is Code.NONE:
        return
    if code is Code.ILLEGAL_SASL_STATE:
        raise _no_sasl(address, names)
    if code is not Code.UNSUPPORTED_SASL_MECHANISM:
        raise Refused(code, f"the broker at {address} refuses SASL: {code.sentence}")
    offered = [shortened(each, MAX_QUOTED) for each in response.mechanisms[:MOST_MECHANISMS]]
    raise Refused(
        code,
        f"the broker at {address} does not offer the SASL mechanism {mechanism}; it offers "
        f"{', '.join(offered) or 'none'}: set {names.mechanism} to one of these",
    )


def _no_sasl(address: str, names: OptionNames) -> Refused:
    return Refused(
        Code.ILLEGAL_SASL_STATE,
        f"the listener at {address} has no SASL: set {names.protocol} to PLAINTEXT or SSL, or "
        "name a listener of SASL_PLAINTEXT or SASL_SSL",
    )


def _exchange_of(login: SaslLogin) -> Rule[tuple[Exchange[Never, Never], str]]:
    """Return the client's side of the login's mechanism, and the secret that no text may have.

    Raises Refused for a password or token that no message can carry.
    """
    try:
        if not isinstance(login, PasswordLogin):
            token: BearerToken = yield ObtainToken()
            return oauthbearer.client(token.text, token.extensions), token.text
        if login.mechanism == plain.NAME:
            return plain.client(login.name, login.password), login.password
        mechanism = ScramMechanism(login.mechanism)
        nonce: str = yield DrawNonce()
        return scram.client(mechanism, login.name, login.password, nonce), login.password
    except ValueError as error:
        raise Refused(Code.SASL_AUTHENTICATION_FAILED, str(error)) from None


def _who(login: SaslLogin) -> str:
    """Return who logs in, and how, for a sentence."""
    if isinstance(login, PasswordLogin):
        return f"user {shown(login.name)} by {login.mechanism}"
    return f"the token of this client by {login.mechanism}"


def _remedy(login: SaslLogin) -> str:
    """Return what to look at, for the end of a sentence without the broker's reason."""
    return PASSWORD_REMEDY if isinstance(login, PasswordLogin) else TOKEN_REMEDY


def _reason(login: SaslLogin, words: str, secret: str) -> str:
    """Return the broker's words for the end of a sentence; nothing if they repeat the secret."""
    if not words or secret in words:
        return ""
    if not isinstance(login, PasswordLogin):
        rejection = oauthbearer.rejection_or_none(words, secret)
        if rejection is not None:
            return f"it says {rejection}; {TOKEN_REMEDY}"
    # By an escape, such as those of JSON, the secret may be in them in other letters.
    if "\\" in words:
        return ""
    return shortened(words, SENTENCE_CHARS)
