"""Java's modified UTF-8: a NUL takes two bytes, and a character above U+FFFF goes as its two
surrogates, three bytes each.
"""

from apportion.wire.codec_builder import Malformed

FOUR_BYTES = 0xF0
"""The first byte of a character of four bytes; modified UTF-8 has none."""


def to_modified(text: str) -> bytes:
    """`text` in modified UTF-8. ValueError for half a pair of surrogates."""
    if not text.isascii():
        units = text.encode("utf-16-le")
        text = "".join(
            chr(low | high << 8) for low, high in zip(units[::2], units[1::2], strict=True)
        )
    return text.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def from_modified(said: bytes | bytearray | memoryview) -> str:
    """The text of these bytes. Malformed where they are no modified UTF-8, or have half a pair of
    surrogates.
    """
    said = bytes(said)
    if said.isascii():
        return said.decode()
    if max(said) >= FOUR_BYTES:
        raise Malformed("it is not modified UTF-8")
    try:
        units = said.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise Malformed("it is not modified UTF-8") from None
