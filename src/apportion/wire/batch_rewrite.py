"""Changes that a broker makes to the header of a producer's batch before it stores the batch.

Base offset and leader epoch always; timestamps and compression where the topic's settings demand
it. The records themselves are not decoded, and only those change that get other offsets.
"""

from apportion.wire.batch import CHECKED, HEADER, HEADER_BYTES, PREFIX_BYTES, BatchHeader
from apportion.wire.codec import Buffer
from apportion.wire.compression import compress
from apportion.wire.crc import crc32c
from apportion.wire.record_fields import read_varint, signed_varint

APPEND_TIME = 8  # the attribute bit of LogAppendTime


def set_base_offset(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set a produced batch's base offset and leader epoch in place; the CRC covers neither."""
    # The format leaves both out of the CRC for this purpose: a broker need not read the records
    # again.
    batch[0:8] = base_offset.to_bytes(8, "big", signed=True)
    batch[12:16] = leader_epoch.to_bytes(4, "big", signed=True)


def stamp_append_time(batch: bytearray, append_ms: int) -> BatchHeader:
    """Give every record of a produced batch the time of its append; return the new header.

    For topics with LogAppendTime, as Kafka does. The timestamp type, the largest timestamp and the
    CRC change. The first timestamp and the records stay as the producer wrote them: a reader of
    this timestamp type looks at neither.
    """
    return _with_attributes(
        batch, BatchHeader(*HEADER.unpack_from(batch)).attributes | APPEND_TIME, append_ms
    )


def stamp_create_time(batch: bytearray, max_timestamp_ms: int) -> BatchHeader:
    """Give a produced batch the type CreateTime and this largest timestamp in place.

    Returns the new header. For a batch whose header did not fit its records.
    """
    return _with_attributes(
        batch, BatchHeader(*HEADER.unpack_from(batch)).attributes & ~APPEND_TIME, max_timestamp_ms
    )


def recompress(header: BatchHeader, plain: Buffer, codec: int) -> bytearray:
    """Return a produced batch in another compression, for the topic setting `compression.type`.

    plain: the records, not compressed.
    """
    body = compress(codec, plain)
    size = HEADER_BYTES - PREFIX_BYTES + len(body)
    batch = bytearray(
        HEADER.pack(header.base_offset, size, header.leader_epoch, 2, 0, *header[5:]) + body
    )
    # The lowest three bits of the attributes are the compression.
    _with_attributes(batch, header.attributes & ~7 | codec, header.max_timestamp_ms)
    return batch


def renumbered(plain: bytes, count: int) -> bytes:
    """Return the records of a produced batch at consecutive offsets, otherwise as they are.

    For a batch that is compressed for its topic; a scan has checked the records. plain: not
    compressed. count: how many there are.
    """
    parts: list[bytes] = []
    at = 0
    for number in range(count):
        size, start = read_varint(plain, at)
        _, before = read_varint(plain, start + 1, 64)  # behind the attributes and the timestamp
        _, behind = read_varint(plain, before)
        at = start + size
        offset_delta = signed_varint(number)
        new_size = size - (behind - before) + len(offset_delta)
        parts += (signed_varint(new_size), plain[start:before], offset_delta, plain[behind:at])
    return b"".join(parts)


def _with_attributes(batch: bytearray, attributes: int, max_timestamp_ms: int) -> BatchHeader:
    """Set a produced batch's attributes, largest timestamp and CRC in place; return the header."""
    base_offset, size, leader_epoch, magic, _, *checked = HEADER.unpack_from(batch)
    checked[0], checked[3] = attributes, max_timestamp_ms
    crc = crc32c(memoryview(batch)[HEADER_BYTES:], crc32c(CHECKED.pack(*checked)))
    HEADER.pack_into(batch, 0, base_offset, size, leader_epoch, magic, crc, *checked)
    return BatchHeader(base_offset, size + PREFIX_BYTES, leader_epoch, magic, crc, *checked)
