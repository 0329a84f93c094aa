"""The columns of Arrow record batches, decoded by plain Python: for a few records.

Numba takes half a second of processor time to be imported and to load the kernels from its cache,
and three to compile them where there is no cache yet. Plain Python decodes a hundred thousand
records and more in that time, which many a task has not. So each process begins with plain Python,
and loads the kernels once it has decoded, or is to decode, more records than its `PlainBudget`.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import pyarrow as pa

from apportion.columns.arrays import binary_array, ends, number_array, validity
from apportion.columns.room import OffsetRange, Room
from apportion.columns.schema import HEADER_TYPE, MAX_TIMESTAMP_MS, TIME_TYPE
from apportion.errors import DecodeError
from apportion.wire.batch import BatchHeader, Record, decode_records
from apportion.wire.record_fields import Headers

FEW_RECORDS = 50_000
"""The records that plain Python decodes in a process, in less than half of the time of loading."""


class PlainBudget:
    """The records that plain Python may still decode in this process."""

    def __init__(self, records: int = FEW_RECORDS) -> None:
        self._left = records

    def covers(self, offsets: OffsetRange) -> bool:
        """Return whether plain Python may decode all records of these offsets."""
        return offsets.end - offsets.start <= self._left

    def spend(self, records: int) -> None:
        """Count records that plain Python has decoded."""
        self._left = max(0, self._left - records)

    def close(self) -> None:
        """Let plain Python decode no more: the kernels are loaded."""
        self._left = 0


class PlainRows(Room):
    """The columns of at most `capacity` rows, filled one Kafka batch at a time, as `RowBuffer`."""

    def __init__(self, capacity: int, include_headers: bool) -> None:
        super().__init__(capacity)
        self._include_headers = include_headers
        self._records: list[Record] = []
        self._time_types: list[int] = []

    def append(self, body: memoryview, header: BatchHeader, offset_range: OffsetRange) -> bool:
        """Append a Kafka batch's records within the range; return False if one is malformed."""
        try:
            records, _ = decode_records(bytes(body), header)
        except DecodeError:
            return False
        start, end = offset_range
        wanted = [
            record._replace(offset=place)
            for record in records
            if start <= (place := header.place(record.offset)) < end
        ]
        self._records += wanted
        self._time_types += repeat(header.timestamp_type, len(wanted))
        return True

    def arrays(self) -> list[pa.Array]:
        """Return the rows as Arrow arrays, in the order of `RowBuffer.arrays`."""
        records = self._records
        arrays = [
            binary_array(pa.binary(), [record.key for record in records]),
            binary_array(pa.binary(), [record.value for record in records]),
            number_array(pa.int64(), "q", [record.offset for record in records]),
            number_array(TIME_TYPE, "q", [_microseconds(record) for record in records]),
            number_array(pa.int32(), "i", self._time_types),
        ]
        if self._include_headers:
            arrays.append(_headers([record.headers for record in records]))
        return arrays


def _microseconds(record: Record) -> int:
    """Return the time of a record, or the nearest that fits."""
    return 1000 * min(max(record.timestamp_ms, -MAX_TIMESTAMP_MS), MAX_TIMESTAMP_MS)


def _headers(rows: Sequence[Headers]) -> pa.Array:
    """Return the column `headers`: null for a record without any."""
    pairs = list(chain.from_iterable(rows))
    names = binary_array(pa.string(), [name.encode() for name, _ in pairs])
    values = binary_array(pa.binary(), [value for _, value in pairs])
    return pa.Array.from_buffers(
        HEADER_TYPE,
        len(rows),
        [validity([bool(headers) for headers in rows]), ends(map(len, rows))],
        children=[pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE.value_type))],
    )
