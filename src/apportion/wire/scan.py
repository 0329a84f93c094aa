"""Offsets, timestamps and null keys of a batch's records, as columns.

Used by Produce to validate batches of compacted or time-checked topics, and by ListOffsets by time.
No record becomes an object. The record lengths are followed one by one and everything else is read
in columns by NumPy; a batch of few records is read faster one by one. Keys, values and headers are
not looked into: a record must end where its value ends, or behind it if it has headers. Topic rules
are checked elsewhere. `columns` reads whole records, by compiled kernels that a broker does not
load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from apportion.errors import DecodeError
from apportion.lazy_imports import lazy_module
from apportion.wire.record_fields import read_varint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.wire.batch import BatchHeader

    Int64Column: TypeAlias = NDArray[np.int64]
else:
    np = lazy_module("numpy")

SHORTEST_RECORD_BYTES = 7
MAX_SCANNED_ONE_BY_ONE = 80
"""Up to this many records a loop is faster than columns."""
ONE_BY_ONE = 32
"""The lengths of so many records are followed before several of one length are looked for."""
WORTH_A_LOOK = 128
"""To find so many together is faster than to follow their lengths."""
MISFIT = "a record that does not end where its last field ends"


class RecordColumns(NamedTuple):
    """The records of one batch as they lie there, a column for each property.

    offsets: in any order, also outside of the batch. has_key: False for a null key.
    """

    offsets: Int64Column
    timestamps_ms: Int64Column
    has_key: NDArray[np.bool_]


def scan_records(plain: bytes, header: BatchHeader) -> RecordColumns:
    """Return offsets, timestamps and null keys of the records in a batch's decompressed body.

    Called to validate batches of Produce, and by the log for ListOffsets by time.
    Errors: DecodeError for malformed records.
    """
    try:
        return (
            _scan_one_by_one(plain, header)
            if header.count <= MAX_SCANNED_ONE_BY_ONE
            else _scan_in_columns(plain, header)
        )
    except IndexError:
        raise DecodeError(
            f"the records of the batch at offset {header.base_offset} end too early"
        ) from None


def _scan_one_by_one(plain: bytes, header: BatchHeader) -> RecordColumns:
    """Scan a small batch's decompressed records in a loop; see `scan_records`."""
    offset_deltas, time_deltas, has_key, at = [], [], [], 0
    for _ in range(header.count):
        size, at = read_varint(plain, at)
        end = at + size
        if size < 0 or end > len(plain):
            raise DecodeError("a record that ends before it begins, or behind its batch")
        delta, at = read_varint(plain, at + 1, 64)  # the attributes of a record have no bit in use
        time_deltas.append(delta)
        delta, at = read_varint(plain, at)
        offset_deltas.append(delta)
        key_bytes, at = read_varint(plain, at)
        has_key.append(key_bytes >= 0)
        value_bytes, at = read_varint(plain, at + max(key_bytes, 0))
        at += max(value_bytes, 0)
        # The byte here is the number of headers. With 0 the record ends behind it; else they fill
        # the rest.
        if at + 1 >= end if plain[at] else at + 1 != end:
            raise DecodeError(MISFIT)
        at = end
    if at != len(plain):
        raise DecodeError(
            f"{len(plain) - at} bytes after the records of the batch at offset {header.base_offset}"
        )
    return _columns(
        header,
        np.array(offset_deltas, np.int64),
        np.array(time_deltas, np.int64),
        np.array(has_key, np.bool_),
    )


def _scan_in_columns(plain: bytes, header: BatchHeader) -> RecordColumns:
    """Scan a large batch's decompressed records by NumPy; see `scan_records`."""
    octets = np.frombuffer(plain, np.uint8)
    sizes, start = _varints(octets, _record_starts(plain, octets, header), 32)
    ends = start + sizes
    # the attributes of a record have no bit in use
    time_deltas, at = _varints(octets, start + 1, 64)
    offset_deltas, at = _varints(octets, at, 32)
    key_sizes, at = _varints(octets, at, 32)
    value_sizes, at = _varints(octets, at + np.maximum(key_sizes, 0), 32)
    at += np.maximum(value_sizes, 0)
    has_headers = octets[at] != 0
    if np.where(has_headers, at + 1 >= ends, at + 1 != ends).any():
        raise DecodeError(MISFIT)
    return _columns(header, offset_deltas, time_deltas, key_sizes >= 0)


def _columns(
    header: BatchHeader,
    offset_deltas: Int64Column,
    time_deltas: Int64Column,
    has_key: NDArray[np.bool_],
) -> RecordColumns:
    """Return the columns of a scanned batch's records."""
    # A sum of more than 64 bits loses the others in an array, as in Java.
    timestamps_ms = (
        np.full(len(time_deltas), header.max_timestamp_ms)
        if header.timestamp_type
        else header.first_timestamp_ms + time_deltas
    )
    return RecordColumns(header.base_offset + offset_deltas, timestamps_ms, has_key)


def _record_starts(plain: bytes, octets: NDArray[np.uint8], header: BatchHeader) -> Int64Column:
    """Return where each record of a decompressed batch begins, with its length.

    octets: the bytes of `plain`. Most lengths have one or two bytes and are read inline. After some
    records of the same length, those behind them that have it, too, are found together. Where they
    are few, the next look is put off for longer each time: a client may have made that up.
    """
    # Before the loop: a header of 61 bytes may claim two billion records.
    if header.count * SHORTEST_RECORD_BYTES > len(plain):
        raise DecodeError(f"{header.count} records in {len(plain)} bytes")
    columns: list[Int64Column] = []
    at, left, stretch = 0, header.count, ONE_BY_ONE
    while left:
        heads: list[int] = []
        for _ in range(min(left, stretch)):
            heads.append(at)
            size = plain[at]
            if size < 128:
                at += 1
            else:
                size += (plain[at + 1] - 1) << 7  # -1 takes away the first continuation bit
                at += 2
                if size >> 14:  # the second is set, too
                    number, at = read_varint(plain, heads[-1])
                    size = number << 1 if number >= 0 else 1
            if size & 1:  # in zigzag, odd numbers are negative
                raise DecodeError("a record of less than no bytes")
            at += size >> 1
        left -= len(heads)
        columns.append(np.array(heads, np.int64))
        stride = at - heads[-1]
        if left and heads[-3:] == [at - 3 * stride, at - 2 * stride, at - stride]:
            more = _count_alike(octets, heads[-1], stride - (size >> 1), stride, left)
            columns.append(np.arange(at, at + more * stride, stride))
            at, left = at + more * stride, left - more
            stretch = ONE_BY_ONE if more >= WORTH_A_LOOK else 2 * stretch
    if at != len(plain):
        raise DecodeError(
            f"{len(plain) - at} bytes after the records of the batch at offset {header.base_offset}"
        )
    return np.concatenate(columns)


def _count_alike(
    octets: NDArray[np.uint8], head: int, size_bytes: int, stride: int, most: int
) -> int:
    """Return how many records behind the one at `head` have its length, up to the first other.

    size_bytes: of the length itself. stride: of the record with its length. It looks ahead twice as
    far each time, so that the cost follows what is found.
    """
    size = octets[head : head + size_bytes]
    most = min(most, (len(octets) - head) // stride - 1)
    found = 0
    while found < most:
        ahead = min(found + ONE_BY_ONE, most - found)
        start = head + (found + 1) * stride
        is_alike = np.ones(ahead, np.bool_)
        for index in range(size_bytes):
            is_alike &= octets[start + index : start + ahead * stride : stride] == size[index]
        if not is_alike.all():
            return found + int(is_alike.argmin())
        found += ahead
    return found


def _varints(
    octets: NDArray[np.uint8], at: Int64Column, bits: int
) -> tuple[Int64Column, Int64Column]:
    """Return the zigzag varints of a batch's records at these positions, and where they end.

    Bits beyond `bits` in its last byte are dropped, as in `read_varint`.
    Errors: IndexError beyond the end, DecodeError for more bytes than `bits` bits need.
    """
    octet = octets[at]
    zigzag = (octet & 127).astype(np.uint64)
    at = at + 1
    shift, more = 7, np.flatnonzero(octet > 127)
    while more.size:
        if shift >= bits:
            raise DecodeError("a varint that does not end")
        # Lengths of records are often alike: then all of them have another byte.
        which = slice(None) if more.size == at.size else more
        octet = octets[at[which]]
        zigzag[which] |= (octet & 127).astype(np.uint64) << np.uint64(shift)
        at[which] += 1
        more = more[octet > 127]
        shift += 7
    zigzag &= np.uint64((1 << bits) - 1)
    halves, signs = zigzag >> np.uint64(1), zigzag & np.uint64(1)
    return halves.view(np.int64) ^ -signs.view(np.int64), at
