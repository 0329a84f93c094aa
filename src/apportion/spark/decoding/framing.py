"""The bytes in front of a value that was written by a schema registry's serializer.

One byte of 0, and the id of the writer's schema as 4 bytes, big-endian. In Protobuf the place of
the message in its file follows, as varints. The payload comes after that.
"""

import struct
from typing import NamedTuple

from apportion.spark.decoding.errors import UndecodableRecord

MAGIC = 0
PREFIX = struct.Struct(">bI")
CONTINUES, SEVEN_BITS = 0x80, 0x7F
MAX_VARINT_BYTES = 5  # of a number below 2**32
MAX_INDEXES = 100


class FramedValue(NamedTuple):
    """A value in its parts: the id of its writer's schema, and the bytes behind it."""

    schema_id: int
    payload: bytes


def framed(value: bytes) -> FramedValue:
    """Return the parts of a value. Raises UndecodableRecord if no serializer has written it."""
    if len(value) < PREFIX.size:
        raise UndecodableRecord(
            f"the value has {len(value)} bytes, and the id of its schema takes {PREFIX.size}: was "
            "it written by a serializer of the schema registry?"
        )
    magic, schema_id = PREFIX.unpack_from(value)
    if magic != MAGIC:
        raise UndecodableRecord(
            f"the value begins with byte {magic}, not with {MAGIC}: was it written by a serializer "
            "of the schema registry?"
        )
    return FramedValue(schema_id, value[PREFIX.size :])


def without_message_indexes(payload: bytes) -> bytes:
    """Return a Protobuf message without the indexes in front of it. Raises UndecodableRecord."""
    count, at = _zigzag(payload, 0)
    if not 0 <= count <= MAX_INDEXES:
        raise UndecodableRecord(f"the value has {count} message indexes")
    for _ in range(count):  # none stands for the file's first message
        _, at = _zigzag(payload, at)
    return payload[at:]


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag varint at an index, and the index behind it."""
    number = 0
    for position, byte in enumerate(payload[at : at + MAX_VARINT_BYTES]):
        number |= (byte & SEVEN_BITS) << (7 * position)
        if not byte & CONTINUES:
            return (number >> 1) ^ -(number & 1), at + position + 1
    raise UndecodableRecord("the value ends within its message indexes")
