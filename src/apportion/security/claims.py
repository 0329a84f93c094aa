"""The claims of a JSON Web Token (RFC 7519): whose it is, and until when.

No sentence here has a token, or a part of it.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from apportion.security.oauthbearer import TokenAccepted, TokenRejected, TokenVerdict


def unsecured_verdict(token: str, name_claim: str, skew_s: int, now_s: float) -> TokenVerdict:
    """Return the verdict about a token without a signature, as Kafka makes them for tests."""
    header, _, rest = token.partition(".")
    claims, _, signature = rest.partition(".")
    if signature or _part(header).get("alg") != "none":
        return TokenRejected("the token is signed, or no JSON Web Token: here they are not")
    return claims_verdict(_part(claims), name_claim, skew_s, now_s)


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """Return a token without a signature, which anybody can make."""
    encoded = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, dict(claims))
    )
    return f"{'.'.join(encoded)}."


def claims_verdict(
    claims: Mapping[str, Any], name_claim: str, skew_s: int, now_s: float
) -> TokenVerdict:
    """Return the verdict about the claims of a token whose signature is good, or needs not be."""
    name, expires_at_s = claims.get(name_claim), claims.get("exp")
    issued_at_s, begins_at_s = claims.get("iat"), claims.get("nbf")
    if not isinstance(name, str) or not name.strip():
        return TokenRejected(f"the token has no user in the claim {name_claim!r}")
    if not _is_time(expires_at_s):
        return TokenRejected("the token does not say when it ends (exp)")
    for begun_at_s in (issued_at_s, begins_at_s):
        if begun_at_s is not None and not _is_time(begun_at_s):
            return TokenRejected("the token has a time that is no number (iat, nbf)")
        if begun_at_s is not None and begun_at_s > now_s + skew_s:
            return TokenRejected("the token is not valid yet")
    if now_s - skew_s >= expires_at_s:
        return TokenRejected("the token is over")
    return TokenAccepted(name, int(expires_at_s * 1000))


def _is_time(value: Any) -> TypeGuard[float]:
    """Return whether a claim can be a time; a number beyond these is none that a broker sees."""
    return type(value) in (int, float) and 0 <= value < 2**40


def _part(encoded: str) -> dict[str, Any]:
    """Return a part of a token; empty if it is none."""
    try:
        part = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    # RecursionError: arrays in arrays, a byte for each.
    except (ValueError, RecursionError):
        return {}
    return part if isinstance(part, dict) else {}
