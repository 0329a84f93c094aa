"""The fields of one record in a batch of format 2: lengths and distances as varints, and bytes.

`batch.py` puts records together, and takes batches apart.
"""

from apportion.errors import DecodeError
from apportion.wire.writing import varint

Headers = tuple[tuple[str, bytes | None], ...]


def encode_record(key: bytes | None, value: bytes | None, headers: Headers = ()) -> bytes:
    """Encode what a record has beside its offset and its timestamp, for `join_encoded`."""
    parts = [*_with_length(key), *_with_length(value), signed_varint(len(headers))]
    for name, content in headers:
        parts += (*_with_length(name.encode()), *_with_length(content))
    return b"".join(parts)


def decode_record(encoded: bytes) -> tuple[bytes | None, bytes | None, Headers]:
    """Return key, value and headers of a record that `encode_record` has encoded."""
    key, at = read_bytes(encoded, 0)
    value, at = read_bytes(encoded, at)
    return key, value, read_headers(encoded, at)[0]


def _with_length(octets: bytes | None) -> tuple[bytes, ...]:
    """Return a record's key, value or header value with its length before it; None for null."""
    return (b"\1",) if octets is None else (signed_varint(len(octets)), octets)  # 1: the length -1


def signed_varint(number: int) -> bytes:
    """Return a number as a zigzag varint, as a record has its lengths and distances."""
    return varint(number << 1 if number >= 0 else ~(number << 1))


def read_headers(plain: bytes, at: int) -> tuple[Headers, int]:
    """Return the headers of one record of a batch, and the position after them."""
    count, at = read_varint(plain, at)
    if count < 0:
        raise DecodeError(f"a record with {count} headers")
    headers = []
    for _ in range(count):
        name, at = read_bytes(plain, at)
        value, at = read_bytes(plain, at)
        if name is None:
            raise DecodeError("a header without a name")
        # As Java reads it: a broker does not check names, so a log may hold any bytes there.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at


def read_bytes(plain: bytes, at: int) -> tuple[bytes | None, int]:
    """Return a record's key, value or header value at `at` (or None), and the position after it.

    plain: the decompressed records of a batch. The bytes are fewer than their varint length where
    `plain` ends too early: the caller sees it by the position.
    """
    byte = plain[at]
    if byte < 128:
        size, at = byte >> 1 ^ -(byte & 1), at + 1
    else:
        size, at = read_varint(plain, at)
    # Writers say -1 for null, and brokers and clients take every length below zero for it.
    if size < 0:
        return None, at
    return plain[at : at + size], at + size


def read_varint(plain: bytes, at: int, bits: int = 32) -> tuple[int, int]:
    """Return the zigzag varint at `at` in a batch's records, and the position after it.

    Bits beyond `bits` in its last byte are dropped, as by Kafka, which stores such a varint.
    Errors: IndexError beyond the end of `plain`, DecodeError for more bytes than `bits` bits need.
    """
    byte = plain[at]
    if byte < 128:
        return byte >> 1 ^ -(byte & 1), at + 1
    zigzag, shift = byte & 127, 7
    while True:
        at += 1
        byte = plain[at]
        zigzag |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        # Python's integers have no end, so a long varint would cost as much memory as it likes.
        if shift >= bits:
            raise DecodeError("a varint that does not end")
    zigzag &= (1 << bits) - 1
    return zigzag >> 1 ^ -(zigzag & 1), at + 1
