"""Numba kernels: the records of one batch into NumPy columns, every byte checked before it is read.

Called by `row_buffer.py`. Positions are unsigned and bytes are copied by memcpy: signed indexes and
byte loops are four times slower. A kernel only reports that a batch is malformed; `read.py` then
decodes it again in Python for an error that names the fault.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from apportion.columns.schema import MAX_TIMESTAMP_MS

F = TypeVar("F", bound=Callable[..., Any])

ZERO, ONE, THREE, SEVEN = (np.uint64(n) for n in (0, 1, 3, 7))
CONTINUES, LOW_BITS, LOW_32_BITS = (np.uint64(n) for n in (128, 127, (1 << 32) - 1))
MALFORMED = np.uint64(1 << 63)
"""The position behind a varint that cannot be read.

It is larger than every real position, and so is everything that is read from there on: a caller
compares once with the record's end, and not after each field.
"""

(
    ROWS,
    KEY_END,
    VALUE_END,
    KEY_NULLS,
    VALUE_NULLS,
    HEADERS,
    NAME_END,
    HEADER_VALUE_END,
    HEADER_VALUE_NULLS,
) = range(9)
"""The layout of `counters`, one int64 each: what the Arrow columns hold so far.

Rows; the bytes of the keys and of the values; how many of each are null; then of the column
`headers`: their number, the bytes of names and of values, and the values that are null.
"""


def compile_on_first_use(function: F) -> F:
    """Return `function` compiled by numba on its first call.

    The machine code is cached on disk, unless there is no directory that numba can write to.
    """
    try:
        return cast("F", njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no directory for its cache
        return cast("F", njit(nogil=True)(function))


# numba calls it with the types of the arguments of `copy_bytes`
def _memcpy_intrinsic(
    _typing: Any, target: Any, _at: Any, source: Any, _start: Any, _size: Any
) -> Any:
    """Return the signature and the code generator of `copy_bytes`, as Numba asks for them."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers = [
            context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 2)
        ]
        target_address = builder.gep(pointers[0], [args[1]])
        source_address = builder.gep(pointers[1], [args[3]])
        cgutils.raw_memcpy(builder, target_address, source_address, args[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64, types.uint64), build


copy_bytes: Any = intrinsic(_memcpy_intrinsic)
"""Copy bytes between arrays: `copy_bytes(target, target_start, source, source_start, size)`.

The numbers are unsigned. Nothing is checked: both arrays must be large enough.
"""


@compile_on_first_use
def read_varint(body: Any, position: Any, end: Any) -> Any:
    """Return the zigzag varint (32 bits) at a position, and the position behind, or MALFORMED."""
    if position >= end:
        return np.int64(0), MALFORMED
    byte = np.uint64(body[position])
    position += ONE
    if byte < CONTINUES:
        return np.int64(byte >> ONE) ^ -np.int64(byte & ONE), position
    # 32 bits are five bytes of seven: a sixth one makes it malformed. Bits beyond the 32nd are
    # dropped, as by Kafka.
    zigzag, shift = byte & LOW_BITS, SEVEN
    while byte >= CONTINUES:
        if position >= end or shift > np.uint64(28):
            return np.int64(0), MALFORMED
        byte = np.uint64(body[position])
        position += ONE
        zigzag |= (byte & LOW_BITS) << shift
        shift += SEVEN
    zigzag &= LOW_32_BITS
    return np.int64(zigzag >> ONE) ^ -np.int64(zigzag & ONE), position


@compile_on_first_use
def read_varlong(body: Any, position: Any, end: Any) -> Any:
    """Return the zigzag varlong (64 bits) at a position, and the position behind, or MALFORMED."""
    if position < end and body[position] < 128:
        return np.int64(body[position] >> 1) ^ -np.int64(body[position] & 1), position + ONE
    zigzag, shift, byte = ZERO, ZERO, CONTINUES
    while byte >= CONTINUES:
        if position >= end or shift > np.uint64(63):
            return np.int64(0), MALFORMED
        byte = np.uint64(body[position])
        position += ONE
        zigzag |= (byte & LOW_BITS) << shift
        shift += SEVEN
    return np.int64(zigzag >> ONE) ^ -np.int64(zigzag & ONE), position


@compile_on_first_use
def skip_bytes(position: Any, size: Any) -> Any:
    """Return the position behind a field of `size` bytes; a null, of size < 0, has no bytes."""
    return position + np.uint64(size) if size > 0 else position


@compile_on_first_use
def skip_headers(body: Any, position: Any, end: Any, count: Any) -> Any:
    """Return the position behind `count` record headers; one after `end` if they are malformed."""
    for _ in range(count):
        name_size, position = read_varint(body, position, end)
        if name_size < 0:
            return MALFORMED
        value_size, position = read_varint(body, skip_bytes(position, name_size), end)
        position = skip_bytes(position, value_size)
        if position > end:
            return MALFORMED
    return position


@compile_on_first_use
def append_binary(
    target: Any,
    ends: Any,
    bits: Any,
    row: Any,
    start: Any,
    body: Any,
    position: Any,
    size: Any,
) -> Any:
    """Append `body[position:position + size]`, or a null for a size < 0, as row `row` of a column.

    start: the bytes in `target` so far. Returns the same with this row.
    """
    # Without a branch: with one, numba counts references to `target` in every row, and the loop is
    # four times slower.
    length = np.uint64(max(size, 0))
    copy_bytes(target, start, body, position, length)
    start += length
    bits[row >> THREE] &= np.uint8(~(np.uint64(size < 0) << (row & SEVEN)))
    ends[row + ONE] = start
    return start


@compile_on_first_use
def decode_records(
    body: Any,
    header: Any,
    int64s: Any,
    int32s: Any,
    valid_bits: Any,
    keys: Any,
    values: Any,
    counters: Any,
) -> Any:
    """Append the records of one batch to the columns; return False if a record is malformed.

    body: the batch's records, decompressed. header: count, base offset, last offset delta, base
    timestamp in ms, timestamp type, and the first and the end of the offsets to append.
    int64s: offset; timestamp in us. int32s: ends of keys; ends of values (both with
    one element more than rows); timestamp type; position in `body` and number of the headers.
    valid_bits: of keys and of values, all ones before. keys, values: with room for `len(body)`
    more bytes. counters: what the columns hold before and after the call, laid out as ROWS ...
    HEADER_VALUE_NULLS. After False the columns have no more rows, as the counters are unchanged.
    A record's offset is its place in the batch (`BatchHeader.place`), so that ranges of offsets and
    what counts rows by them have each record once. It is appended if that is one of these offsets.
    All others are checked all the same.

    The loop is one long function on purpose: a call per field costs a tenth of the speed.
    """
    count, base_offset, last_delta, base_ms, time_type, from_offset, before_offset = header
    offsets, timestamps, key_bits, value_bits = int64s[0], int64s[1], valid_bits[0], valid_bits[1]
    key_ends, value_ends, time_types = int32s[0], int32s[1], int32s[2]
    headers_at, header_counts = int32s[3], int32s[4]
    row = np.uint64(counters[ROWS])
    key_end, value_end = np.uint64(counters[KEY_END]), np.uint64(counters[VALUE_END])
    position, end, last_offset = ZERO, np.uint64(body.size), base_offset + last_delta
    key_nulls, value_nulls, headers = counters[KEY_NULLS], counters[VALUE_NULLS], counters[HEADERS]
    for _ in range(count):
        size, position = read_varint(body, position, end)
        if size < 0:
            return False
        record_end = position + np.uint64(size)
        if record_end > end:
            return False
        # + ONE: the record's attributes, of which no bit is in use.
        time_delta, position = read_varlong(body, position + ONE, record_end)
        offset_delta, position = read_varint(body, position, record_end)
        key_size, key_position = read_varint(body, position, record_end)
        value_size, value_position = read_varint(
            body, skip_bytes(key_position, key_size), record_end
        )
        header_count, header_position = read_varint(
            body, skip_bytes(value_position, value_size), record_end
        )
        position = header_position
        if header_count:
            position = skip_headers(body, position, record_end, header_count)
        if position != record_end or header_count < 0:
            return False
        place = min(max(base_offset + offset_delta, base_offset), last_offset)
        if from_offset <= place < before_offset:
            # A sum of more than 64 bits loses the others, as in Java.
            timestamp_ms = base_ms if time_type else base_ms + time_delta
            timestamp_ms = min(max(timestamp_ms, -MAX_TIMESTAMP_MS), MAX_TIMESTAMP_MS)
            offsets[row], timestamps[row], time_types[row] = place, timestamp_ms * 1000, time_type
            key_end = append_binary(
                keys, key_ends, key_bits, row, key_end, body, key_position, key_size
            )
            value_end = append_binary(
                values, value_ends, value_bits, row, value_end, body, value_position, value_size
            )
            key_nulls += key_size < 0
            value_nulls += value_size < 0
            headers_at[row], header_counts[row] = header_position, header_count
            headers += header_count
            row += ONE
    counters[ROWS], counters[KEY_END], counters[VALUE_END] = row, key_end, value_end
    counters[KEY_NULLS], counters[VALUE_NULLS], counters[HEADERS] = key_nulls, value_nulls, headers
    return position == end


@compile_on_first_use
def decode_headers(
    body: Any,
    rows: Any,
    int32s: Any,
    lists: Any,
    fields: Any,
    names: Any,
    values: Any,
    counters: Any,
) -> None:
    """Append the record headers of some rows to the columns of the list column `headers`.

    `decode_records` has checked them. rows: the first row, and the one behind the last.
    int32s: as in `decode_records`. lists: the end of each row, as a number of headers, and
    the rows' validity. fields: the ends of names and values, and their validity. All validity bits
    are ones before. names, values: with room for `len(body)` more bytes.
    """
    ends, row_bits = lists
    header = np.uint64(ends[rows[0]])
    name_end, value_end = np.uint64(counters[NAME_END]), np.uint64(counters[HEADER_VALUE_END])
    end = np.uint64(body.size)
    for row in range(np.uint64(rows[0]), np.uint64(rows[1])):
        position = np.uint64(int32s[3, row])
        for _ in range(int32s[4, row]):
            name_size, name_position = read_varint(body, position, end)
            value_size, value_position = read_varint(
                body, skip_bytes(name_position, name_size), end
            )
            position = skip_bytes(value_position, value_size)
            name_end = append_binary(
                names, fields[0][0], fields[1][0], header, name_end, body, name_position, name_size
            )
            value_end = append_binary(
                values,
                fields[0][1],
                fields[1][1],
                header,
                value_end,
                body,
                value_position,
                value_size,
            )
            counters[HEADER_VALUE_NULLS] += value_size < 0
            header += ONE
        if int32s[4, row] == 0:
            row_bits[row >> THREE] &= np.uint8(~(ONE << (row & SEVEN)))
        ends[row + ONE] = header
    counters[NAME_END], counters[HEADER_VALUE_END] = name_end, value_end
