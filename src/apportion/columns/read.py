"""Fetched record batches as Arrow: one partition's rows with the columns of Spark's Kafka source.

Control batches are skipped. Records of aborted transactions are not: for a reader that wants only
committed records, the caller must leave those batches out. The caller also checks that the bytes
cover all offsets that were to be read.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from apportion.columns.arrays import binary_array, number_array
from apportion.columns.plain_rows import PlainBudget, PlainRows
from apportion.columns.room import OffsetRange
from apportion.columns.schema import SCHEMA, SCHEMA_WITH_HEADERS
from apportion.errors import DecodeError
from apportion.settings import MAX_INT64
from apportion.wire.batch import (
    HEADER_BYTES,
    LIMIT_BYTES,
    BatchHeader,
    decode_records,
    read_header,
    split_batches,
)
from apportion.wire.codec import Buffer
from apportion.wire.compression import DecompressionBuffer

MIN_RECORD_BYTES = 7

# Numba is imported with the kernels, where they are needed.
if TYPE_CHECKING:
    from apportion.columns.row_buffer import RowBuffer

budget = PlainBudget()
"""That of this process."""


def to_arrow(
    buffers: Buffer | Iterable[Buffer],
    *,
    topic: str,
    partition: int,
    from_offset: int,
    before_offset: int,
    include_headers: bool = False,
    rows_per_batch: int = 10_000,
) -> Iterator[pa.RecordBatch]:
    """Yield the records in `buffers` from `from_offset` up to, not including, `before_offset`.

    buffers: record batches in ascending order, as in Fetch responses: an incomplete batch at a
    buffer's end is left out. A buffer may be reused for the next one: the Arrow batches are copies.
    rows_per_batch: the most rows of one Arrow batch. headers: null for a record without any. Raises
    DecodeError with the topic, the partition and the offset.
    """
    reader = _Reader(
        topic,
        partition,
        OffsetRange(from_offset, before_offset),
        include_headers=include_headers,
        max_rows=rows_per_batch,
    )
    try:
        for buffer in (
            (buffers,) if isinstance(buffers, bytes | bytearray | memoryview) else buffers
        ):
            yield from reader.read(buffer)
        yield from reader.flush()
    except DecodeError as error:
        raise DecodeError(f"{topic}-{partition} at offset {reader.offset}: {error}") from error


class _Reader:
    """One pass over the batches of one partition, with the rows that were not yielded yet.

    offset: the base offset of the batch being read, for the text of an error.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset_range: OffsetRange,
        *,
        include_headers: bool,
        max_rows: int,
    ) -> None:
        """Prepare the buffers for one pass over a partition's offset range.

        max_rows: of each Arrow batch.
        """
        self.offset = offset_range.start
        self._offset_range = offset_range
        self._include_headers = include_headers
        self._max_rows = max_rows
        self._decompression = DecompressionBuffer()
        self._is_plain = budget.covers(offset_range)
        self._rows = self._new_rows(max_rows)
        self._topics = binary_array(pa.string(), [topic.encode()] * max_rows)
        self._partitions = number_array(pa.int32(), "i", [partition] * max_rows)

    def read(self, buffer: Buffer) -> Iterator[pa.RecordBatch]:
        """Decode a Fetch response's batches; yield Arrow rows whenever the row buffer is full."""
        for batch in split_batches(buffer):
            header = read_header(batch)
            self.offset = header.base_offset
            # The kernels add deltas of 32 bits in int64; beyond this the sums would wrap around
            # unnoticed.
            if not 0 <= header.base_offset <= MAX_INT64 - (1 << 31):
                raise DecodeError(
                    f"a record batch at the offsets {header.base_offset} to {header.last_offset}"
                )
            if (
                not header.is_control
                and header.last_offset >= self._offset_range.start
                and header.base_offset < self._offset_range.end
            ):
                body = self._decompression.decompress(
                    header.compression, batch[HEADER_BYTES:], LIMIT_BYTES
                )
                # Before memory is reserved: the count is a claim of whoever wrote the batch.
                if header.count * MIN_RECORD_BYTES > len(body):
                    raise DecodeError(f"{header.count} records in {len(body)} bytes")
                if not self._rows.reserve(header.count, len(body)):
                    # Flushed before the batch and not within it: a refused batch must leave no row
                    # of its own behind.
                    yield from self.flush(header.count)
                    self._rows.reserve(header.count, len(body))
                yield from self._append(header, body)
            self.offset = header.last_offset + 1

    def _append(self, header: BatchHeader, body: memoryview) -> Iterator[pa.RecordBatch]:
        """Append a batch, for which there is room; yield the rows before a malformed one.

        Raises DecodeError.
        """
        if self._is_plain:
            budget.spend(header.count)
        if not self._rows.append(body, header, self._offset_range):
            yield from self.flush()
            decode_records(bytes(body), header)  # it raises an error that names the fault
            raise AssertionError(
                f"plain Python reads the batch at offset {header.base_offset} with the CRC "
                f"{header.crc:#010x}, which the kernels refused"
            )

    def _new_rows(
        self, capacity: int, previous: "RowBuffer | PlainRows | None" = None
    ) -> "RowBuffer | PlainRows":
        """Return an empty row buffer, after `previous`."""
        if self._is_plain:
            return PlainRows(capacity, self._include_headers)
        from apportion.columns.row_buffer import RowBuffer

        budget.close()
        return RowBuffer(
            capacity,
            self._include_headers,
            previous=previous if isinstance(previous, RowBuffer) else None,
        )

    def flush(self, next_rows: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the buffered rows, and start a new row buffer with room for `next_rows`."""
        # The records of one Kafka batch are never split over two buffers, so one with more records
        # than `rows_per_batch` needs a larger buffer.
        full = self._rows
        max_rows = max(self._max_rows, next_rows)
        self._rows = self._new_rows(max_rows, full)
        key, value, *numbers = full.arrays()
        for start in range(0, len(key), self._max_rows):
            rows = min(self._max_rows, len(key) - start)
            binary = (array.slice(start, rows) for array in (key, value))
            constant = (array.slice(0, rows) for array in (self._topics, self._partitions))
            other = (array.slice(start, rows) for array in numbers)
            schema = SCHEMA_WITH_HEADERS if self._include_headers else SCHEMA
            yield pa.RecordBatch.from_arrays([*binary, *constant, *other], schema=schema)
