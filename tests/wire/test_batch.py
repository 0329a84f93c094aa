"""Record batches: the header alone, round trips through every codec, and damage that is always a
DecodeError.
"""

import struct

import pytest
from crc32c import crc32c
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError
from apportion.wire.batch import (
    BatchHeader,
    Record,
    check_producer_batch,
    decode_batch,
    encode_batch,
    encode_records,
    read_header,
    split_batches,
)
from apportion.wire.batch_rewrite import set_base_offset, stamp_append_time, stamp_create_time
from apportion.wire.record_fields import signed_varint
from tests.odd_batches import OddRecord, at_deltas, odd_batch

OCTETS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=8), OCTETS), max_size=3).map(tuple)
TRIPLES = st.tuples(OCTETS, OCTETS, HEADERS)
CODECS = st.integers(0, 4)


def mended(batch: bytes) -> bytes:
    """The batch with the length and the CRC that its bytes ask for."""
    sized = bytearray(batch)
    sized[8:12] = (len(batch) - 12).to_bytes(4, "big")
    sized[17:21] = crc32c(sized[21:]).to_bytes(4, "big")
    return bytes(sized)


def wrapped(body: bytes, count: int = 1, attributes: int = 0, last_delta: int = 0) -> bytes:
    """A batch around hand-made record bytes."""
    header = struct.pack(
        ">qiibIhiqqqhii", 0, 0, 0, 2, 0, attributes, last_delta, 1000, 5000, -1, -1, -1, count
    )
    return mended(header + body)


def test_the_bytes_of_a_known_batch_are_these() -> None:
    """Written out by hand from the format's description: lengths and deltas are zigzag varints."""
    batch = encode_batch(
        [(b"k", None, ()), (None, b"vv", (("h", b""),))],
        base_offset=7,
        timestamp_ms=1000,
        leader_epoch=3,
    )
    first = bytes([14, 0, 0, 0, 2]) + b"k" + bytes([1, 0])
    second = bytes([22, 0, 0, 2, 1, 4]) + b"vv" + bytes([2, 2]) + b"h" + bytes([0])
    assert batch[61:] == first + second
    head = struct.pack(">hiqqqhii", 0, 1, 1000, 1000, -1, -1, -1, 2)
    assert batch[21:61] == head
    assert batch[:21] == struct.pack(
        ">qiibI", 7, len(batch) - 12, 3, 2, crc32c(head + first + second)
    )


def test_the_header_says_everything_about_the_batch() -> None:
    batch = encode_batch(
        [(None, b"a", ()), (None, b"b", ())],
        base_offset=40,
        timestamp_ms=99,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        compression=3,
        leader_epoch=8,
    )
    header = read_header(batch)
    assert header == BatchHeader(40, len(batch), 8, 2, crc32c(batch[21:]), 3, 1, 99, 99, 5, 6, 7, 2)
    assert (
        header.compression,
        header.timestamp_type,
        header.is_transactional,
        header.is_control,
    ) == (3, 0, False, False)
    assert header.last_offset == 41
    flagged = read_header(encode_records([], base_offset=0, attributes=8 | 16 | 32))
    assert (flagged.timestamp_type, flagged.is_transactional, flagged.is_control) == (1, True, True)


@settings(max_examples=150, deadline=None)
@given(
    triples=st.lists(TRIPLES, max_size=12),
    codec=CODECS,
    sent_ms=st.integers(-1, 1 << 41),
    append_ms=st.integers(0, 1 << 41),
)
def test_a_stamped_batch_gives_its_records_one_time_and_back_that_of_their_producer(
    triples: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: int,
    sent_ms: int,
    append_ms: int,
) -> None:
    records = [Record(9 + i, sent_ms + 2 * i, *triple) for i, triple in enumerate(triples)]
    sent = encode_records(
        records, base_offset=9, attributes=codec | 16, producer=(5, 6, 7), leader_epoch=8
    )
    before = read_header(sent)
    stamped = bytearray(sent)
    header = stamp_append_time(stamped, append_ms)
    assert header == read_header(stamped)
    assert header == before._replace(
        crc=header.crc, attributes=codec | 16 | 8, max_timestamp_ms=append_ms
    )
    assert decode_batch(stamped) == [record._replace(timestamp_ms=append_ms) for record in records]
    stamp_append_time(stamped, before.max_timestamp_ms)
    assert (stamp_create_time(stamped, before.max_timestamp_ms), bytes(stamped)) == (before, sent)


@settings(max_examples=150, deadline=None)
@given(
    triples=st.lists(TRIPLES, max_size=12),
    codec=CODECS,
    base=st.integers(0, 1 << 40),
    at=st.integers(-1, 1 << 41),
)
def test_decoding_gives_what_was_encoded(
    triples: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: int,
    base: int,
    at: int,
) -> None:
    batch = encode_batch(triples, base_offset=base, timestamp_ms=at, compression=codec)
    expected = [Record(base + i, at, *triple) for i, triple in enumerate(triples)]
    assert decode_batch(memoryview(batch)) == expected


@settings(max_examples=100, deadline=None)
@given(
    gaps=st.lists(
        st.tuples(st.integers(1, 1000), st.integers(-(1 << 50), 1 << 50), TRIPLES),
        min_size=1,
        max_size=8,
    ),
    codec=CODECS,
    later=st.integers(0, 9),
)
def test_records_keep_their_own_offsets_and_times(
    gaps: list[
        tuple[int, int, tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]
    ],
    codec: int,
    later: int,
) -> None:
    records, offset = [], 99
    for gap, timestamp_ms, triple in gaps:
        offset += gap
        records.append(Record(offset, timestamp_ms, *triple))
    batch = encode_records(
        records, base_offset=100, attributes=codec, last_offset_delta=offset - 100 + later
    )
    assert decode_batch(batch) == records
    assert read_header(batch).last_offset == offset + later


def test_append_time_takes_the_place_of_every_time() -> None:
    records = [Record(0, 10, None, b"a"), Record(1, 20, None, b"b")]
    batch = encode_records(records, base_offset=0, attributes=8)
    assert decode_batch(batch) == [Record(0, 20, None, b"a"), Record(1, 20, None, b"b")]


def test_restamping_moves_the_batch_and_keeps_its_crc() -> None:
    batch = bytearray(encode_batch([(b"k", b"v", ())] * 3, timestamp_ms=1))
    set_base_offset(batch, 1 << 40, 77)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 77)
    assert [record.offset for record in decode_batch(batch)] == [(1 << 40) + i for i in range(3)]


def test_splitting_gives_whole_batches_and_leaves_out_a_cut_one() -> None:
    batches = [
        encode_batch([(None, bytes(i), ())], base_offset=i, timestamp_ms=0) for i in range(4)
    ]
    joined = b"".join(batches)
    assert list(split_batches(joined)) == batches
    assert list(split_batches(joined[:-1])) == batches[:-1]
    empty = encode_records([], base_offset=9)
    assert list(split_batches(empty * 2)) == [empty, empty]
    assert list(split_batches(b"")) == []
    with pytest.raises(DecodeError):
        list(split_batches(bytes(100)))


def test_every_single_damaged_byte_is_noticed_but_offset_and_epoch() -> None:
    batch = encode_batch([(b"key", b"value", ())], timestamp_ms=1)
    for at in range(len(batch)):
        damaged = bytearray(batch)
        damaged[at] ^= 0xFF
        if at < 8 or 12 <= at < 16:
            read_header(damaged)
        else:
            with pytest.raises(DecodeError):
                read_header(damaged)


@pytest.mark.parametrize("size", [0, 12, 60, 61, -1])
def test_a_cut_batch_is_refused(size: int) -> None:
    batch = encode_batch([(b"key", b"value", ())], timestamp_ms=1)
    with pytest.raises(DecodeError):
        read_header(batch[:size])


def test_a_producer_may_leave_out_no_offset_but_a_compacted_log_may() -> None:
    batch = encode_records([Record(3, 0, b"k", b"v")], base_offset=0)
    assert decode_batch(batch) == [Record(3, 0, b"k", b"v")]
    with pytest.raises(DecodeError, match="1 records for 4 offsets"):
        check_producer_batch(batch)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),  # nothing there
        (bytes([14, 0, 0, 0, 2]) + b"k" + bytes([1, 0]) + b"x", 1),  # bytes after the last record
        (bytes([12, 0, 0, 0, 2]) + b"k" + bytes([1, 0]), 1),  # the record says it is shorter
        (bytes([16, 0, 0, 0, 2]) + b"k" + bytes([1, 0]), 1),  # the record says it is longer
        (bytes([14, 0, 0, 0, 3]) + b"k" + bytes([1, 0]), 1),  # a null key, and a byte
        (bytes([14, 0, 0, 0, 126]) + b"k" + bytes([1, 0]), 1),  # a key longer than the record
        (bytes([14, 0, 0, 0, 2]) + b"k" + bytes([1, 1]), 1),  # -1 headers
        (bytes([14, 0, 0, 0, 2]) + b"k" + bytes([1, 2]), 1),  # a header that is not there
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1),  # a header without a name
        (bytes([255] * 20), 1),  # a varint without an end
        (bytes([1, 0, 0, 0, 1, 1, 0]), 1),  # a record of -1 bytes
        # a time delta of 11 bytes, an offset delta of 6
        (bytes([32, 0, *[255] * 10, 1, 0, 1, 1, 0]), 1),
        (bytes([22, 0, 0, *[255] * 5, 1, 1, 1, 0]), 1),
    ],
)
def test_malformed_records_are_refused(body: bytes, count: int) -> None:
    with pytest.raises(DecodeError):
        decode_batch(wrapped(body, count))


def test_a_producer_says_that_its_batch_begins_at_offset_0() -> None:
    with pytest.raises(DecodeError, match="at offset 5, not 0"):
        check_producer_batch(encode_batch([(b"k", b"v", ())], base_offset=5, timestamp_ms=0))


def test_records_are_read_wherever_their_offsets_are() -> None:
    batch = at_deltas(0, 0, 9, 1, -2, base_offset=5)
    assert [record.offset for record in decode_batch(batch)] == [5, 5, 14, 6, 3]


def test_a_time_of_more_than_64_bits_is_the_one_that_its_64_bits_say() -> None:
    deltas = (0, (1 << 63) - 1, -(1 << 63))
    records = [OddRecord(number, delta) for number, delta in enumerate(deltas)]
    late = decode_batch(odd_batch(records, first_ms=1 << 62))
    assert [record.timestamp_ms for record in late] == [
        1 << 62,
        -(1 << 62) - 1,
        -(1 << 62),
    ]


def test_any_length_below_zero_is_that_of_null() -> None:
    record = OddRecord(0, key=signed_varint(-5), value=signed_varint(-7))
    assert decode_batch(odd_batch([record])) == [Record(0, 0, None, None)]


def test_a_header_name_that_is_not_utf_8_is_read_as_java_reads_it() -> None:
    batch = odd_batch([OddRecord(0, headers=[b"a\xff\xfeb"])])
    assert decode_batch(batch) == [Record(0, 0, None, None, (("a\ufffd\ufffdb", None),))]


def test_bits_beyond_those_of_a_number_are_dropped() -> None:
    offset_delta, time_delta = bytes([130, 128, 128, 128, 112]), bytes([130, *[128] * 8, 126])
    body = bytes([0]) + time_delta + offset_delta + bytes([1, 1, 0])
    batch = wrapped(bytes([2 * len(body)]) + body, last_delta=1)
    assert decode_batch(batch) == [Record(1, 1001, None, None)]


def test_a_batch_of_more_than_the_limit_is_refused() -> None:
    batch = encode_batch([(None, bytes(1000), ())], timestamp_ms=0, compression=4)
    with pytest.raises(DecodeError):
        decode_batch(batch, limit_bytes=999)


@settings(max_examples=500, deadline=None)
@given(data=st.data(), triples=st.lists(TRIPLES, min_size=1, max_size=4), codec=CODECS)
def test_damage_with_a_right_crc_gives_records_or_a_decode_error(
    data: st.DataObject,
    triples: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: int,
) -> None:
    batch = bytearray(encode_batch(triples, timestamp_ms=5, compression=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(21, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(61, len(batch)))
    assume(size > 61)
    damaged = mended(bytes(batch[:size]))
    try:
        records = decode_batch(damaged, limit_bytes=1 << 16)
    except DecodeError:
        return
    assert len(records) == read_header(damaged).count
