"""What a consumer has fetched, and its positions, batch by batch."""

from typing import Any

import pytest

from apportion.errors import Code, DecodeError
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.records.fetch_buffer import FetchBuffer
from apportion.topics import TopicIdPartition
from apportion.wire.batch import encode_batch, encode_records
from tests.odd_batches import at_deltas

P0, P1 = (TopicIdPartition("t", b"i" * 16, number) for number in range(2))


class Interrupted:
    """A batch at which the user presses Ctrl-C."""

    def __len__(self) -> int:
        raise KeyboardInterrupt


def batch(offset: int, count: int = 1) -> memoryview:
    """Return a batch of records that begins at this offset."""
    return memoryview(encode_batch([(None, b"", ())] * count, base_offset=offset, timestamp_ms=0))


def damaged(offset: int) -> memoryview:
    """Return a batch of one record whose last byte is not the one that was written."""
    octets = bytearray(batch(offset))
    octets[-1] ^= 1
    return memoryview(octets)


def buffer_of(*batches: Any) -> FetchBuffer:
    """Return a buffer at the beginning of P0 that has fetched these batches of it."""
    buffer = FetchBuffer()
    buffer.positions[P0] = 0
    fetched(buffer, P0, *batches)
    return buffer


def fetched(buffer: FetchBuffer, partition: TopicIdPartition, *batches: Any) -> None:
    buffer.add(partition, PartitionFetch(batches, 0, Code.NONE))


def offsets(buffer: FetchBuffer, limit: int = 10) -> list[int]:
    """Return the offsets of the next records."""
    return [record.offset for record in buffer.take(limit)]


def test_records_are_taken_across_batches_and_partitions() -> None:
    buffer = buffer_of(batch(0, 3), batch(3, 2))
    buffer.positions[P1] = 1
    fetched(buffer, P1, batch(0, 3))
    assert offsets(buffer, 2) == [0, 1]
    assert buffer.positions == {P0: 2, P1: 1}
    assert offsets(buffer, 4) == [2, 3, 4, 1]
    assert buffer.positions == {P0: 5, P1: 2}
    assert offsets(buffer) == [2]
    assert offsets(buffer) == []
    assert buffer.positions == {P0: 5, P1: 3}


def test_a_batch_that_compaction_has_emptied_is_passed() -> None:
    buffer = FetchBuffer()
    buffer.positions[P0] = 5
    emptied = encode_records([], base_offset=5, last_offset_delta=2)
    buffer.add(P0, PartitionFetch((memoryview(emptied),), 8, Code.NONE))
    assert buffer.take(1) == []
    assert buffer.positions == {P0: 8}


def test_records_before_a_damaged_batch_are_delivered_first() -> None:
    buffer = buffer_of(batch(0), damaged(1))
    assert offsets(buffer) == [0]
    assert buffer.positions == {P0: 1}


def test_a_damaged_batch_is_never_passed() -> None:
    buffer = buffer_of(batch(0), damaged(1), batch(2))
    assert offsets(buffer) == [0]
    for _ in range(3):
        with pytest.raises(DecodeError, match=r"t-0 at offset 1: .* wrong CRC"):
            buffer.take(10)
        assert buffer.positions == {P0: 1}


def test_a_damaged_batch_goes_with_its_partition() -> None:
    buffer = buffer_of(damaged(0))
    buffer.positions[P1] = 0
    fetched(buffer, P1, batch(0))
    with pytest.raises(DecodeError):
        buffer.take(10)
    buffer.drop([P0])
    assert offsets(buffer) == [0]


def test_an_interrupt_moves_no_position_and_skips_no_record() -> None:
    buffer = buffer_of(batch(0, 2), Interrupted(), batch(3))
    assert offsets(buffer, 1) == [0]
    with pytest.raises(KeyboardInterrupt):
        buffer.take(10)
    assert buffer.positions == {P0: 1}
    # The next fetch begins at the position.
    assert offsets(buffer) == []
    fetched(buffer, P0, batch(0, 2), batch(2, 2))
    assert offsets(buffer) == [1, 2, 3]


def test_records_are_delivered_wherever_their_offsets_are() -> None:
    """The position moves behind their batch, once all of them have been taken."""
    for deltas in ((0, 0, 0), (0, 5, 9), (2, 1, 0), (-3, -2, -1)):
        buffer = buffer_of(batch(0, 2), memoryview(at_deltas(*deltas, base_offset=2)), batch(5, 2))
        assert offsets(buffer, 2) == [0, 1]
        assert [offsets(buffer, 1) for _ in deltas[:2]] == [[2 + delta] for delta in deltas[:2]]
        assert buffer.positions == {P0: 2}
        assert offsets(buffer, 1) == [2 + deltas[2]]
        assert buffer.positions == {P0: 5}
        assert offsets(buffer) == [5, 6]
        assert buffer.positions == {P0: 7}


def test_a_position_within_a_batch_parts_its_records_as_a_range_does() -> None:
    buffer = buffer_of(memoryview(at_deltas(2, 0, -1, 9, 1, 1)))
    buffer.positions[P0] = 1
    assert offsets(buffer, 3) == [2, 9, 1]
    assert buffer.positions == {P0: 1}
    assert offsets(buffer, 3) == [1]
    assert buffer.positions == {P0: 6}
