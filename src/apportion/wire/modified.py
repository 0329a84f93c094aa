"""Java's modified UTF-8, for the user data of the sticky assignors.

A NUL takes two bytes, and a character above U+FFFF is written as its two surrogates, three bytes
each.
"""

from apportion.wire.codec_builder import Malformed

FOUR_BYTES = 0xF0
"""The first byte of a character of four bytes; modified UTF-8 has none."""


def to_modified(text: str) -> bytes:
    """Return `text` in Java's modified UTF-8, as sticky assignors' user data has it.

    Errors: ValueError for half a pair of surrogates.
    """
    # Half a pair of surrogates fails here, in UTF-16, because no reader could take it.
    if not text.isascii():
        units = text.encode("utf-16-le")
        text = "".join(
            chr(low | high << 8) for low, high in zip(units[::2], units[1::2], strict=True)
        )
    return text.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def from_modified(encoded: bytes | bytearray | memoryview) -> str:
    """Return the text of bytes in Java's modified UTF-8, as sticky assignors' user data has it.

    Errors: Malformed where they are no modified UTF-8, or have half a pair of surrogates.
    """
    octets = bytes(encoded)
    if octets.isascii():
        return octets.decode()
    if max(octets) >= FOUR_BYTES:
        raise Malformed("it is not modified UTF-8")
    try:
        units = octets.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise Malformed("it is not modified UTF-8") from None
