"""message.timestamp.type=LogAppendTime: every record bears the time at which the broker took it,
whatever its producer wrote.
"""

from typing import Any

import pytest
from crc32c import crc32c

from apportion.errors import Code
from apportion.wire.batch import Record, encode_records
from apportion.wire.batch_rewrite import stamp_append_time
from tests.node import kit
from tests.node.kit import NodeDriver
from tests.node.topic_requests import EARLIEST, LATEST, YOUNGEST, create, listed, produced, stored

APPEND: dict[str, Any] = {"message_timestamp_type": "LogAppendTime"}


def batch(*times: int, compression: int = 0, **facts: Any) -> bytes:
    """One batch with a record for each time."""
    records = [
        Record(number, time, b"k%d" % number, b"v", (("h", b"x"),))
        for number, time in enumerate(times)
    ]
    return encode_records(records, base_offset=0, attributes=compression, **facts)


@pytest.fixture
def appending(driver: NodeDriver) -> NodeDriver:
    """A broker with a topic of this kind, at a wall clock of WALL_MS + 7000."""
    assert create(driver, **APPEND) == (Code.NONE, None)
    driver.now_ms = 7000
    return driver


@pytest.mark.parametrize("compression", range(5))
def test_the_header_alone_is_stamped_and_its_crc_made_anew(
    appending: NodeDriver, compression: int
) -> None:
    sent = batch(kit.WALL_MS - 500, kit.WALL_MS, compression=compression)
    answer = produced(appending, kit.produce("t", sent))
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (
        Code.NONE,
        0,
        kit.WALL_MS + 7000,
    )
    [(header, records)] = stored(appending)
    assert header.attributes == compression | 8
    assert (header.first_timestamp_ms, header.max_timestamp_ms) == (
        kit.WALL_MS - 500,
        kit.WALL_MS + 7000,
    )
    expected = bytearray(sent)
    stamp_append_time(expected, kit.WALL_MS + 7000)
    assert expected[61:] == sent[61:]
    assert header.crc == crc32c(bytes(expected[21:]))
    assert [(record.offset, record.timestamp_ms, record.key) for record in records] == [
        (0, kit.WALL_MS + 7000, b"k0"),
        (1, kit.WALL_MS + 7000, b"k1"),
    ]


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 1, 1_700_000_000_000 + 7 * 86_400_000])
def test_no_timestamp_of_a_producer_is_out_of_range(driver: NodeDriver, timestamp_ms: int) -> None:
    create(
        driver,
        **APPEND,
        message_timestamp_before_max_ms="1000",
        message_timestamp_after_max_ms="1000",
    )
    answer = produced(driver, kit.produce("t", batch(timestamp_ms)))
    assert (answer.error_code, answer.log_append_time_ms) == (Code.NONE, kit.WALL_MS)


def test_the_brokers_setting_is_the_default_of_topics() -> None:
    defaults: dict[str, Any] = {"log.message.timestamp.type": "LogAppendTime"}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    create(driver, "own", message_timestamp_type="CreateTime")
    assert produced(driver, kit.produce("t", batch(5))).log_append_time_ms == kit.WALL_MS
    assert produced(driver, kit.produce("own", batch(5))).log_append_time_ms == -1
    assert [stored(driver, topic)[0][1][0].timestamp_ms for topic in ("t", "own")] == [
        kit.WALL_MS,
        5,
    ]


def test_a_restart_with_another_setting_changes_the_batches_to_come_alone() -> None:
    driver = kit.NodeDriver()
    driver.create("t")
    produced(driver, kit.produce("t", batch(kit.WALL_MS - 5)))
    for kind, told_ms in (("LogAppendTime", kit.WALL_MS), ("CreateTime", -1)):
        driver.settings = {"log.message.timestamp.type": kind}
        driver = driver.crash()
        assert (
            produced(driver, kit.produce("t", batch(kit.WALL_MS - 5))).log_append_time_ms == told_ms
        )
    assert [
        (header.timestamp_type, records[0].timestamp_ms) for header, records in stored(driver)
    ] == [
        (0, kit.WALL_MS - 5),
        (1, kit.WALL_MS),
        (0, kit.WALL_MS - 5),
    ]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_offsets_are_found_by_the_time_of_the_append(
    appending: NodeDriver, is_restarted: bool
) -> None:
    for _ in range(3):
        produced(appending, kit.produce("t", batch(9, 5, 7)))
        appending.now_ms += 10
    driver = appending.crash() if is_restarted else appending
    first_ms = kit.WALL_MS + 7000
    assert listed(driver, 6) == (0, first_ms)
    assert listed(driver, first_ms) == (0, first_ms)
    assert listed(driver, first_ms + 1) == (3, first_ms + 10)
    assert listed(driver, first_ms + 20) == (6, first_ms + 20)
    assert listed(driver, first_ms + 21) == (-1, -1)
    assert listed(driver, YOUNGEST) == (6, first_ms + 20)
    assert (listed(driver, EARLIEST), listed(driver, LATEST)) == ((0, -1), (9, -1))


def test_a_stamped_batch_survives_a_crash_and_a_repeat_has_its_first_time(
    appending: NodeDriver,
) -> None:
    sent = batch(5, producer=(7, 0, 0))
    assert produced(appending, kit.produce("t", sent)).log_append_time_ms == kit.WALL_MS + 7000
    appending.now_ms += 1000
    again = appending.crash()
    again.now_ms = 60_000
    answer = produced(again, kit.produce("t", sent))
    assert (answer.base_offset, answer.log_append_time_ms) == (0, kit.WALL_MS + 7000)
    [(header, _)] = stored(again)
    assert header.max_timestamp_ms == kit.WALL_MS + 7000


def test_a_producer_that_claims_the_time_of_the_append_is_refused_with_each_record(
    appending: NodeDriver,
) -> None:
    claimed = bytearray(batch(5, 6))
    stamp_append_time(claimed, kit.WALL_MS)
    answer = produced(appending, kit.produce("t", bytes(claimed)))
    assert (answer.error_code, answer.base_offset) == (Code.INVALID_TIMESTAMP, -1)
    assert [each.batch_index for each in answer.record_errors] == [0, 1]
    assert stored(appending) == []


def test_where_producers_give_the_time_such_a_claim_is_dropped(driver: NodeDriver) -> None:
    driver.create("t")
    sent = batch(5, 6)
    claimed = bytearray(sent)
    stamp_append_time(claimed, 6)
    assert produced(driver, kit.produce("t", bytes(claimed))).error_code == Code.NONE
    [(header, records)] = stored(driver)
    assert (header.attributes, [record.timestamp_ms for record in records]) == (0, [5, 6])


def test_a_topic_whose_records_are_stamped_loses_them_by_that_time() -> None:
    defaults: dict[str, Any] = {"log.retention.check.interval.ms": 1000}
    driver = kit.NodeDriver(**defaults)
    create(driver, **APPEND, retention_ms="5000")
    produced(driver, kit.produce("t", batch(5)))
    driver.sleep(4999)
    assert listed(driver, EARLIEST) == (0, -1)
    driver.sleep(2001)
    driver.flush()
    assert listed(driver, EARLIEST) == (1, -1)
