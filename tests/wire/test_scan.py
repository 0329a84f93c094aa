"""What records say of themselves, read in columns: the same as from the records one by one, and
what cannot be read is refused.
"""

from collections.abc import Iterator

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError
from apportion.wire.batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    decode_batch,
    encode_batch,
    encode_records,
    read_header,
)
from apportion.wire.scan import scan_records
from tests.odd_batches import OddRecord, odd_batch, odd_records

octets = (
    st.none()
    | st.binary(max_size=3)
    | st.integers(60, 70).map(bytes)
    | st.integers(8_180, 8_200).map(bytes)
)
headers = st.lists(
    st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2
).map(tuple)
rows = st.lists(
    st.tuples(st.integers(1, 300), st.integers(-(1 << 60), 1 << 60), octets, octets, headers),
    min_size=1,
    max_size=8,
)


def made(
    rows: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> tuple[BatchHeader, bytes, list[Record]]:
    """Header and body of a batch of these records, some offsets apart, and the records."""
    records, offset = [], 6
    for gap, timestamp_ms, key, value, named in rows:
        offset += gap
        records.append(Record(offset, timestamp_ms, key, value, named))
    batch = encode_records(records, base_offset=7, last_offset_delta=records[-1].offset - 7)
    return read_header(batch), batch[HEADER_BYTES:], records


@pytest.fixture(params=["singly", "in columns"], scope="module")
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Records are read in each of the two ways, however many there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "apportion.wire.scan.MAX_SCANNED_ONE_BY_ONE", 1_000 if request.param == "singly" else -1
        )
        yield


@settings(max_examples=200, deadline=None)
@given(rows=rows)
def test_a_scan_says_what_the_records_say(
    way: None,
    rows: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> None:
    header, body, records = made(rows)
    scan = scan_records(body, header)
    assert scan.offsets.tolist() == [record.offset for record in records]
    assert scan.timestamps_ms.tolist() == [record.timestamp_ms for record in records]
    assert scan.has_key.tolist() == [record.key is not None for record in records]


def scanned_or_none(batch: bytearray) -> tuple[list[int], list[int], list[bool]] | None:
    try:
        scan = scan_records(bytes(batch[HEADER_BYTES:]), read_header(batch))
    except DecodeError:
        return None
    return scan.offsets.tolist(), scan.timestamps_ms.tolist(), scan.has_key.tolist()


def decoded_or_none(batch: bytearray) -> tuple[list[int], list[int], list[bool]] | None:
    try:
        records = decode_batch(bytes(batch))
    except DecodeError:
        return None
    return (
        [record.offset for record in records],
        [record.timestamp_ms for record in records],
        [record.key is not None for record in records],
    )


@settings(max_examples=600, deadline=None)
@given(
    rows=rows,
    damage=st.lists(
        st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=3
    ),
)
@example(rows=[(1, 0, b"k", b"v", ())], damage=[(0, 15)])
def test_damaged_records_are_refused_or_read_alike_and_nothing_else_happens(
    way: None,
    rows: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    damage: list[tuple[int, int]],
) -> None:
    _, body, records = made([(*row[:4], ()) for row in rows])
    batch = bytearray(encode_records(records, base_offset=7))
    for at, octet in damage:
        batch[HEADER_BYTES + at % len(body)] = octet
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    decoded = decoded_or_none(batch)
    assert scanned_or_none(batch) == decoded or decoded is None


@settings(max_examples=100, deadline=None)
@given(
    runs=st.lists(
        st.tuples(st.sampled_from([0, 1, 57, 58, 100, 8_200]), st.integers(1, 150)),
        min_size=1,
        max_size=5,
    ),
    damage=st.none() | st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)),
)
@example(runs=[(100, 9_000)], damage=None)
@example(runs=[(0, 33), (1, 1), (0, 200)], damage=(7 * 100, 0x0E))
def test_runs_of_records_of_one_length_are_read_as_the_records_are(
    runs: list[tuple[int, int]], damage: tuple[int, int] | None
) -> None:
    values = [bytes(size) for size, count in runs for _ in range(count)]
    batch = bytearray(encode_batch([(None, value, ()) for value in values], timestamp_ms=1))
    if damage is not None:
        at, octet = damage
        batch[HEADER_BYTES + at % (len(batch) - HEADER_BYTES)] = octet
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    decoded = decoded_or_none(batch)
    assert scanned_or_none(batch) == decoded or (damage is not None and decoded is None)


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_run_of_records_that_is_cut_off_is_refused(cut: int) -> None:
    batch = encode_batch([(None, b"value", ())] * 500, timestamp_ms=1)
    with pytest.raises(DecodeError):
        scan_records(bytes(batch[HEADER_BYTES:-cut]), read_header(batch))
    with pytest.raises(DecodeError, match="bytes after the records"):
        scan_records(bytes(batch[HEADER_BYTES:]) + bytes(cut), read_header(batch))


@pytest.mark.parametrize("cut", range(1, 20))
def test_records_that_are_cut_off_are_refused(way: None, cut: int) -> None:
    header, body, _ = made([(1, 0, b"key", b"value", ()), (1, 0, None, b"value", ())])
    with pytest.raises(DecodeError):
        scan_records(body[:-cut], header)
    with pytest.raises(DecodeError):
        scan_records(body + bytes(cut), header)


def test_a_length_that_does_not_end_and_a_count_that_cannot_be_are_refused(way: None) -> None:
    header, body, _ = made([(1, 0, None, None, ())])
    for torn in (b"\xff" * 9, b"\xff" * 7, b"\x01" + body[1:], b""):
        with pytest.raises(DecodeError):
            scan_records(torn, header)
    with pytest.raises(DecodeError, match=r"records in 7 bytes|too early"):
        scan_records(body, header._replace(count=10**9))


@settings(max_examples=200, deadline=None)
@given(
    records=odd_records(st.integers(-(1 << 63), (1 << 63) - 1)),
    first_ms=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_a_scan_reads_whatever_a_real_kafka_stores(
    way: None, records: list[OddRecord], first_ms: int
) -> None:
    batch = bytearray(odd_batch(records, base_offset=7, first_ms=first_ms))
    decoded = decoded_or_none(batch)
    assert decoded is not None
    assert scanned_or_none(batch) == decoded
