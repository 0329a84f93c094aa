"""Rows of record batches as Arrow, and as the plain decoder has them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from apportion.columns.plain_rows import PlainBudget
from apportion.columns.read import to_arrow
from apportion.columns.schema import MAX_TIMESTAMP_MS, SCHEMA, SCHEMA_WITH_HEADERS
from apportion.wire.batch import decode_batch, read_header

EVERYTHING = (0, 1 << 62)
OCTETS = (
    st.none() | st.binary(max_size=40) | st.sampled_from([bytes(64), bytes(300), b"x" * 20_000])
)
HEADERS = st.lists(st.tuples(st.text(max_size=6), OCTETS), max_size=3).map(tuple)


class Endless(PlainBudget):
    """Plain Python for any number of records, again and again."""

    def covers(self, offsets: object) -> bool:
        return True


def arrow_rows(
    buffers: Any, span: tuple[int, int] = EVERYTHING, *, headers: bool = True, most: int = 10_000
) -> list[dict[str, Any]]:
    """All rows as Python values, after Arrow's own full validation of every batch."""
    rows = []
    for batch in to_arrow(
        buffers,
        topic="tést",
        partition=3,
        from_offset=span[0],
        before_offset=span[1],
        include_headers=headers,
        rows_per_batch=most,
    ):
        batch.validate(full=True)
        assert 0 < batch.num_rows <= most
        assert batch.schema.equals(SCHEMA_WITH_HEADERS if headers else SCHEMA)
        plain = batch.set_column(5, "timestamp", batch["timestamp"].cast(pa.int64()))
        rows += plain.to_pylist()
    return rows


def expected_rows(
    encoded: Sequence[bytes | bytearray],
    span: tuple[int, int] = EVERYTHING,
    *,
    headers: bool = True,
) -> list[dict[str, Any]]:
    """The same rows by way of the plain decoder."""
    rows = []
    for batch in encoded:
        header = read_header(batch)
        for record in [] if header.is_control else decode_batch(batch):
            place = header.place(record.offset)
            if span[0] <= place < span[1]:
                row = {
                    "key": record.key,
                    "value": record.value,
                    "topic": "tést",
                    "partition": 3,
                    "offset": place,
                }
                row |= {
                    "timestamp": 1000
                    * max(-MAX_TIMESTAMP_MS, min(record.timestamp_ms, MAX_TIMESTAMP_MS)),
                    "timestampType": header.timestamp_type,
                }
                named = [{"key": name, "value": value} for name, value in record.headers] or None
                rows.append(row | ({"headers": named} if headers else {}))
    return rows
