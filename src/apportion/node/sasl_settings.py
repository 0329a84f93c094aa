"""The SASL of a listener, as one value: its mechanisms, its users, and how tokens are looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    mechanism; 0 and none for no bound. most_frame_bytes: of a client without a name. timeout_ms:
    how long a client may take to get one. failure_delay_ms: before a refusal is sent.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: TokenRules | None = None
    most_session_ms: Mapping[str, int] = field(default_factory=dict)
    most_frame_bytes: int = 524_288
    timeout_ms: int = 10_000
    failure_delay_ms: int = 100
