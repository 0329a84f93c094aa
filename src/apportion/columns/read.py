"""Fetched record batches to Arrow: the rows of one partition with the columns of Spark's Kafka
source.

Control batches are passed over. Aborted transactions are not: a reader that wants only committed
records must not be given them. This module does not know whether the bytes cover the whole span
that was asked for.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from apportion.columns.row_buffer import HEADER_TYPE, TIME_TYPE, OffsetRange, RowBuffer
from apportion.errors import DecodeError
from apportion.wire.batch import HEADER_BYTES, LIMIT_BYTES, decode_batch, read_header, split_batches
from apportion.wire.compression import Buffer, DecompressionBuffer

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIME_TYPE),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADER_TYPE))

SHORTEST_RECORD_BYTES = 7


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
    """The records in `buffers` from `from_offset` up to, not including, `before_offset`.

    buffers: whole record batches in ascending order, one after the other; one that is cut off at a
    buffer's end is left out. Each may change once the next is asked for. rows_per_batch: at most so
    many rows come at once. headers are null for a record without any. DecodeError names the topic,
    the partition and the offset.
    """
    reader = _Reader(
        topic, partition, OffsetRange(from_offset, before_offset), include_headers, rows_per_batch
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
    """One pass over one partition: the rows that wait to be handed out, and what all of them share.

    offset: where the batch starts that is being read, for whoever must say what went wrong.
    """

    def __init__(
        self, topic: str, partition: int, span: OffsetRange, include_headers: bool, most_rows: int
    ) -> None:
        self.offset = span.start
        self._span = span
        self._include_headers = include_headers
        self._most_rows = most_rows
        self._room = DecompressionBuffer()
        self._rows = RowBuffer(most_rows, include_headers)
        self._topics = pa.repeat(pa.scalar(topic, pa.string()), most_rows)
        self._partitions = pa.repeat(pa.scalar(partition, pa.int32()), most_rows)

    def read(self, buffer: Buffer) -> Iterator[pa.RecordBatch]:
        """Read the batches of `buffer`; yield the rows that must leave the row buffer for them."""
        for batch in split_batches(buffer):
            header = read_header(batch)
            self.offset = header.base_offset
            if header.base_offset < 0 or header.last_offset >= 1 << 63:
                raise DecodeError(
                    f"a record batch at the offsets {header.base_offset} to {header.last_offset}"
                )
            if (
                not header.is_control
                and header.last_offset >= self._span.start
                and header.base_offset < self._span.end
            ):
                body = self._room.decompress(header.compression, batch[HEADER_BYTES:], LIMIT_BYTES)
                if header.count * SHORTEST_RECORD_BYTES > len(body):
                    raise DecodeError(f"{header.count} records in {len(body)} bytes")
                if not self._rows.reserve(header.count, len(body)):
                    yield from self.flush(header.count)
                    self._rows.reserve(header.count, len(body))
                if not self._rows.append(body, header, self._span):
                    raise _reason(batch)
            self.offset = header.last_offset + 1

    def flush(self, next_rows: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the buffered rows and begin a buffer with room for `next_rows`."""
        full, self._rows = (
            self._rows,
            RowBuffer(max(self._most_rows, next_rows), self._include_headers, like=self._rows),
        )
        try:
            key, value, *numbers = full.arrays()
        except pa.ArrowInvalid:
            raise DecodeError("a header name before this offset is not UTF-8") from None
        for start in range(0, len(key), self._most_rows):
            rows = min(self._most_rows, len(key) - start)
            mine = (array.slice(start, rows) for array in (key, value))
            shared = (array.slice(0, rows) for array in (self._topics, self._partitions))
            rest = (array.slice(start, rows) for array in numbers)
            schema = SCHEMA_WITH_HEADERS if self._include_headers else SCHEMA
            yield pa.RecordBatch.from_arrays([*mine, *shared, *rest], schema=schema)


def _reason(batch: memoryview) -> DecodeError:
    """Return the reason for which `batch` was refused: the Python decoder names it, the kernels do
    not.
    """
    try:
        decode_batch(batch)
    except DecodeError as error:
        return error
    return DecodeError("a record whose time does not fit a timestamp in microseconds")
