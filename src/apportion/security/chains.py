"""The certificate of a chain that keeps clients from trusting it, because it is not valid now.

A client needs one path from the broker's certificate to a CA that it trusts. A certificate of the
chain beside that path may have expired: so do those by which an old CA vouched for a new one, which
clients trust itself by now. The paths are searched in depth.
"""

from collections.abc import Callable, Sequence

from apportion.security.principals import distinguished_name, issuer_name
from apportion.security.validity import validity


def invalid_link_or_none(
    chain: Sequence[bytes], now_s: float, trusted: Callable[[], Sequence[bytes]]
) -> bytes | None:
    """Return a certificate without which no path is complete, and which is not valid now.

    None if a path is complete, or ends below a CA that is not in the chain.
    chain: in DER, the broker's own one first. trusted: the CAs that are known here; they are asked
    for only if a path needs one. Errors: ValueError for other bytes.
    """
    if not is_valid(chain[0], now_s):
        return chain[0]
    return _invalid_above(chain[0], chain[1:], now_s, trusted)


def is_valid(certificate: bytes, now_s: float) -> bool:
    """Return whether a certificate is valid now. Errors: ValueError."""
    first_s, last_s = validity(certificate)
    return first_s <= now_s <= last_s


def _invalid_above(
    below: bytes, others: Sequence[bytes], now_s: float, trusted: Callable[[], Sequence[bytes]]
) -> bytes | None:
    """Return what is not valid on every path above a valid certificate.

    others: those that are not on the path yet, so each path ends.
    """
    issuer = issuer_name(below)
    if issuer == distinguished_name(below):
        return None
    issuers = [each for each in others if distinguished_name(each) == issuer]
    faults = [
        _invalid_above(each, [other for other in others if other != each], now_s, trusted)
        if is_valid(each, now_s)
        else each
        for each in issuers
    ]
    if not faults or None in faults:
        return None
    is_known = any(
        distinguished_name(each) == issuer and is_valid(each, now_s) for each in trusted()
    )
    return None if is_known else faults[0]
