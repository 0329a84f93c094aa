"""The check of signed tokens (JSON Web Tokens, RFC 7519) by keys of a JSON Web Key Set (RFC 7517).

PyJWT looks at the signature; what a token must say is in `claims_verdict`.
"""

import json
import threading
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jwt

from apportion.drive.fetching import NotFetched, fetched, opener_of
from apportion.node.sasl_settings import JwtRules
from apportion.node.settings import SettingRefused
from apportion.security.claims import claims_verdict
from apportion.security.oauthbearer import (
    TokenAccepted,
    TokenCheck,
    TokenRejected,
    TokenVerdict,
)

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""The signatures that a token may have. None is made by a secret that the broker has, too."""
FETCH_TIMEOUT_S = 5.0
MOST_KEYS_BYTES = 1 << 20
BETWEEN_FETCHES_S = 10.0
"""For a key that is not known the keys are fetched anew, but not more often than this."""
REFUSALS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.InvalidSignatureError, "the token's signature is not that of its key"),
    (jwt.InvalidAudienceError, "the token is not for this audience"),
    (jwt.InvalidIssuerError, "the token is of another issuer"),
    (jwt.InvalidAlgorithmError, "the token has a signature of a kind that is not accepted"),
    (jwt.MissingRequiredClaimError, "the token lacks a claim: exp, iat, aud or iss"),
    (jwt.PyJWTError, "the token is no JSON Web Token that can be read"),
)
LOOKED_AT = {
    "require": ["exp", "iat"],
    # By `claims_verdict`, which has one clock for all of them.
    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_sub"), False),
}
"""The claims that PyJWT looks at, besides audience and issuer: whether they are there."""


class SigningKey(NamedTuple):
    """A public key, and the signatures that it may be used for."""

    key: Any
    algorithms: tuple[str, ...]


class KeysMissing(Exception):
    """The keys cannot be had; the text says why."""


class KeySet:
    """The keys of one issuer, fetched when they are needed. Thread-safe."""

    def __init__(self, url: str, refresh_ms: int) -> None:
        """Fetch nothing yet."""
        self._url = url
        self._refresh_s = refresh_ms / 1000
        self._lock = threading.Lock()
        self._keys: dict[str | None, SigningKey] = {}
        self._fetched_at_s = self._tried_at_s = float("-inf")
        self._problem = ""

    def key(self, key_id: Any) -> SigningKey:
        """Return the key of that id; without an id, that which is alone. Raises KeysMissing."""
        found = self._found(key_id)
        is_old = time.monotonic() - self._fetched_at_s >= self._refresh_s
        # One thread fetches; a thread that has found its key does not wait for it.
        if (found is None or is_old) and self._lock.acquire(blocking=found is None):
            try:
                # Another may have fetched them meanwhile.
                if is_old or self._found(key_id) is None:
                    self._fetch()
            finally:
                self._lock.release()
            found = self._found(key_id)
        if found is None:
            unknown = "the token is signed by a key that its issuer does not have"
            raise KeysMissing(self._problem or unknown)
        return found

    def _fetch(self) -> None:
        """Fetch the keys, unless that was tried a moment ago; keep those that there are."""
        now_s = time.monotonic()
        if now_s - self._tried_at_s < BETWEEN_FETCHES_S:
            return
        self._tried_at_s = now_s
        try:
            self._keys, self._problem = fetched_keys(self._url), ""
            self._fetched_at_s = now_s
        # An issuer that is away for a while must not lock out its users.
        except KeysMissing as problem:
            self._problem = str(problem)

    def _found(self, key_id: Any) -> SigningKey | None:
        keys = self._keys
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        return keys.get(key_id) if isinstance(key_id, str) else None


class JwtChecker:
    """The check of tokens by the keys of their issuer. Thread-safe."""

    def __init__(self, rules: JwtRules) -> None:
        """Read keys that are in a file. Errors: SettingRefused."""
        self._rules = rules
        self._keys = KeySet(rules.keys_url, rules.refresh_ms)
        if urlsplit(rules.keys_url).scheme == "file":
            try:
                fetched_keys(rules.keys_url)
            except KeysMissing as problem:
                raise SettingRefused(f"sasl.oauthbearer.jwks.endpoint.url: {problem}.") from None

    def __call__(self, asked: TokenCheck) -> TokenVerdict:
        """Return the verdict about a token."""
        rules = self._rules
        options: Any = LOOKED_AT | {"verify_aud": bool(rules.audiences)}
        try:
            key = self._keys.key(jwt.get_unverified_header(asked.token).get("kid"))
            claims = jwt.decode(
                asked.token,
                key.key,
                algorithms=key.algorithms,
                audience=rules.audiences or None,
                issuer=rules.issuer or None,
                options=options,
            )
        except KeysMissing as problem:
            return TokenRejected(str(problem))
        except jwt.PyJWTError as error:
            return TokenRejected(next(why for kind, why in REFUSALS if isinstance(error, kind)))
        verdict = claims_verdict(claims, rules.name_claim, rules.skew_s, time.time())
        if isinstance(verdict, TokenAccepted) and not _are_scopes(claims.get(rules.scope_claim)):
            return TokenRejected(f"the token has no scopes in the claim {rules.scope_claim!r}")
        return verdict


def _are_scopes(value: Any) -> bool:
    """Return whether a claim is a text, or several, or not there."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str)


def fetched_keys(url: str) -> dict[str | None, SigningKey]:
    """Return the keys that sign tokens, by their ids. Raises KeysMissing."""
    found: dict[str | None, SigningKey] = {}
    for each in _rows(url):
        # Keys of a kind that is not known, and those for encryption, are for others.
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        if each.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        try:
            key = jwt.PyJWK(each).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        said_algorithm = each.get("alg")
        fitting = tuple(name for name in ALGORITHMS if said_algorithm in (None, name))
        key_id = each.get("kid")
        found[key_id if isinstance(key_id, str) else None] = SigningKey(key, fitting)
    if not found:
        raise KeysMissing(f"{_shown(url)} has no public key that is known here")
    return found


def _why(problem: NotFetched) -> str:
    """Return why nothing was fetched."""
    if problem.status:
        return f"HTTP status {problem.status}"
    return problem.certificate_fault or problem.error_name


def _rows(url: str) -> list[Any]:
    """Return the rows of a JSON Web Key Set, whatever they are. Raises KeysMissing."""
    try:
        text = fetched(opener_of(), url, FETCH_TIMEOUT_S, MOST_KEYS_BYTES)
    except NotFetched as problem:
        raise KeysMissing(f"{_shown(url)} gives no keys: {_why(problem)}") from None
    try:
        said = json.loads(text)
        keys = said["keys"] if isinstance(said, dict) else None
    except (ValueError, KeyError, RecursionError):
        keys = None
    if not isinstance(keys, list):
        raise KeysMissing(f"{_shown(url)} gives no JSON Web Key Set")
    return keys


def _shown(url: str) -> str:
    """Return where the keys are, without a password or a query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
