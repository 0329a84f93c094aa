"""The compiled loops: records of one batch into the columns of a table, every byte checked before
it is read.

Positions are unsigned and copies go through one memcpy, because signed indexes and byte loops are
four times slower. An error needs no name here: the caller decodes the batch again in Python and
lets that say what is wrong.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

ZERO, ONE, THREE, SEVEN = (np.uint64(n) for n in (0, 1, 3, 7))
MORE, LOW = np.uint64(128), np.uint64(127)
BAD = np.uint64(1 << 63)
"""A position after every end: a varint that cannot be read ends here, and so does everything read
from here.
"""

MOST_MS = (1 << 63) // 1000 - 1
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
"""What `tally` counts: rows, bytes and nulls so far."""


def compile_on_first_use(function: F) -> F:
    """`function` compiled on its first call, kept on disk where some cache directory can be
    written.
    """
    try:
        return cast("F", njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no directory for its cache
        return cast("F", njit(nogil=True)(function))


def _memcpy(typing: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ends = [
            context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 2)
        ]
        there, here = builder.gep(ends[0], [args[1]]), builder.gep(ends[1], [args[3]])
        cgutils.raw_memcpy(builder, there, here, args[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64, types.uint64), build


copy: Any = intrinsic(_memcpy)
"""`copy(target, at, source, start, size)`: `target[at:at + size] = source[start:start + size]`,
unsigned and without a check.
"""


@compile_on_first_use
def varint(body: Any, at: Any, end: Any) -> Any:
    """The 32-bit number at `at` and the position behind it, or BAD."""
    if at >= end:
        return np.int64(0), BAD
    byte = np.uint64(body[at])
    at += ONE
    if byte < MORE:
        return np.int64(byte >> ONE) ^ -np.int64(byte & ONE), at
    zigzag, shift = byte & LOW, SEVEN
    while byte >= MORE:
        if at >= end or shift > np.uint64(28):
            return np.int64(0), BAD
        byte = np.uint64(body[at])
        at += ONE
        zigzag |= (byte & LOW) << shift
        shift += SEVEN
    if zigzag >> np.uint64(32):
        return np.int64(0), BAD
    return np.int64(zigzag >> ONE) ^ -np.int64(zigzag & ONE), at


@compile_on_first_use
def varlong(body: Any, at: Any, end: Any) -> Any:
    """The 64-bit number at `at` and the position behind it, or BAD."""
    if at < end and body[at] < 128:
        return np.int64(body[at] >> 1) ^ -np.int64(body[at] & 1), at + ONE
    zigzag, shift, byte = ZERO, ZERO, MORE
    while byte >= MORE:
        if at >= end or shift > np.uint64(63):
            return np.int64(0), BAD
        byte = np.uint64(body[at])
        at += ONE
        if shift == np.uint64(63) and byte > ONE:
            return np.int64(0), BAD
        zigzag |= (byte & LOW) << shift
        shift += SEVEN
    return np.int64(zigzag >> ONE) ^ -np.int64(zigzag & ONE), at


@compile_on_first_use
def skip(at: Any, size: Any) -> Any:
    """The position behind a field of `size` bytes; a null takes none."""
    return at + np.uint64(size) if size > 0 else at


@compile_on_first_use
def after_headers(body: Any, at: Any, end: Any, count: Any) -> Any:
    """The position behind `count` headers, or one after `end` when they are malformed."""
    for _ in range(count):
        name_size, at = varint(body, at, end)
        if name_size < 0:
            return BAD
        value_size, at = varint(body, skip(at, name_size), end)
        at = skip(at, value_size)
        if at > end or value_size < -1:
            return BAD
    return at


@compile_on_first_use
def put(
    target: Any, ends: Any, bits: Any, row: Any, start: Any, body: Any, at: Any, size: Any
) -> Any:
    """Row `row` of a binary column that starts at `start` holds `body[at:at + size]`, or null;
    where the next row starts.
    """
    # without a branch, or numba counts references to `target` in every row: four times slower
    length = np.uint64(max(size, 0))
    copy(target, start, body, at, length)
    start += length
    bits[row >> THREE] &= np.uint8(~(np.uint64(size < 0) << (row & SEVEN)))
    ends[row + ONE] = start
    return start


@compile_on_first_use
def decode_records(
    body: Any, header: Any, longs: Any, ints: Any, bits: Any, keys: Any, values: Any, tally: Any
) -> Any:
    """The records of `body` stand behind the rows that the columns have; False if one is malformed.

    header: count, base offset, last offset delta, base time in ms, timestamp type, and the span of
    offsets that is wanted.
    longs: offset, time in us. ints: ends of keys and of values (one more than rows), timestamp
    type, where the headers start in `body` and how many they are. bits: validity of keys and of
    values, all ones. keys, values: room for `len(body)` more bytes. Longer than a screen by a
    little: each field is read once, and a call per field costs a tenth of the speed.
    """
    count, base, last_delta, base_ms, kind, wanted_from, wanted_before = header
    offsets, times, key_bits, value_bits = longs[0], longs[1], bits[0], bits[1]
    key_ends, value_ends, kinds, headers_at, header_counts = (
        ints[0],
        ints[1],
        ints[2],
        ints[3],
        ints[4],
    )
    row, key_end, value_end = (
        np.uint64(tally[ROWS]),
        np.uint64(tally[KEY_END]),
        np.uint64(tally[VALUE_END]),
    )
    at, end, last = ZERO, np.uint64(body.size), np.int64(-1)
    key_nulls, value_nulls, headers = tally[KEY_NULLS], tally[VALUE_NULLS], tally[HEADERS]
    for _ in range(count):
        size, at = varint(body, at, end)
        if size < 0:
            return False
        stop = at + np.uint64(size)
        if stop > end:
            return False
        time_delta, at = varlong(body, at + ONE, stop)
        offset_delta, at = varint(body, at, stop)
        key_size, key_at = varint(body, at, stop)
        value_size, value_at = varint(body, skip(key_at, key_size), stop)
        header_count, header_at = varint(body, skip(value_at, value_size), stop)
        at = after_headers(body, header_at, stop, header_count) if header_count else header_at
        if at != stop or key_size < -1 or value_size < -1 or header_count < 0:
            return False
        if offset_delta <= last or offset_delta > last_delta:
            return False
        last = offset_delta
        offset = base + offset_delta
        time_ms = base_ms if kind else base_ms + time_delta
        wrapped = kind == 0 and ((base_ms ^ time_ms) & (time_delta ^ time_ms)) < 0
        if wrapped or time_ms > MOST_MS or time_ms < -MOST_MS:
            return False
        if wanted_from <= offset < wanted_before:
            offsets[row], times[row], kinds[row] = offset, time_ms * 1000, kind
            key_end = put(keys, key_ends, key_bits, row, key_end, body, key_at, key_size)
            value_end = put(
                values, value_ends, value_bits, row, value_end, body, value_at, value_size
            )
            key_nulls += key_size < 0
            value_nulls += value_size < 0
            headers_at[row], header_counts[row] = header_at, header_count
            headers += header_count
            row += ONE
    tally[ROWS], tally[KEY_END], tally[VALUE_END] = row, key_end, value_end
    tally[KEY_NULLS], tally[VALUE_NULLS], tally[HEADERS] = key_nulls, value_nulls, headers
    return at == end


@compile_on_first_use
def decode_headers(
    body: Any, rows: Any, ints: Any, lists: Any, fields: Any, names: Any, values: Any, tally: Any
) -> None:
    """The headers of these rows, which `decode_records` has checked, stand behind those that the
    columns have.

    rows: the first and the one behind the last. ints: as in `decode_records`. lists: ends of rows,
    in headers, and their validity, all ones. fields: ends of names and values, and their validity,
    all ones. names, values: room for `len(body)` more bytes.
    """
    ends, valid = lists
    header = np.uint64(ends[rows[0]])
    name_end, value_end = np.uint64(tally[NAME_END]), np.uint64(tally[HEADER_VALUE_END])
    stop = np.uint64(body.size)
    for row in range(np.uint64(rows[0]), np.uint64(rows[1])):
        at = np.uint64(ints[3, row])
        for _ in range(ints[4, row]):
            name_size, name_at = varint(body, at, stop)
            value_size, value_at = varint(body, skip(name_at, name_size), stop)
            at = skip(value_at, value_size)
            name_end = put(
                names, fields[0][0], fields[1][0], header, name_end, body, name_at, name_size
            )
            value_end = put(
                values, fields[0][1], fields[1][1], header, value_end, body, value_at, value_size
            )
            tally[HEADER_VALUE_NULLS] += value_size < 0
            header += ONE
        if ints[4, row] == 0:
            valid[row >> THREE] &= np.uint8(~(ONE << (row & SEVEN)))
        ends[row + ONE] = header
    tally[NAME_END], tally[HEADER_VALUE_END] = name_end, value_end
