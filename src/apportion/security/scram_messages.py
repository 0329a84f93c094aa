"""The messages of SCRAM (RFC 5802, section 7): attributes in a fixed order, and extensions.

Extensions are ignored, as the RFC wants it, but for a mandatory one, which nobody knows.
"""

import binascii
from base64 import b64decode, b64encode
from typing import NamedTuple

from apportion.security.exchange import UnacceptableBytes

MANDATORY = "m"
"""The attribute of an extension without which the sender does not want to go on."""


class ScramAttributes(NamedTuple):
    """The values of the attributes that a message must have, and the others by their names."""

    values: list[str]
    extensions: dict[str, str]


def attributes(message: str, keys: str) -> ScramAttributes:
    """Split a message of SCRAM that begins with attributes of these one-letter names.

    Errors: UnacceptableBytes.
    """
    pairs = [part.partition("=") for part in message.split(",")]
    names = [name for name, _, _ in pairs]
    if MANDATORY in names:
        raise UnacceptableBytes("the peer insists on an extension of SCRAM, and none is known")
    if not all(equals and name.isascii() and name.isalpha() for name, equals, _ in pairs):
        raise UnacceptableBytes("a message of SCRAM has a part that is no attribute")
    if names[: len(keys)] != list(keys):
        raise UnacceptableBytes(f"a message of SCRAM does not begin with {', '.join(keys)}")
    values = [value for _, _, value in pairs]
    extensions = dict(zip(names[len(keys) :], values[len(keys) :], strict=True))
    return ScramAttributes(values[: len(keys)], extensions)


def is_nonce(text: str) -> bool:
    """Return whether the text can be a nonce: printable ASCII characters but the comma."""
    return bool(text) and all("!" <= each <= "~" and each != "," for each in text)


def encoded(value: bytes) -> str:
    """Return a salt, proof or signature as a message has it."""
    return b64encode(value).decode()


def decoded(text: str) -> bytes:
    """Return a salt, proof or signature of a message. Errors: UnacceptableBytes."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnacceptableBytes("a message of SCRAM has what is not base64") from None
