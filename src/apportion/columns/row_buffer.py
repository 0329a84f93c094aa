"""The columns of Arrow record batches while they fill: NumPy arrays that Arrow uses without a copy.

`read.py` fills a `RowBuffer` with the records of one Kafka batch after the other, by the kernels,
and takes Arrow arrays out of it when it is full.
"""

from typing import Any

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
from apportion.columns.room import OffsetRange, Room
from apportion.columns.schema import HEADER_TYPE, TIME_TYPE
from apportion.wire.batch import BatchHeader

Array = NDArray[Any]


class BinaryBuffer:
    """The bytes of one growing column of an Arrow batch: keys, values, header names or values."""

    def __init__(self, size_bytes: int) -> None:
        self.bytes: Array = np.empty(size_bytes, np.uint8)

    def reserve(self, used: int, more: int) -> None:
        """Grow an Arrow column's bytes so that `more` fit behind the first `used`, which stay."""
        if used + more > len(self.bytes):
            # Doubled, so that the copies cost no more than the rows themselves in the long run.
            larger = np.empty(2 * (used + more), np.uint8)
            larger[:used] = self.bytes[:used]
            self.bytes = larger


class RowBuffer(Room):
    """The columns of at most `capacity` rows, filled one Kafka batch at a time.

    previous: the rows before these, whose sizes are the estimate of what these will need.
    """

    def __init__(
        self, capacity: int, include_headers: bool, previous: "RowBuffer | None" = None
    ) -> None:
        """Allocate the Arrow columns of `capacity` Kafka records."""
        super().__init__(capacity)
        size_estimate: Array = previous.counters if previous is not None else np.zeros(9, np.int64)
        self.counters: Array = np.zeros(9, np.int64)
        self._int64s = np.empty((2, capacity), np.int64)
        self._int32s = np.empty((5, capacity + 1), np.int32)
        self._int32s[:2, 0] = 0  # Arrow's ends of keys and values begin with the start of row 0
        # All valid at first: the kernels clear the bit of each null.
        self._validity = np.full((2, (capacity + 7) // 8), 0xFF, np.uint8)
        self._keys = BinaryBuffer(_initial_bytes(size_estimate[KEY_END]))
        self._values = BinaryBuffer(_initial_bytes(size_estimate[VALUE_END]))
        self._headers = HeaderBuffer(capacity, size_estimate) if include_headers else None

    def append(self, body: memoryview, header: BatchHeader, offset_range: OffsetRange) -> bool:
        """Append a Kafka batch's records within the offset range; return False if one is malformed.

        body: the records, decompressed. `reserve` has returned True for them.
        """
        body_bytes = np.frombuffer(body, np.uint8)
        first_row = int(self.counters[ROWS])
        self._keys.reserve(int(self.counters[KEY_END]), len(body_bytes))
        self._values.reserve(int(self.counters[VALUE_END]), len(body_bytes))
        # LogAppendTime: every record has the batch's maximal timestamp, whatever its own delta is.
        base_ms = header.max_timestamp_ms if header.timestamp_type else header.first_timestamp_ms
        header_values = (
            header.count,
            header.base_offset,
            header.last_offset_delta,
            base_ms,
            header.timestamp_type,
            *offset_range,
        )
        columns = (self._int64s, self._int32s, self._validity, self._keys.bytes, self._values.bytes)
        if not decode_records(body_bytes, header_values, *columns, self.counters):
            return False
        if self._headers is not None:
            self._headers.add(
                body_bytes, (first_row, int(self.counters[ROWS])), self._int32s, self.counters
            )
        return True

    def arrays(self) -> list[pa.Array]:
        """Return the rows as Arrow arrays, in the order of `read.SCHEMA`.

        The arrays are key, value, offset, timestamp, timestampType, and headers if kept.
        """
        rows = int(self.counters[ROWS])
        keys = _binary(
            rows, self._validity[0], self._int32s[0], self._keys, self.counters[KEY_NULLS]
        )
        values = _binary(
            rows, self._validity[1], self._int32s[1], self._values, self.counters[VALUE_NULLS]
        )
        offsets = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(self._int64s[0])])
        timestamps = pa.Array.from_buffers(TIME_TYPE, rows, [None, pa.py_buffer(self._int64s[1])])
        timestamp_types = pa.Array.from_buffers(
            pa.int32(), rows, [None, pa.py_buffer(self._int32s[2])]
        )
        headers = [] if self._headers is None else [self._headers.array(rows, self.counters)]
        return [keys, values, offsets, timestamps, timestamp_types, *headers]


class HeaderBuffer:
    """The column `headers`: for each row a list of names and values, null where it has none."""

    def __init__(self, capacity: int, size_estimate: Array) -> None:
        """Allocate the Arrow column `headers` of `capacity` Kafka records.

        size_estimate: the sizes that the rows before needed.
        """
        # Arrow's list offsets, and the validity of the rows: a row without headers is null.
        self._rows = np.zeros(capacity + 1, np.int32)
        self._row_bits = np.full((capacity + 7) // 8, 0xFF, np.uint8)
        self._ends = np.zeros((2, int(size_estimate[HEADERS]) + 1), np.int32)
        self._validity = np.full((2, int(size_estimate[HEADERS]) // 8 + 1), 0xFF, np.uint8)
        self._names = BinaryBuffer(_initial_bytes(size_estimate[NAME_END]))
        self._values = BinaryBuffer(_initial_bytes(size_estimate[HEADER_VALUE_END]))

    def add(self, body: Array, rows: tuple[int, int], int32s: Array, counters: Array) -> None:
        """Append the record headers of the rows that were just decoded from a batch's `body`.

        rows: the first of them, and the one behind the last.
        """
        headers = int(counters[HEADERS])
        if headers >= self._ends.shape[1]:
            self._ends = _widen(self._ends, 2 * headers + 1, 0)
            self._validity = _widen(self._validity, 2 * headers // 8 + 1, 0xFF)
        self._names.reserve(int(counters[NAME_END]), len(body))
        self._values.reserve(int(counters[HEADER_VALUE_END]), len(body))
        lists, fields = (self._rows, self._row_bits), (self._ends, self._validity)
        decode_headers(
            body, rows, int32s, lists, fields, self._names.bytes, self._values.bytes, counters
        )

    def array(self, rows: int, counters: Array) -> pa.Array:
        """Return the Arrow column `headers` of the first `rows` rows.

        counters: laid out as in `kernels.py`. Arrow counts the null rows itself, by their bits.
        """
        headers = int(counters[HEADERS])
        names = pa.Array.from_buffers(
            pa.string(), headers, _buffers(None, self._ends[0, : headers + 1], self._names)
        )
        # The kernel copies bytes unseen; Arrow's strings must be UTF-8, or readers further on may
        # crash.
        try:
            names.validate(full=True)
        except pa.ArrowInvalid:
            octets = names.cast(pa.binary()).to_pylist()
            names = pa.array([name.decode(errors="replace") for name in octets], pa.string())
        values = _binary(
            headers, self._validity[1], self._ends[1], self._values, counters[HEADER_VALUE_NULLS]
        )
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE.value_type))
        buffers = [pa.py_buffer(self._row_bits), pa.py_buffer(self._rows)]
        return pa.Array.from_buffers(HEADER_TYPE, rows, buffers, children=[pairs])


def _initial_bytes(used: int) -> int:
    """Return how large an Arrow column's bytes begin whose predecessor used `used`: 1/8 more."""
    return int(used) * 9 // 8 + 4096


def _widen(columns: Array, width: int, fill: int) -> Array:
    wider = np.full((columns.shape[0], width), fill, columns.dtype)
    wider[:, : columns.shape[1]] = columns
    return wider


def _buffers(bits: Array | None, ends: Array, data: BinaryBuffer) -> list[pa.Buffer | None]:
    """Return Arrow's three buffers of a binary or string column: validity, ends, bytes."""
    return [
        None if bits is None else pa.py_buffer(bits),
        pa.py_buffer(ends),
        pa.py_buffer(data.bytes[: ends[-1]]),
    ]


def _binary(rows: int, bits: Array, ends: Array, data: BinaryBuffer, nulls: int) -> pa.Array:
    # Arrow takes a column without a bitmap as one without nulls.
    buffers = _buffers(bits if nulls else None, ends[: rows + 1], data)
    return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count=int(nulls))
