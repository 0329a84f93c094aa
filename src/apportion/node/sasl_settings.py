"""The SASL of a listener, as one value: its mechanisms, its users, and how tokens are looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from apportion.node.security_settings import (
    PREFIX,
    MechanismSettings,
    SecurityByListener,
    SecuritySettings,
)
from apportion.security import oauthbearer, plain
from apportion.security.jaas import jaas_of, parse_jaas
from apportion.security.names import LOCAL_HOSTS

USER = "user_"
"""Kafka's prefix of an option of PlainLoginModule that has the password of a user."""
VALIDATOR = "OAuthBearerValidatorCallbackHandler"
"""Kafka's class that checks tokens by keys, in any of its packages."""


@dataclass(frozen=True, slots=True)
class JwtRules:
    """The rules of a signed token: who must have issued it, for whom, and whose keys sign it.

    keys_url: of a JSON Web Key Set, https:// or file://. audiences: one of them must be in the
    token; none for any. issuer: "" for any. scope_claim, name_claim: where the token has its scopes
    and its user. skew_s: how far its times and the broker's clock may be apart. refresh_ms: how old
    keys may become.
    """

    keys_url: str
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    scope_claim: str = "scope"
    name_claim: str = "sub"
    skew_s: int = 30
    refresh_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class UnsecuredRules:
    """The rules of a token without a signature, which anybody can make: for tests."""

    name_claim: str = "sub"
    skew_s: int = 0


@dataclass(frozen=True, slots=True)
class TokenCheckFunction:
    """A function of the user's that looks at tokens, by its name, "module:function"."""

    name: str


TokenRules = JwtRules | UnsecuredRules | TokenCheckFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The SASL of one listener.

    mechanisms: in the order in which clients are told them. passwords: of the users of PLAIN, by
    name. tokens: where there is OAUTHBEARER. most_session_ms: `connections.max.reauth.ms` by
    mechanism; 0 and none for no bound. most_frame_bytes: of a client without a name.
    failure_delay_ms: before a refusal is sent.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: TokenRules | None = None
    most_session_ms: Mapping[str, int] = field(default_factory=dict)
    most_frame_bytes: int = 524_288
    failure_delay_ms: int = 100


def sasl_settings(listener: str, security: SecurityByListener) -> SaslSettings:
    """Return the SASL of a listener of that name. Errors: ValueError, without a secret."""
    settings = security.of_listener(listener)
    offered = settings.sasl_enabled_mechanisms
    if not offered:
        raise ValueError(
            f"the listener {listener} has SASL and no mechanism: set sasl.enabled.mechanisms, for "
            "example to SCRAM-SHA-512."
        )
    sessions, options = {}, {}
    for mechanism in offered:
        own = settings.mechanisms.get(mechanism, MechanismSettings())
        longest_ms = own.connections_max_reauth_ms
        sessions[mechanism] = (
            settings.connections_max_reauth_ms if longest_ms is None else longest_ms
        )
        options[mechanism] = _login_options(listener, mechanism, own.sasl_jaas_config)
        if own.sasl_server_callback_handler_class and mechanism != oauthbearer.NAME:
            name = _own_name(listener, mechanism, "sasl.server.callback.handler.class")
            raise ValueError(f"{name} cannot be set: it is for OAUTHBEARER alone here.")
    return SaslSettings(
        mechanisms=tuple(dict.fromkeys(offered)),
        passwords=_passwords(listener, options[plain.NAME]) if plain.NAME in offered else {},
        tokens=_token_rules(listener, settings) if oauthbearer.NAME in offered else None,
        most_session_ms=sessions,
        most_frame_bytes=settings.sasl_server_max_receive_size,
        failure_delay_ms=settings.connection_failed_authentication_delay_ms,
    )


def _own_name(listener: str, mechanism: str, setting: str) -> str:
    """Return the whole name of a setting of one mechanism of a listener."""
    return f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{setting}"


def _login_options(listener: str, mechanism: str, text: str) -> Mapping[str, str]:
    """Return the options of a mechanism's login module; none without one. Errors: ValueError."""
    if not text:
        return {}
    name = _own_name(listener, mechanism, "sasl.jaas.config")
    try:
        login = parse_jaas(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}.") from None
    if mechanism not in login.mechanisms:
        raise ValueError(f"{name} names the login module of {' and '.join(login.mechanisms)}.")
    return login.options


def _passwords(listener: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords of the users of PLAIN, by name. Errors: ValueError."""
    # Kafka's brokers log in to each other as username; there are no others here.
    users = {
        name.removeprefix(USER): password
        for name, password in options.items()
        if name.startswith(USER)
    }
    if not users:
        raise ValueError(
            f"the listener {listener} has PLAIN and no user: set "
            f"{_own_name(listener, plain.NAME, 'sasl.jaas.config')} to "
            f"{jaas_of(plain.NAME, {f'{USER}NAME': 'PASSWORD'})}"
        )
    if not all(users.values()):
        raise ValueError(
            f"{_own_name(listener, plain.NAME, 'sasl.jaas.config')} has a user without a password."
        )
    return users


def _token_rules(listener: str, settings: SecuritySettings) -> TokenRules:
    """Return how a listener looks at tokens. Errors: ValueError."""
    own = settings.mechanisms.get(oauthbearer.NAME, MechanismSettings())
    handler = own.sasl_server_callback_handler_class
    if settings.apportion_oauthbearer_unsecured:
        return UnsecuredRules(
            settings.sasl_oauthbearer_sub_claim_name, settings.sasl_oauthbearer_clock_skew_seconds
        )
    if handler and handler.rpartition(".")[2] != VALIDATOR:
        return TokenCheckFunction(handler)
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        name = _own_name(listener, oauthbearer.NAME, "sasl.server.callback.handler.class")
        raise ValueError(
            f"the listener {listener} has OAUTHBEARER and nothing to check tokens by: set "
            f"sasl.oauthbearer.jwks.endpoint.url to the keys of the issuer, or {name} to "
            "module:function; for tests alone, apportion.oauthbearer.unsecured to true."
        )
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in LOCAL_HOSTS
    # A host that can change the keys on their way could log in as any user.
    if parts.scheme not in ("https", "file") and not is_local:
        raise ValueError(
            "sasl.oauthbearer.jwks.endpoint.url must begin with https:// or file://, as the keys "
            "say who is let in."
        )
    return JwtRules(
        url,
        settings.sasl_oauthbearer_expected_audience,
        settings.sasl_oauthbearer_expected_issuer,
        settings.sasl_oauthbearer_scope_claim_name,
        settings.sasl_oauthbearer_sub_claim_name,
        settings.sasl_oauthbearer_clock_skew_seconds,
        settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
    )
