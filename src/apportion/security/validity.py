"""The time in which a certificate is valid."""

from datetime import UTC, datetime
from typing import NamedTuple

from apportion.security.der import CUT_OFF, UTC_TIME, VALIDITY, DerElement, elements, fields_of

LAST_OF_TWO_DIGITS = 49
"""The greatest year of two digits that is in this century (RFC 5280); other tags have four."""


class Validity(NamedTuple):
    """The first and the last second in which a certificate is valid, since 1970."""

    first_s: float
    last_s: float


def validity(certificate: bytes) -> Validity:
    """Return when a certificate is valid.

    certificate: in DER. Errors: ValueError for other bytes.
    """
    try:
        first, last = elements(fields_of(certificate)[VALIDITY].content)
    except IndexError:
        raise ValueError(CUT_OFF) from None
    return Validity(_seconds(first), _seconds(last))


def _seconds(time: DerElement) -> float:
    """Return a time as seconds since 1970. Errors: ValueError."""
    digits = time.content.decode("ascii").removesuffix("Z")
    if time.tag == UTC_TIME:
        century = "20" if int(digits[:2]) <= LAST_OF_TWO_DIGITS else "19"
        digits = century + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()


def utc_text(seconds: float) -> str:
    """Return a time since 1970 for a sentence."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
