"""Record batches as Arrow: equal to what the plain decoder reads, cut to the span, and never out of
bounds.
"""

import struct
from collections.abc import Iterator

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.columns import read, room
from apportion.columns.plain_rows import PlainBudget
from apportion.columns.read import to_arrow
from apportion.columns.schema import MAX_TIMESTAMP_MS, SCHEMA, SCHEMA_WITH_HEADERS
from apportion.errors import DecodeError
from apportion.wire.batch import Record, encode_batch, encode_records
from tests.columns.rows import HEADERS, OCTETS, Endless, arrow_rows, expected_rows
from tests.odd_batches import OddRecord, odd_batch, odd_records

RECORDS = st.tuples(st.integers(1, 50), st.integers(-(1 << 50), 1 << 50), OCTETS, OCTETS, HEADERS)
SPANS = st.tuples(st.integers(0, 400), st.integers(0, 400))


@pytest.fixture(autouse=True, scope="module", params=["kernels", "plain Python"])
def decoder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test is one of the kernels, and one of what decodes a few records without them."""
    before, read.budget = read.budget, PlainBudget(0) if request.param == "kernels" else Endless()
    yield
    read.budget = before


@st.composite
def batches(draw: st.DrawFn) -> list[bytes]:
    """Up to six batches of every codec, with gaps within and between them; some bear the append's
    time, some are markers.
    """
    result: list[bytes] = []
    offset = draw(st.integers(0, 20))
    for _ in range(draw(st.integers(0, 6))):
        base, records = offset, []
        for gap, timestamp_ms, key, value, record_headers in draw(st.lists(RECORDS, max_size=8)):
            offset += gap
            records.append(Record(offset, timestamp_ms, key, value, record_headers))
        attributes = draw(st.integers(0, 4)) | draw(st.sampled_from([0, 0, 0, 8, 16, 32]))
        later = draw(st.integers(0, 3))
        result.append(
            encode_records(
                records,
                base_offset=base,
                attributes=attributes,
                last_offset_delta=offset - base + later,
            )
        )
        offset += later + 1
    return result


@settings(max_examples=120, deadline=None)
@given(encoded=batches(), headers=st.booleans(), most=st.integers(1, 30))
def test_arrow_holds_what_the_plain_decoder_reads(
    encoded: list[bytes], headers: bool, most: int
) -> None:
    assert arrow_rows(b"".join(encoded), headers=headers, most=most) == expected_rows(
        encoded, headers=headers
    )


@settings(max_examples=80, deadline=None)
@given(encoded=batches(), span=SPANS, most=st.integers(1, 30))
def test_rows_outside_the_span_are_dropped(
    encoded: list[bytes], span: tuple[int, int], most: int
) -> None:
    assert arrow_rows(encoded, span, most=most) == expected_rows(encoded, span)


def test_the_schema_is_the_one_that_spark_asks_for() -> None:
    text = (
        "key: binary, value: binary, topic: string, partition: int32, offset: int64, "
        "timestamp: timestamp[us, tz=UTC]"
    )
    text += ", timestampType: int32, headers: list<element: struct<key: string, value: binary>>"
    assert ", ".join(f"{field.name}: {field.type}" for field in SCHEMA_WITH_HEADERS) == text
    assert all(field.nullable for field in SCHEMA_WITH_HEADERS)
    assert SCHEMA_WITH_HEADERS.remove(7).equals(SCHEMA)


def test_batches_are_joined_up_to_the_asked_rows_and_larger_ones_are_cut() -> None:
    sizes = [4, 4, 4, 25, 3]
    encoded, offset = [], 0
    for size in sizes:
        encoded.append(encode_batch([(None, b"v", ())] * size, base_offset=offset, timestamp_ms=0))
        offset += size
    tables = to_arrow(
        encoded, topic="t", partition=0, from_offset=0, before_offset=99, rows_per_batch=10
    )
    assert [batch.num_rows for batch in tables] == [8, 4, 10, 10, 5, 3]


def test_rows_leave_before_their_bytes_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SHARED_BUFFER_BYTES", 1000)
    encoded = [
        encode_batch([(None, bytes(400), ())] * n, base_offset=10 * n, timestamp_ms=0)
        for n in (1, 1, 1, 9, 1)
    ]
    tables = to_arrow(encoded, topic="t", partition=0, from_offset=0, before_offset=999)
    assert [batch.num_rows for batch in tables] == [2, 1, 9, 1]


def test_a_batch_cut_off_at_the_end_and_an_empty_fetch_give_no_rows() -> None:
    batch = encode_batch([(b"k", b"v", ())], timestamp_ms=0)
    assert arrow_rows(b"") == []
    assert arrow_rows([]) == []
    assert arrow_rows(batch + batch[:-1]) == expected_rows([batch])


def test_a_buffer_may_be_overwritten_once_the_next_is_asked_for() -> None:
    encoded = [
        encode_batch([(b"%d" % i, b"v" * 50, ())] * 5, base_offset=5 * i, timestamp_ms=i)
        for i in range(3)
    ]

    def reused() -> Iterator[memoryview]:
        room = bytearray(len(encoded[0]))
        for batch in encoded:
            room[:] = batch
            yield memoryview(room)

    assert arrow_rows(reused()) == expected_rows(encoded)


def test_columns_grow_within_one_table() -> None:
    encoded = [
        encode_batch(
            [(bytes(n), bytes(2 * n), (("h" * n, bytes(n)),) * 3)] * 4,
            base_offset=n,
            timestamp_ms=0,
        )
        for n in (1, 5, 300, 70, 9000, 2)
    ]
    assert arrow_rows(encoded) == expected_rows(encoded)


def test_an_error_names_topic_partition_and_offset() -> None:
    good = encode_batch([(b"k", b"v", ())] * 7, timestamp_ms=0)
    bad = bytearray(encode_batch([(b"k", b"v", ())] * 7, base_offset=7, timestamp_ms=0))
    bad[-1] ^= 1
    with pytest.raises(
        DecodeError, match=r"^tést-3 at offset 7: the record batch at offset 7 has a wrong CRC$"
    ):
        arrow_rows([good, bad])


@pytest.mark.parametrize("attributes", [0, 8])
@pytest.mark.parametrize("time_ms", [1 << 62, -(1 << 62)])
def test_a_time_beyond_microseconds_is_the_nearest_within_them(
    time_ms: int, attributes: int
) -> None:
    batch = odd_batch([OddRecord(0)], first_ms=time_ms, max_ms=time_ms, attributes=attributes)
    nearest_ms = MAX_TIMESTAMP_MS if time_ms > 0 else -MAX_TIMESTAMP_MS
    assert [row["timestamp"] for row in arrow_rows(batch)] == [1000 * nearest_ms]


def test_a_time_in_microseconds_that_says_to_be_in_ms_is_read_as_it_is() -> None:
    batch = odd_batch([OddRecord(0)], first_ms=1_795_948_972_237_000, max_ms=1_795_948_972_237_000)
    assert [row["timestamp"] for row in arrow_rows(batch)] == [1_795_948_972_237_000_000]


@settings(max_examples=150, deadline=None)
@given(
    records=odd_records(st.integers(-(1 << 63), (1 << 63) - 1)),
    first_ms=st.integers(-(1 << 63), (1 << 63) - 1),
    cut=st.integers(0, 12),
    headers=st.booleans(),
)
def test_two_ranges_have_each_record_that_a_real_kafka_stores_once(
    records: list[OddRecord], first_ms: int, cut: int, headers: bool
) -> None:
    base_offset = 4
    batch = odd_batch(records, base_offset=base_offset, first_ms=first_ms)
    before, behind = ((0, cut), (cut, base_offset + len(records)))
    rows = [arrow_rows(batch, span, headers=headers) for span in (before, behind)]
    assert rows == [expected_rows([batch], span, headers=headers) for span in (before, behind)]
    assert len(rows[0]) + len(rows[1]) == len(records)


def test_the_rows_before_a_malformed_batch_come_first() -> None:
    good = encode_batch([(b"k", b"1", ())], timestamp_ms=1)
    bad = odd_batch([OddRecord(0, key=b"\x08")], base_offset=1)
    rows = to_arrow([good, bad], topic="t", partition=0, from_offset=0, before_offset=9)
    assert next(rows)["value"].to_pylist() == [b"1"]
    with pytest.raises(DecodeError, match="t-0 at offset 1"):
        next(rows)


def test_offsets_beyond_the_largest_are_refused() -> None:
    batch = encode_batch([(None, None, ())] * 2, base_offset=(1 << 63) - 1, timestamp_ms=0)
    with pytest.raises(DecodeError, match="at the offsets"):
        arrow_rows(batch, (0, (1 << 63) - 1))


def test_a_count_that_the_bytes_cannot_hold_takes_no_memory() -> None:
    header = struct.pack(">hiqqqhii", 0, (1 << 31) - 2, 0, 0, -1, -1, -1, (1 << 31) - 1)
    batch = struct.pack(">qiibI", 0, 49, 0, 2, crc32c(header)) + header
    with pytest.raises(DecodeError, match="records in 0 bytes"):
        arrow_rows(batch)
