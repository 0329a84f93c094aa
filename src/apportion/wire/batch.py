"""Record batches of format 2 (magic 2, KIP-98): their header alone, or with the records.

Produce and Fetch need the header only; ListOffsets by time, replay and compaction decode records.
Both refuse bytes that are not exactly one batch. Aborted transactions are not known here.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from apportion.errors import DecodeError
from apportion.wire.codec import Buffer
from apportion.wire.compression import compress, decompress
from apportion.wire.crc import crc32c
from apportion.wire.record_fields import (
    Headers,
    encode_record,
    read_bytes,
    read_headers,
    read_varint,
    signed_varint,
)

HEADER = Struct(">qiibIhiqqqhii")
CHECKED = Struct(">hiqqqhii")  # the part of the header that the CRC covers
HEADER_BYTES = HEADER.size
PREFIX_BYTES = 12  # base offset and length, which the length does not count
CHECKED_FROM = 21  # the first byte that the CRC covers
ATTRIBUTES_BYTE = 22  # the byte of the header that has all bits of the attributes in use
TRANSACTIONAL, CONTROL = 0x10, 0x20  # bits of the attributes
LIMIT_BYTES = 1 << 28
"""The most that the records of one batch may decompress to, unless the caller says otherwise."""


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch as fields.

    size_bytes: of the whole batch.
    """

    base_offset: int
    size_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # a field of this name hides tuple.count, which nobody needs

    @property
    def last_offset(self) -> int:
        """The last offset of the batch; compaction may have removed its record."""
        return self.base_offset + self.last_offset_delta

    def place(self, offset: int) -> int:
        """Return the offset of this batch by which readers count a record that has `offset`.

        The nearest one: a batch that Kafka stored uncompressed may have records at any offsets,
        which it does not check. Ranges of offsets part such a batch as any other.
        """
        return min(max(offset, self.base_offset), self.last_offset)

    @property
    def compression(self) -> int:
        """The number of the codec of the records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & 7

    @property
    def timestamp_type(self) -> int:
        """0 for CreateTime, 1 for LogAppendTime.

        CreateTime: each record has its own timestamp. LogAppendTime: all have `max_timestamp_ms`.
        """
        return self.attributes >> 3 & 1

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True for a control batch: a transaction marker, no record for readers."""
        return bool(self.attributes & CONTROL)


class InconsistentBatch(DecodeError):
    """A batch with a right CRC whose header fields contradict each other."""


class Record(NamedTuple):
    """One record with its offset and timestamp in the log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def read_header(view: Buffer) -> BatchHeader:
    """Return the header of the record batch `view`: exactly one batch, with a right CRC.

    Errors: DecodeError; InconsistentBatch if header fields contradict each other.
    """
    if len(view) < HEADER_BYTES:
        raise DecodeError(f"{len(view)} bytes are no record batch")
    fields = HEADER.unpack_from(view)
    header = BatchHeader(fields[0], fields[1] + PREFIX_BYTES, *fields[2:])
    if header.size_bytes != len(view):
        raise DecodeError(f"a record batch of {header.size_bytes} bytes in {len(view)} bytes")
    # Before the CRC, which other formats have in another place.
    if header.magic != 2:
        raise DecodeError(f"a record batch of format {header.magic}; only format 2 is known")
    if crc32c(memoryview(view)[CHECKED_FROM:]) != header.crc:
        raise DecodeError(f"the record batch at offset {header.base_offset} has a wrong CRC")
    if (
        header.compression > 4
        or header.last_offset_delta < 0
        # Fewer records than offsets are legal: compaction removes records and keeps the offsets.
        or not 0 <= header.count <= header.last_offset_delta + 1
    ):
        raise InconsistentBatch(
            f"the record batch at offset {header.base_offset} contradicts itself"
        )
    return header


def check_producer_batch(view: Buffer) -> BatchHeader:
    """Return the header of a Produce request's batch, which has as many records as offsets.

    Errors: those of `read_header`; InconsistentBatch.
    """
    header = read_header(view)
    # The broker chooses the offset; Kafka refuses any other number here, too.
    if header.base_offset != 0:
        raise InconsistentBatch(f"a produced record batch at offset {header.base_offset}, not 0")
    # A gap in a new batch would be an offset without a record for ever.
    if header.count != header.last_offset_delta + 1:
        raise InconsistentBatch(
            f"a record batch of {header.count} records for {header.last_offset_delta + 1} offsets"
        )
    return header


def split_batches(view: Buffer) -> Iterator[memoryview]:
    """Yield the whole batches of a Fetch response's records, without one that is cut off.

    Only the lengths are read.
    """
    rest = memoryview(view)
    while len(rest) >= HEADER_BYTES:
        size = int.from_bytes(rest[8:12], "big", signed=True) + PREFIX_BYTES
        if size < HEADER_BYTES:
            raise DecodeError(f"a record batch of {size} bytes")
        # Kafka cuts a Fetch response at its limit, within a batch; the next Fetch begins with that
        # batch.
        if size > len(rest):
            return
        yield rest[:size]
        rest = rest[size:]


def encode_batch(
    records: Iterable[tuple[bytes | None, bytes | None, Headers]],
    *,
    base_offset: int = 0,
    timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Encode a record batch of (key, value, headers) with one timestamp, at consecutive offsets.

    compression: the codec in which the records are compressed.
    """
    batch = join_encoded(
        [encode_record(*record) for record in records],
        base_offset=base_offset,
        timestamp_ms=timestamp_ms,
        attributes=compression,
        producer=(producer_id, producer_epoch, base_sequence),
        leader_epoch=leader_epoch,
    )
    return bytes(batch)


def join_encoded(
    records: Sequence[bytes],
    *,
    base_offset: int,
    timestamp_ms: int,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
) -> bytearray:
    """Return the record batch of records that are encoded already, at consecutive offsets.

    records: each as `encode_record` returns it. timestamp_ms: that of all of them.
    """
    body: list[bytes] = []
    for delta, record in enumerate(records):
        offset_delta = signed_varint(delta)
        # Attributes without a bit in use, and the distance 0 from the first timestamp.
        body += (signed_varint(2 + len(offset_delta) + len(record)), b"\0\0", offset_delta, record)
    return _with_header(
        body,
        base_offset=base_offset,
        attributes=attributes,
        last_offset_delta=max(0, len(records) - 1),
        first_and_last_ms=(timestamp_ms, timestamp_ms) if records else (-1, -1),
        producer=producer,
        leader_epoch=leader_epoch,
        count=len(records),
    )


def encode_records(
    records: Sequence[Record],
    *,
    base_offset: int,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
    last_offset_delta: int | None = None,
) -> bytes:
    """Encode a record batch of records with their own timestamps and offsets, which may have gaps.

    Called by log compaction and `encode_batch`. producer: id, epoch and base sequence.
    last_offset_delta: that of the last record, unless the batch once held later ones (compaction).
    """
    first_ms = records[0].timestamp_ms if records else -1
    body: list[bytes] = []
    for record in records:
        fields = encode_record(record.key, record.value, record.headers)
        time_delta = signed_varint(record.timestamp_ms - first_ms)
        deltas = time_delta + signed_varint(record.offset - base_offset)
        body += (signed_varint(1 + len(deltas) + len(fields)), b"\0", deltas, fields)
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset if records else 0
    last_ms = max((record.timestamp_ms for record in records), default=-1)
    batch = _with_header(
        body,
        base_offset=base_offset,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        first_and_last_ms=(first_ms, last_ms),
        producer=producer,
        leader_epoch=leader_epoch,
        count=len(records),
    )
    return bytes(batch)


def _with_header(
    records: list[bytes],
    *,
    base_offset: int,
    attributes: int,
    last_offset_delta: int,
    first_and_last_ms: tuple[int, int],
    producer: tuple[int, int, int],
    leader_epoch: int,
    count: int,
) -> bytearray:
    """Return the record batch of encoded records, compressed as `attributes` says.

    records: their parts, one behind the other.
    """
    # The header is written into the place before them: a batch may be large, and is not copied.
    batch = bytearray().join((bytes(HEADER_BYTES), *records))
    if attributes & 7:
        batch[HEADER_BYTES:] = compress(attributes & 7, batch[HEADER_BYTES:])
    checked = (attributes, last_offset_delta, *first_and_last_ms, *producer, count)
    # Without base offset and leader epoch, which the broker sets afterwards.
    crc = crc32c(memoryview(batch)[HEADER_BYTES:], crc32c(CHECKED.pack(*checked)))
    size = len(batch) - PREFIX_BYTES
    HEADER.pack_into(batch, 0, base_offset, size, leader_epoch, 2, crc, *checked)
    return batch


def decode_batch(view: Buffer, limit_bytes: int = LIMIT_BYTES) -> list[Record]:
    """Decode the records of one whole record batch.

    limit_bytes: how much the records may decompress to.
    Errors: DecodeError for anything malformed, also inside compressed data.
    """
    header = read_header(view)
    body = memoryview(view)[HEADER_BYTES:]
    return decode_records(decompress(header.compression, body, limit_bytes), header)[0]


def decode_records(plain: bytes, header: BatchHeader) -> tuple[list[Record], bool]:
    """Decode the records of a batch from its decompressed body; return also if they are in order.

    Every record that Kafka stores is read: their offsets may repeat, descend and lie outside of the
    batch, which is no order.
    Errors: DecodeError for anything malformed.
    """
    try:
        records, end, is_in_order = _decode_records(plain, header)
    except IndexError:
        raise DecodeError(
            f"the records of the batch at offset {header.base_offset} end too early"
        ) from None
    if end != len(plain):
        raise DecodeError(
            f"{len(plain) - end} bytes after the records of the batch at offset "
            f"{header.base_offset}"
        )
    return records, is_in_order


def _decode_records(plain: bytes, header: BatchHeader) -> tuple[list[Record], int, bool]:
    """Return the records of a batch's decompressed body, where they end, and if they are in order.

    No length is below zero, and the last position of a record must be its declared end, so no slice
    was cut short. Numbers of one byte are read in place, because they are most of them and a call
    would take longer than all the rest.
    """
    base_offset = header.base_offset
    base_ms = header.first_timestamp_ms
    is_stamped = header.timestamp_type
    timestamp_ms, at = header.max_timestamp_ms, 0
    last_delta, is_in_order = -1, True
    records = []
    for _ in range(header.count):
        size, at = read_varint(plain, at)
        end = at + size
        if size < 0 or end > len(plain):
            raise IndexError
        at += 1  # the attributes of a record have no bit in use
        if (byte := plain[at]) < 128:
            delta, at = byte >> 1 ^ -(byte & 1), at + 1
        else:
            delta, at = read_varint(plain, at, 64)
        if not is_stamped:
            timestamp_ms = base_ms + delta
            # The delta has 64 bits of its own, so the sum may have more: Java drops them.
            if not -(1 << 63) <= timestamp_ms < 1 << 63:
                timestamp_ms = (timestamp_ms + (1 << 63)) % (1 << 64) - (1 << 63)
        if (byte := plain[at]) < 128:
            delta, at = byte >> 1 ^ -(byte & 1), at + 1
        else:
            delta, at = read_varint(plain, at)
        if delta <= last_delta:
            is_in_order = False
        last_delta = delta
        key, at = read_bytes(plain, at)
        value, at = read_bytes(plain, at)
        headers: Headers = ()
        if plain[at]:
            headers, at = read_headers(plain, at)
        else:
            at += 1
        # A length that lies would make the next record begin in the middle of this one.
        if at != end:
            raise DecodeError(
                f"a record of {size} bytes that does not end where its last field ends"
            )
        records.append(
            tuple.__new__(Record, (base_offset + delta, timestamp_ms, key, value, headers))
        )
    return records, at, is_in_order and last_delta <= header.last_offset_delta
