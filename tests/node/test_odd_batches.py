"""Batches that no client makes: this broker takes and stores what a real Kafka does.

`tests/kafka/test_odd_batches_on_both.py` asks both brokers.
"""

from typing import Any

import pytest
from hypothesis import given, settings

from apportion.errors import Code
from apportion.wire.batch import Record
from tests.node import kit
from tests.node.kit import NodeDriver
from tests.node.topic_requests import EARLIEST, LATEST, create, listed, produced, stored
from tests.odd_batches import OddRecord, at_deltas, odd_batch, odd_records

COMPACTED: dict[str, Any] = {"cleanup_policy": "compact"}


def answer(driver: NodeDriver, batch: bytes) -> tuple[Code, int, str | None]:
    """Code, base offset and sentence of the response to a Produce of this batch."""
    response = produced(driver, kit.produce("t", batch))
    return Code.of(response.error_code), response.base_offset, response.error_message


@settings(max_examples=60, deadline=None)
@given(records=odd_records())
def test_an_uncompressed_batch_is_stored_as_it_is(records: list[OddRecord]) -> None:
    driver = NodeDriver()
    driver.create("t")
    now_ms = kit.WALL_MS
    for base_offset in (0, len(records)):
        sent = odd_batch(records, first_ms=now_ms, max_ms=now_ms)
        assert answer(driver, sent) == (Code.NONE, base_offset, None)
    offsets = [record.offset for _, batch in stored(driver) for record in batch]
    deltas = [record.offset_delta for record in records]
    assert offsets == [*deltas, *(len(records) + delta for delta in deltas)]
    assert (listed(driver, EARLIEST)[0], listed(driver, LATEST)[0]) == (0, 2 * len(records))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_batch_has_its_records_at_consecutive_offsets(
    driver: NodeDriver, codec: int
) -> None:
    driver.create("t")
    why = "a compressed record batch whose records are not at consecutive offsets"
    for deltas in ((0, 0, 0), (0, 5, 9), (2, 1, 0), (-1, 0, 1)):
        records = [OddRecord(delta) for delta in deltas]
        assert answer(driver, odd_batch(records, attributes=codec)) == (
            Code.INVALID_RECORD,
            -1,
            why,
        )
    assert stored(driver) == []


def test_a_batch_that_the_broker_compresses_gets_consecutive_offsets(driver: NodeDriver) -> None:
    create(driver, compression_type="gzip")
    now_ms = kit.WALL_MS
    for deltas in ((0, 0, 0), (-9, 1 << 30, 7)):
        records = [
            OddRecord(delta, time_delta=number * 1000, headers=[b"h" * number])
            for number, delta in enumerate(deltas)
        ]
        assert answer(driver, odd_batch(records, first_ms=now_ms - 9000))[0] is Code.NONE
    names = [(), (("h", None),), (("hh", None),)]
    assert [
        (header.compression, header.max_timestamp_ms, records) for header, records in stored(driver)
    ] == [
        (
            1,
            now_ms - 7000,
            [
                Record(base + number, now_ms - 9000 + number * 1000, None, None, headers)
                for number, headers in enumerate([(("", None),), *names[1:]])
            ],
        )
        for base in (0, 3)
    ]


def test_the_largest_timestamp_of_a_batch_is_not_below_minus_1(driver: NodeDriver) -> None:
    driver.create("t")
    records = [OddRecord(0, time_delta=-5), OddRecord(1, time_delta=-(1 << 62))]
    assert answer(driver, odd_batch(records))[0] is Code.NONE
    [(header, kept)] = stored(driver)
    assert (header.max_timestamp_ms, [record.timestamp_ms for record in kept]) == (
        -1,
        [-5, -(1 << 62)],
    )


def test_any_length_below_zero_is_that_of_a_null_key(driver: NodeDriver) -> None:
    create(driver, **COMPACTED)
    response = produced(driver, kit.produce("t", odd_batch([OddRecord(0, key=b"\x09")])))
    assert (response.error_code, len(response.record_errors)) == (Code.INVALID_RECORD, 1)


def test_a_producer_says_that_its_batch_begins_at_offset_0(driver: NodeDriver) -> None:
    driver.create("t")
    for base_offset in (5, -5):
        assert answer(driver, at_deltas(0, base_offset=base_offset)) == (
            Code.INVALID_RECORD,
            -1,
            f"a produced record batch at offset {base_offset}, not 0",
        )


def test_a_record_is_found_by_its_time_at_an_offset_of_its_batch(driver: NodeDriver) -> None:
    driver.create("t")
    early_ms = kit.WALL_MS - 9000
    records = [OddRecord(delta, number * 1000) for number, delta in enumerate((-7, 8, 1))]
    assert answer(driver, odd_batch(records, first_ms=early_ms))[0] is Code.NONE
    assert [listed(driver, early_ms + number * 1000) for number in range(3)] == [
        (0, early_ms),
        (2, early_ms + 1000),
        (1, early_ms + 2000),
    ]


def test_a_claimed_time_of_the_append_is_the_time_of_every_record(driver: NodeDriver) -> None:
    driver.create("t")
    late = OddRecord(0, time_delta=1 << 60)
    assert answer(driver, odd_batch([late], max_ms=kit.WALL_MS, attributes=8))[0] is Code.NONE
    [(header, _)] = stored(driver)
    assert (header.timestamp_type, header.max_timestamp_ms) == (0, kit.WALL_MS)
    timeless = odd_batch([OddRecord(0)], max_ms=-1, attributes=8)
    assert answer(driver, timeless)[0] is Code.INVALID_TIMESTAMP
