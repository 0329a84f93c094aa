"""The columns of one Arrow record batch while they fill: NumPy arrays that Arrow takes over without
a copy.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from apportion.columns.kernels import (
    HEADER_VALUE_END,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_END,
    KEY_NULLS,
    NAME_END,
    ROWS,
    VALUE_END,
    VALUE_NULLS,
    decode_headers,
    decode_records,
)
from apportion.wire.batch import BatchHeader

Array = NDArray[Any]

HEADER_TYPE = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
TIME_TYPE = pa.timestamp("us", "UTC")
GROUP_BYTES = 64 << 20
"""Kafka batches share a buffer up to this many bytes. One batch alone may be larger: still far from
Arrow's 2 GiB.
"""


class OffsetRange(NamedTuple):
    """Offsets from `start` up to, not including, `before`."""

    start: int
    end: int


class BinaryBuffer:
    """The bytes of one growing binary column."""

    def __init__(self, size_bytes: int) -> None:
        self.bytes: Array = np.empty(size_bytes, np.uint8)

    def reserve(self, used: int, more: int) -> None:
        """Grow so that `more` bytes fit behind the first `used`, which keep their values."""
        if used + more > len(self.bytes):
            grown = np.empty(2 * (used + more), np.uint8)
            grown[:used] = self.bytes[:used]
            self.bytes = grown


class RowBuffer:
    """The columns of at most `capacity` rows, filled one Kafka batch at a time.

    like: the rows before these, whose sizes are the best guess at how much room these will take.
    """

    def __init__(self, capacity: int, with_headers: bool, like: "RowBuffer | None" = None) -> None:
        self._free_rows, self._free_bytes = capacity, GROUP_BYTES
        guess: Array = like.counters if like is not None else np.zeros(9, np.int64)
        self.counters: Array = np.zeros(9, np.int64)
        self._longs = np.empty((2, capacity), np.int64)
        self._ints = np.empty((5, capacity + 1), np.int32)
        self._ints[:2, 0] = 0
        self._bits = np.full((2, (capacity + 7) // 8), 0xFF, np.uint8)
        self._keys = BinaryBuffer(_initial_bytes(guess[KEY_END]))
        self._values = BinaryBuffer(_initial_bytes(guess[VALUE_END]))
        self._headers = HeaderBuffer(capacity, guess) if with_headers else None

    def reserve(self, rows: int, size_bytes: int) -> bool:
        """Reserve room for rows and bytes; return False if there is too little. An empty buffer
        takes any bytes.
        """
        is_empty = self._free_bytes == GROUP_BYTES
        if rows > self._free_rows or (size_bytes > self._free_bytes and not is_empty):
            return False
        self._free_rows, self._free_bytes = self._free_rows - rows, self._free_bytes - size_bytes
        return True

    def append(self, body: memoryview, header: BatchHeader, span: OffsetRange) -> bool:
        """Append the records of `body` within the offset range; return False if a record is
        malformed.
        """
        octets = np.frombuffer(body, np.uint8)
        first = int(self.counters[ROWS])
        self._keys.reserve(int(self.counters[KEY_END]), len(octets))
        self._values.reserve(int(self.counters[VALUE_END]), len(octets))
        base_ms = header.max_timestamp_ms if header.timestamp_type else header.first_timestamp_ms
        facts = (
            header.count,
            header.base_offset,
            header.last_offset_delta,
            base_ms,
            header.timestamp_type,
            *span,
        )
        columns = (self._longs, self._ints, self._bits, self._keys.bytes, self._values.bytes)
        if not decode_records(octets, facts, *columns, self.counters):
            return False
        if self._headers is not None:
            self._headers.add(octets, (first, int(self.counters[ROWS])), self._ints, self.counters)
        return True

    def arrays(self) -> list[pa.Array]:
        """Return the rows so far: key, value, offset, timestamp, timestampType and, if kept,
        headers.
        """
        rows = int(self.counters[ROWS])
        keys = _binary(rows, self._bits[0], self._ints[0], self._keys, self.counters[KEY_NULLS])
        values = _binary(
            rows, self._bits[1], self._ints[1], self._values, self.counters[VALUE_NULLS]
        )
        offsets = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(self._longs[0])])
        times = pa.Array.from_buffers(TIME_TYPE, rows, [None, pa.py_buffer(self._longs[1])])
        kinds = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(self._ints[2])])
        headers = [] if self._headers is None else [self._headers.array(rows, self.counters)]
        return [keys, values, offsets, times, kinds, *headers]


class HeaderBuffer:
    """The headers of these rows: a list of names and values per row, null where a row has none."""

    def __init__(self, capacity: int, guess: Array) -> None:
        self._rows = np.zeros(capacity + 1, np.int32)
        self._row_bits = np.full((capacity + 7) // 8, 0xFF, np.uint8)
        self._ends = np.zeros((2, int(guess[HEADERS]) + 1), np.int32)
        self._bits = np.full((2, int(guess[HEADERS]) // 8 + 1), 0xFF, np.uint8)
        self._names = BinaryBuffer(_initial_bytes(guess[NAME_END]))
        self._values = BinaryBuffer(_initial_bytes(guess[HEADER_VALUE_END]))

    def add(self, body: Array, rows: tuple[int, int], ints: Array, tally: Array) -> None:
        """Append the headers of `rows` (first, one behind the last), which were decoded from
        `body`.
        """
        headers = int(tally[HEADERS])
        if headers >= self._ends.shape[1]:
            self._ends = _widened(self._ends, 2 * headers + 1, 0)
            self._bits = _widened(self._bits, 2 * headers // 8 + 1, 0xFF)
        self._names.reserve(int(tally[NAME_END]), len(body))
        self._values.reserve(int(tally[HEADER_VALUE_END]), len(body))
        lists, fields = (self._rows, self._row_bits), (self._ends, self._bits)
        decode_headers(
            body, rows, ints, lists, fields, self._names.bytes, self._values.bytes, tally
        )

    def array(self, rows: int, tally: Array) -> pa.Array:
        """Return the headers of the first `rows` rows; pyarrow.ArrowInvalid if a name is not
        UTF-8.
        """
        headers = int(tally[HEADERS])
        names = pa.Array.from_buffers(
            pa.string(), headers, _buffers(None, self._ends[0, : headers + 1], self._names)
        )
        names.validate(full=True)
        values = _binary(
            headers, self._bits[1], self._ends[1], self._values, tally[HEADER_VALUE_NULLS]
        )
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE.value_type))
        buffers = [pa.py_buffer(self._row_bits), pa.py_buffer(self._rows)]
        return pa.Array.from_buffers(HEADER_TYPE, rows, buffers, children=[pairs])


def _initial_bytes(used: int) -> int:
    return int(used) * 9 // 8 + 4096


def _widened(columns: Array, width: int, rest: int) -> Array:
    wide = np.full((columns.shape[0], width), rest, columns.dtype)
    wide[:, : columns.shape[1]] = columns
    return wide


def _buffers(bits: Array | None, ends: Array, octets: BinaryBuffer) -> list[pa.Buffer | None]:
    return [
        None if bits is None else pa.py_buffer(bits),
        pa.py_buffer(ends),
        pa.py_buffer(octets.bytes[: ends[-1]]),
    ]


def _binary(rows: int, bits: Array, ends: Array, octets: BinaryBuffer, nulls: int) -> pa.Array:
    buffers = _buffers(bits if nulls else None, ends[: rows + 1], octets)
    return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count=int(nulls))
