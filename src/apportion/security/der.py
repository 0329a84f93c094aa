"""The fields of a certificate, read from DER: as much of it as a broker and its clients need."""

from collections.abc import Iterator
from typing import NamedTuple

VERSION, UTC_TIME = 0xA0, 0x17
"""Tags of DER: of a certificate's version, and of a time whose year has two digits."""
ISSUER, VALIDITY, SUBJECT = 2, 3, 4
"""The places of fields: the serial number and the algorithm come before."""
CUT_OFF = "a certificate is cut off"


class DerElement(NamedTuple):
    """One element of DER.

    encoded: with tag and length; content: without them.
    """

    tag: int
    encoded: bytes
    content: bytes


def fields_of(certificate: bytes) -> list[DerElement]:
    """Return the fields of a certificate without its version. Errors: ValueError."""
    try:
        [whole] = elements(certificate)
        to_be_signed = next(elements(whole.content))
        return [each for each in elements(to_be_signed.content) if each.tag != VERSION]
    except (IndexError, StopIteration):
        raise ValueError(CUT_OFF) from None


def elements(encoded: bytes) -> Iterator[DerElement]:
    """Yield the elements that follow one another in DER. Errors: IndexError for a cut."""
    at = 0
    while at < len(encoded):
        start, tag, length = at, encoded[at], encoded[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(encoded[at : at + size], "big")
            at += size
        if at + length > len(encoded):
            raise IndexError
        yield DerElement(tag, encoded[start : at + length], encoded[at : at + length])
        at += length
