"""Settings that speak of single records: keys of compacted topics, bounds of timestamps, a topic's
own compression.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.wire.batch import Record, encode_batch, encode_records
from apportion.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.node import kit
from tests.node.kit import NodeDriver
from tests.node.topic_requests import VERSION, claiming, create, from_crc, produced, stored
from tests.odd_batches import at_deltas

KEYLESS = "a record of a compacted topic has a key"
WEEK_MS = 7 * 86_400_000


def batch(*records: tuple[bytes | None, int], compression: int = 0, **facts: Any) -> bytes:
    """One batch of (key, timestamp) pairs."""
    made = [Record(number, time, key, b"v") for number, (key, time) in enumerate(records)]
    return encode_records(made, base_offset=0, attributes=compression, **facts)


def faults(answer: PartitionProduceResponse) -> tuple[int, list[int]]:
    """Code and the places of the records that were refused."""
    return answer.error_code, [each.batch_index for each in answer.record_errors]


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete, compact"])
@pytest.mark.parametrize("compression", [0, 1, 4])
def test_a_compacted_topic_takes_no_record_without_a_key_and_names_each(
    driver: NodeDriver, policy: str, compression: int
) -> None:
    create(driver, cleanup_policy=policy)
    now_ms = kit.WALL_MS
    mixed = batch(
        (b"k", now_ms), (None, now_ms), (b"", now_ms), (None, now_ms), compression=compression
    )
    answer = produced(driver, kit.produce("t", mixed))
    assert (answer.error_code, answer.base_offset, answer.error_message) == (
        Code.INVALID_RECORD,
        -1,
        "2 records of 4 have no key",
    )
    assert answer.record_errors == tuple(
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=KEYLESS)
        for index in (1, 3)
    )
    assert stored(driver) == []
    tombstone = encode_batch([(b"k", None, ()), (b"", b"v", ())], timestamp_ms=now_ms)
    assert faults(produced(driver, kit.produce("t", tombstone))) == (Code.NONE, [])


def test_other_topics_take_records_without_a_key(driver: NodeDriver) -> None:
    for name, policy in (("t", "delete"), ("kept", "")):
        create(driver, name, cleanup_policy=policy)
        assert faults(produced(driver, kit.produce(name, batch((None, kit.WALL_MS))))) == (
            Code.NONE,
            [],
        )


def test_of_a_batch_that_is_refused_nothing_is_known_to_its_producer(driver: NodeDriver) -> None:
    create(driver, cleanup_policy="compact")
    for keys, code, offset in (((None,), Code.INVALID_RECORD, -1), ((b"k",), Code.NONE, 0)):
        sent = batch(*((key, kit.WALL_MS) for key in keys), producer=(7, 0, 0))
        answer = produced(driver, kit.produce("t", sent))
        assert (answer.error_code, answer.base_offset) == (code, offset)


def test_the_answer_of_an_old_version_has_the_code_alone(driver: NodeDriver) -> None:
    create(driver, cleanup_policy="compact")
    answer = produced(driver, kit.produce("t", batch((None, kit.WALL_MS))), version=7)
    assert answer.error_code == Code.INVALID_RECORD


def test_a_bad_timestamp_sets_the_error_code_and_a_missing_key_a_record_error(
    driver: NodeDriver,
) -> None:
    create(driver, cleanup_policy="compact")
    late_ms = kit.WALL_MS + WEEK_MS
    answer = produced(
        driver, kit.produce("t", batch((None, late_ms), (None, kit.WALL_MS), (b"k", late_ms)))
    )
    assert faults(answer) == (Code.INVALID_TIMESTAMP, [0, 1, 2])
    errors = [each.batch_index_error_message for each in answer.record_errors]
    assert [text == KEYLESS for text in errors] == [True, True, False]
    alone = produced(driver, kit.produce("t", batch((None, late_ms))))
    assert faults(alone) == (Code.INVALID_RECORD, [0])


def test_every_record_from_the_future_is_named(driver: NodeDriver) -> None:
    driver.create("t")
    late_ms = kit.WALL_MS + 3_600_001
    answer = produced(
        driver, kit.produce("t", batch((b"k", late_ms - 1), (None, late_ms), (b"k", late_ms)))
    )
    assert faults(answer) == (Code.INVALID_TIMESTAMP, [1, 2])


@pytest.mark.parametrize(
    ("offset_ms", "code"),
    [(-1001, 32), (-1000, 0), (0, 0), (2000, 0), (2001, 32)],
    ids=["old", "least", "now", "most", "late"],
)
@pytest.mark.parametrize("where", ["topic", "broker"])
def test_a_timestamp_is_within_the_bounds_of_its_topic_or_of_the_broker(
    where: str, offset_ms: int, code: int
) -> None:
    bounds = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "2000"}
    of_broker: dict[str, Any] = {f"log_{name}": value for name, value in bounds.items()}
    of_topic: dict[str, Any] = dict(bounds)
    driver = kit.NodeDriver(**(of_broker if where == "broker" else {}))
    create(driver, **(of_topic if where == "topic" else {}))
    answer = produced(
        driver, kit.produce("t", batch((None, kit.WALL_MS), (None, kit.WALL_MS + offset_ms)))
    )
    assert faults(answer) == (code, [1] if code else [])


def test_a_record_without_a_timestamp_is_never_too_old(driver: NodeDriver) -> None:
    create(driver, message_timestamp_before_max_ms="1000")
    assert faults(produced(driver, kit.produce("t", batch((None, -1))))) == (Code.NONE, [])


CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
octets = st.none() | st.binary(max_size=30)
bodies = st.lists(st.tuples(octets, octets, st.integers(-1000, 1000)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(CODECS)), st.integers(0, 4), bodies, st.booleans())
def test_a_topic_with_a_compression_of_its_own_stores_nothing_else(
    name: str,
    sent_as: int,
    contents: list[tuple[bytes | None, bytes | None, int]],
    is_numbered: bool,
) -> None:
    driver = kit.NodeDriver()
    create(driver, compression_type=name)
    records = [
        Record(at, kit.WALL_MS + late_ms, key, value, (("h", key),))
        for at, (key, value, late_ms) in enumerate(contents)
    ]
    producer = (7, 3, 11) if is_numbered else (-1, -1, -1)
    sent = encode_records(records, base_offset=0, attributes=sent_as, producer=producer)
    assert faults(produced(driver, kit.produce("t", sent))) == (Code.NONE, [])
    [(header, stored_records)] = stored(driver)
    assert (header.compression, stored_records) == (CODECS[name], records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    if is_numbered:  # it is known again
        assert produced(driver.crash(), kit.produce("t", sent)).base_offset == 0


@pytest.mark.parametrize("sent_as", [0, 4])
@pytest.mark.parametrize("excess_bytes", [0, 1])
def test_a_batch_that_is_stored_in_another_compression_is_within_the_bounds_then(
    sent_as: int, excess_bytes: int
) -> None:
    driver, value = kit.NodeDriver(), bytes(900)
    loose = len(encode_batch([(None, value, ())], timestamp_ms=kit.WALL_MS))
    create(driver, compression_type="uncompressed", max_message_bytes=str(loose - excess_bytes))
    sent = encode_batch([(None, value, ())], timestamp_ms=kit.WALL_MS, compression=sent_as)
    codes = (Code.MESSAGE_TOO_LARGE, -1) if excess_bytes else (Code.NONE, 0)
    answer = produced(driver, kit.produce("t", sent))
    assert (answer.error_code, answer.base_offset, answer.record_errors) == (*codes, ())
    assert len(stored(driver)) == 1 - excess_bytes


@pytest.mark.parametrize(
    ("excess_bytes", "code"), [(0, Code.NONE), (1, Code.RECORD_LIST_TOO_LARGE)]
)
@pytest.mark.parametrize("compression", ["producer", "uncompressed"])
def test_a_batch_that_no_segment_has_room_for_is_refused(
    driver: NodeDriver, compression: str, excess_bytes: int, code: Code
) -> None:
    create(
        driver, compression_type=compression, segment_bytes="1048576", max_message_bytes="2000000"
    )
    near_bytes = (1 << 20) - 100
    frame_bytes = (
        len(encode_batch([(None, bytes(near_bytes), ())], timestamp_ms=kit.WALL_MS)) - near_bytes
    )
    value = bytes((1 << 20) - frame_bytes + excess_bytes)
    assert (
        len(encode_batch([(None, value, ())], timestamp_ms=kit.WALL_MS)) == (1 << 20) + excess_bytes
    )
    sent = encode_batch(
        [(None, value, ())],
        timestamp_ms=kit.WALL_MS,
        compression=0 if compression == "producer" else 4,
    )
    assert faults(produced(driver, kit.produce("t", sent))) == (code, [])


def test_an_undecodable_batch_is_refused_if_a_setting_depends_on_its_records(
    driver: NodeDriver,
) -> None:
    create(driver, cleanup_policy="compact")
    driver.create("plain")
    create(driver, "any", message_timestamp_after_max_ms=str(2**63 - 1))
    torn = bytearray(batch((b"k", kit.WALL_MS)))
    torn[61] = 99  # the length of the record
    from_crc(torn)
    codes = {
        name: produced(driver, kit.produce(name, bytes(torn))).error_code
        for name in ("t", "plain", "any")
    }
    assert codes == {"t": Code.INVALID_RECORD, "plain": Code.INVALID_RECORD, "any": Code.NONE}
    garbage = bytearray(batch((b"k", kit.WALL_MS), compression=4))
    garbage[61:65] = bytes(4)
    from_crc(garbage)
    assert produced(driver, kit.produce("t", bytes(garbage))).error_code == Code.INVALID_RECORD


LOOKING = (
    {"cleanup_policy": "compact"},
    {"compression_type": "lz4"},
    {"message_timestamp_before_max_ms": "1000"},
)
"""Topics that take no batch that was not looked into."""


def bomb(size_bytes: int, codec: int = 4) -> bytes:
    """A small batch of one record with so large a value."""
    packed = encode_batch(
        [(b"k", bytes(size_bytes), ())], timestamp_ms=kit.WALL_MS, compression=codec
    )
    assert len(packed) < 100_000
    return packed


def crowd(records: int) -> bytes:
    """A batch whose header says that it holds so many records, of which it has one."""
    many = bytearray(batch((b"k", kit.WALL_MS)))
    many[23:27], many[57:61] = (records - 1).to_bytes(4, "big"), records.to_bytes(4, "big")
    from_crc(many)
    return bytes(many)


@pytest.mark.parametrize("config", LOOKING, ids=["keys", "compression", "times"])
@pytest.mark.parametrize("codec", [1, 4])
def test_a_small_batch_with_too_much_to_inspect_is_too_large_so_clients_split_it(
    driver: NodeDriver, config: dict[str, Any], codec: int
) -> None:
    create(driver, **config)
    answer: Any = produced(driver, kit.produce("t", bomb(40 << 20, codec)))
    assert (answer.error_code, "more than 33554432 bytes" in answer.error_message) == (
        Code.MESSAGE_TOO_LARGE,
        True,
    )
    assert produced(driver, kit.produce("t", crowd(1_000_001))).error_code == Code.MESSAGE_TOO_LARGE
    assert stored(driver) == []


def several(driver: NodeDriver, *batches: bytes, topic: str = "t") -> list[int]:
    """Produce all of these batches in one request; the codes of the answer."""
    data = tuple(PartitionProduceData(index=0, records=each) for each in batches)
    request = ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    return [
        each.error_code for each in driver.call(request, VERSION).responses[0].partition_responses
    ]


@pytest.mark.parametrize("config", LOOKING, ids=["keys", "compression", "times"])
def test_a_request_has_no_more_looked_into_than_one_batch_may_hold(
    driver: NodeDriver, config: dict[str, Any]
) -> None:
    create(driver, **config, max_message_bytes="100000000")
    half, small = bomb(20 << 20), batch((b"k", kit.WALL_MS), compression=4)
    codes = several(driver, half, half, small, half, small)
    assert codes == [Code.NONE, Code.REQUEST_TIMED_OUT, *[Code.REQUEST_TIMED_OUT] * 3]
    # what was not stored is sent again, and goes through
    assert several(driver, half, small) == [Code.NONE, Code.NONE]
    records = [Record(at, kit.WALL_MS, b"k", None) for at in range(600_000)]
    many = encode_records(records, base_offset=0, attributes=4)
    assert several(driver, many, many, small) == [Code.NONE, Code.REQUEST_TIMED_OUT, Code.NONE]


def test_records_that_get_other_offsets_are_slow_so_a_tenth_as_many_do(driver: NodeDriver) -> None:
    create(driver, compression_type="lz4")
    odd = at_deltas(*range(0, 120_000, 2))
    assert several(driver, odd, odd, batch((b"k", kit.WALL_MS))) == [
        Code.NONE,
        Code.REQUEST_TIMED_OUT,
        Code.NONE,
    ]
    assert several(driver, at_deltas(*range(0, 200_002, 2))) == [Code.MESSAGE_TOO_LARGE]


def test_gzip_is_slow_so_the_broker_compresses_an_eighth_as_many_bytes(driver: NodeDriver) -> None:
    create(driver, compression_type="gzip")
    assert several(driver, bomb(3 << 20), bomb(3 << 20)) == [
        Code.NONE,
        Code.REQUEST_TIMED_OUT,
    ]
    assert several(driver, bomb(5 << 20)) == [Code.MESSAGE_TOO_LARGE]
    assert several(driver, batch((b"k", kit.WALL_MS)), bomb(3 << 20)) == [Code.NONE, Code.NONE]


def test_beyond_the_time_budget_the_header_decides_if_only_future_times_are_refused(
    driver: NodeDriver,
) -> None:
    driver.create("t")
    half, late = bomb(20 << 20), kit.WALL_MS + 3_600_001
    codes = several(driver, half, half, bomb(40 << 20), claiming(half, late), claiming(half, -1))
    assert codes == [Code.NONE] * 3 + [Code.INVALID_TIMESTAMP, Code.NONE]


@pytest.mark.parametrize("compression", [0, 1, 4])
@pytest.mark.parametrize("config", [{}, {"compression_type": "lz4"}], ids=["any", "own"])
def test_the_records_and_not_the_header_say_how_late_they_are(
    driver: NodeDriver, config: dict[str, Any], compression: int
) -> None:
    create(driver, **config)
    now_ms = kit.WALL_MS
    late = claiming(
        batch((b"k", now_ms), (b"k", now_ms + WEEK_MS), compression=compression), now_ms
    )
    assert faults(produced(driver, kit.produce("t", late))) == (Code.INVALID_TIMESTAMP, [1])
    sent = batch((b"k", now_ms - 5), (b"k", now_ms - 9), compression=compression)
    for claimed_ms in (now_ms - 7, now_ms + WEEK_MS, -1):
        assert faults(produced(driver, kit.produce("t", claiming(sent, claimed_ms)))) == (
            Code.NONE,
            [],
        )
    assert [
        (header.max_timestamp_ms, [each.timestamp_ms for each in stored_records])
        for header, stored_records in stored(driver)
    ] == [(now_ms - 5, [now_ms - 5, now_ms - 9])] * 3


def test_so_many_records_at_fault_are_named_and_all_are_counted(driver: NodeDriver) -> None:
    create(driver, cleanup_policy="compact")
    keyless = encode_records(
        [Record(at, kit.WALL_MS, None, b"v") for at in range(11_000)], base_offset=0
    )
    answer = produced(driver, kit.produce("t", keyless))
    assert (answer.error_code, answer.error_message) == (
        Code.INVALID_RECORD,
        "11000 records of 11000 have no key",
    )
    assert [each.batch_index for each in answer.record_errors] == list(range(10_000))
