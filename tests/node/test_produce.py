"""What may be stored, what is refused, and when the answer comes."""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.errors import Code
from apportion.store.disk import DiskError
from apportion.store.memory_disk import MemoryDisk
from apportion.wire.batch import Record, decode_batch, encode_records, split_batches
from apportion.wire.compression import ZSTD
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.init_producer_id import InitProducerIdRequest
from apportion.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.node import kit
from tests.node.kit import NodeDriver
from tests.node.topic_requests import create

VERSION = 12


def values_in(
    driver: NodeDriver, topic: str = "t", partition: int = 0
) -> list[tuple[int, bytes | None]]:
    """Every visible value of a partition with its offset."""
    answer = driver.call(kit.fetch(topic, partition=partition), 12)
    data = answer.responses[0].partitions[0]
    assert data.error_code == 0
    return [
        (record.offset, record.value)
        for view in split_batches(data.records)
        for record in decode_batch(view)
    ]


def outcome(answer: ProduceResponse) -> tuple[Code, int]:
    """Code and base offset of the only partition of an answer."""
    partition = answer.responses[0].partition_responses[0]
    return Code(partition.error_code), partition.base_offset


def test_a_batch_is_answered_only_when_it_is_on_the_disk(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.produce("t", kit.batch(b"a", b"b")), VERSION)
    assert ticket not in driver.answers
    assert values_in_now(driver) == []
    driver.flush()
    assert driver.answers[ticket] == ProduceResponse(
        responses=(
            TopicProduceResponse(
                name="t",
                partition_responses=(
                    PartitionProduceResponse(
                        index=0, base_offset=0, log_start_offset=0, error_message=None
                    ),
                ),
            ),
        )
    )
    assert values_in(driver) == [(0, b"a"), (1, b"b")]


def values_in_now(driver: NodeDriver) -> list[Any]:
    """What a fetch shows at this moment, without any flush."""
    ticket = driver.ask(kit.fetch("t"), 12)
    return list(split_batches(driver.answers[ticket].responses[0].partitions[0].records))


def test_batches_of_one_flush_are_answered_in_their_order_and_offsets_follow(
    driver: NodeDriver,
) -> None:
    driver.create("t")
    tickets = [driver.ask(kit.produce("t", kit.batch(b"%d" % n)), VERSION) for n in range(4)]
    driver.flush()
    assert [outcome(driver.answers[ticket]) for ticket in tickets] == [
        (Code.NONE, n) for n in range(4)
    ]


def test_one_flush_covers_everything_that_was_queued_during_the_last_one(
    driver: NodeDriver,
) -> None:
    driver.create("t")
    first = driver.ask(kit.produce("t", kit.batch(b"a")), VERSION)
    later = [driver.ask(kit.produce("t", kit.batch(b"b")), VERSION) for _ in range(3)]
    driver.flush_once()
    assert list(driver.answers)[-1] == first
    driver.flush_once()
    assert list(driver.answers)[-3:] == later
    assert driver.pending is None


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (damaged, Code.CORRUPT_MESSAGE),
        (lambda data: data[:16] + b"\x01" + data[17:], Code.INVALID_RECORD),
        (lambda data: data[:40], Code.INVALID_RECORD),
        (lambda data: b"", Code.INVALID_RECORD),
        (lambda data: None, Code.INVALID_RECORD),
        (lambda data: data + data, Code.INVALID_RECORD),
        (lambda data: data + b"?", Code.INVALID_RECORD),
        (lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:], Code.CORRUPT_MESSAGE),
        (lambda data: data[:8] + b"\x7f\xff\xff\xff" + data[12:], Code.INVALID_RECORD),
    ],
)
def test_bytes_that_are_no_batch_are_refused_and_not_stored(
    driver: NodeDriver, spoil: Callable[..., Any], code: Code
) -> None:
    driver.create("t")
    answer = driver.call(kit.produce("t", spoil(kit.batch(b"a"))), VERSION)
    assert outcome(answer) == (code, -1)
    assert values_in(driver) == []
    assert driver.pending is None


def test_a_batch_above_message_max_bytes_is_too_large() -> None:
    driver = kit.NodeDriver(message_max_bytes=200)
    driver.create("t")
    assert outcome(driver.call(kit.produce("t", kit.batch(b"x" * 300)), VERSION)) == (
        Code.MESSAGE_TOO_LARGE,
        -1,
    )
    assert outcome(driver.call(kit.produce("t", kit.batch(b"x")), VERSION)) == (Code.NONE, 0)


def test_a_topics_own_max_message_bytes_comes_first(driver: NodeDriver) -> None:
    create(driver, max_message_bytes="100")
    assert outcome(driver.call(kit.produce("t", kit.batch(b"x" * 100)), VERSION)) == (
        Code.MESSAGE_TOO_LARGE,
        -1,
    )


def test_a_record_of_next_week_is_refused(driver: NodeDriver) -> None:
    driver.create("t")
    late = kit.batch(b"a", timestamp_ms=kit.WALL_MS + 7 * 86_400_000)
    assert outcome(driver.call(kit.produce("t", late), VERSION)) == (Code.INVALID_TIMESTAMP, -1)


def test_unknown_places_and_acks_are_refused(driver: NodeDriver) -> None:
    driver.create("t")
    good = kit.batch(b"a")
    assert outcome(driver.call(kit.produce("u", good), VERSION)) == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        -1,
    )
    assert outcome(driver.call(kit.produce("t", good, partition=1), VERSION)) == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        -1,
    )
    assert outcome(driver.call(kit.produce("t", good, partition=-1), VERSION)) == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        -1,
    )
    assert outcome(driver.call(kit.produce("t", good, acks=2), VERSION)) == (
        Code.INVALID_REQUIRED_ACKS,
        -1,
    )
    assert outcome(driver.call(kit.produce("t", good), 2)) == (Code.UNSUPPORTED_VERSION, -1)


def test_clients_do_not_write_the_broker_s_own_topics(driver: NodeDriver) -> None:
    driver.node._broker.topic_service.ensure_offsets_topic(bytes(16))
    answer = driver.call(kit.produce("__consumer_offsets", kit.batch(b"a")), VERSION)
    assert outcome(answer) == (Code.INVALID_TOPIC_EXCEPTION, -1)


def by_id(topic_id: bytes, records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=-1, topic_data=(TopicProduceData(topic_id=topic_id, partition_data=(data,)),)
    )


def test_a_topic_made_again_is_another_topic(driver: NodeDriver) -> None:
    old = driver.create("t")
    driver.call(by_id(old, kit.batch(b"a")), 13)
    driver.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    new = driver.create("t")
    assert new != old
    assert outcome(driver.call(by_id(old, kit.batch(b"b")), 13)) == (Code.UNKNOWN_TOPIC_ID, -1)
    assert outcome(driver.call(by_id(new, kit.batch(b"c")), 13)) == (Code.NONE, 0)
    assert values_in(driver) == [(0, b"c")]


def sequenced(
    first: int, values: list[bytes], producer_id: int = 7, epoch: int = 0
) -> ProduceRequest:
    return kit.produce(
        "t", kit.batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)
    )


def test_a_repeated_batch_is_acknowledged_and_stored_once(driver: NodeDriver) -> None:
    driver.create("t")
    first = sequenced(0, [b"a", b"b"])
    assert outcome(driver.call(first, VERSION)) == (Code.NONE, 0)
    assert outcome(driver.call(sequenced(2, [b"c"]), VERSION)) == (Code.NONE, 2)
    assert outcome(driver.call(first, VERSION)) == (Code.NONE, 0)
    assert values_in(driver) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_repeat_is_not_acknowledged_before_the_first_one_is_durable(driver: NodeDriver) -> None:
    driver.create("t")
    driver.ask(sequenced(0, [b"a"]), VERSION)
    again = driver.ask(sequenced(0, [b"a"]), VERSION)
    assert again not in driver.answers
    driver.flush_once()
    assert outcome(driver.answers[again]) == (Code.NONE, 0)


def test_only_the_last_five_batches_are_known_as_repeats(driver: NodeDriver) -> None:
    driver.create("t")
    for n in range(6):
        assert outcome(driver.call(sequenced(n, [b"%d" % n]), VERSION)) == (Code.NONE, n)
    assert outcome(driver.call(sequenced(1, [b"1"]), VERSION)) == (Code.NONE, 1)
    assert outcome(driver.call(sequenced(0, [b"0"]), VERSION)) == (
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    )


def test_a_gap_in_the_sequence_is_refused(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(sequenced(0, [b"a"]), VERSION)
    assert outcome(driver.call(sequenced(2, [b"c"]), VERSION)) == (
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    )
    assert outcome(driver.call(sequenced(1, [b"b"]), VERSION)) == (Code.NONE, 1)


def test_epochs_of_a_producer_only_grow_and_each_starts_at_zero(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(sequenced(0, [b"a"], epoch=3), VERSION)
    assert outcome(driver.call(sequenced(1, [b"b"], epoch=2), VERSION)) == (
        Code.INVALID_PRODUCER_EPOCH,
        -1,
    )
    assert outcome(driver.call(sequenced(1, [b"b"], epoch=4), VERSION)) == (
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    )
    assert outcome(driver.call(sequenced(0, [b"b"], epoch=4), VERSION)) == (Code.NONE, 1)


def test_sequences_go_on_from_zero_after_the_largest_number(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(sequenced(2**31 - 1, [b"a", b"b"]), VERSION)
    assert outcome(driver.call(sequenced(1, [b"c"]), VERSION)) == (Code.NONE, 2)


def test_repeats_are_known_after_a_restart(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(sequenced(0, [b"a"]), VERSION)
    driver.call(sequenced(1, [b"b"]), VERSION)
    driver = driver.crash()
    assert outcome(driver.call(sequenced(0, [b"a"]), VERSION)) == (Code.NONE, 0)
    assert outcome(driver.call(sequenced(3, [b"d"]), VERSION)) == (
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    )
    assert outcome(driver.call(sequenced(2, [b"c"]), VERSION)) == (Code.NONE, 2)


def test_a_producer_that_was_silent_for_a_day_is_forgotten(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(sequenced(0, [b"a"]), VERSION)
    driver.sleep(86_400_000 + 600_000)
    assert outcome(driver.call(sequenced(5, [b"b"]), VERSION)) == (Code.NONE, 1)


def test_producer_ids_are_never_given_twice_not_even_across_a_crash(driver: NodeDriver) -> None:
    given = [
        driver.call(InitProducerIdRequest(transactional_id=None)).producer_id for _ in range(3)
    ]
    driver = driver.crash()
    given += [
        driver.call(InitProducerIdRequest(transactional_id=None)).producer_id for _ in range(3)
    ]
    assert len(given) == len(set(given))


def test_a_transactional_id_is_refused(driver: NodeDriver) -> None:
    answer = driver.call(InitProducerIdRequest(transactional_id="t"))
    assert (answer.error_code, answer.producer_id) == (
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        -1,
    )


@pytest.mark.parametrize(
    ("version", "code"), [(6, Code.UNSUPPORTED_COMPRESSION_TYPE), (7, Code.NONE)]
)
def test_zstd_comes_with_a_version_whose_readers_know_it(
    driver: NodeDriver, version: int, code: Code
) -> None:
    driver.create("t")
    record = Record(0, kit.WALL_MS, None, b"a")
    ticket = driver.ask(
        kit.produce("t", encode_records([record], base_offset=0, attributes=ZSTD)), version
    )
    driver.flush()
    assert outcome(driver.answers[ticket])[0] is code


def test_a_failed_flush_is_told_to_those_who_waited_and_the_log_is_cut_back(
    driver: NodeDriver,
) -> None:
    driver.create("t")
    driver.call(sequenced(0, [b"a"]), VERSION)
    lost = [
        driver.ask(sequenced(1, [b"b"]), VERSION),
        driver.ask(sequenced(2, [b"c"]), VERSION),
    ]
    driver.fail_flush()
    assert [outcome(driver.answers[ticket]) for ticket in lost] == [
        (Code.KAFKA_STORAGE_ERROR, -1)
    ] * 2
    assert values_in(driver) == [(0, b"a")]
    assert outcome(driver.call(sequenced(1, [b"B"]), VERSION)) == (Code.NONE, 1)
    assert values_in(driver.crash()) == [(0, b"a"), (1, b"B")]


def test_a_disk_that_refuses_twice_in_a_row_is_left_alone_for_a_second(driver: NodeDriver) -> None:
    driver.create("t")
    lost = driver.ask(kit.produce("t", kit.batch(b"a")), VERSION)
    driver.fail_flush()
    driver.fail_flush()
    assert (driver.pending, outcome(driver.answers[lost])) == (None, (Code.KAFKA_STORAGE_ERROR, -1))
    waiting = driver.ask(kit.produce("t", kit.batch(b"b")), VERSION)
    driver.sleep(999)
    assert driver.pending is None
    driver.sleep(1)
    driver.flush()
    assert outcome(driver.answers[waiting]) == (Code.NONE, 0)
    assert values_in(driver.crash()) == [(0, b"b")]


class FullDisk(MemoryDisk):
    """A disk that takes no more while `full`."""

    full = False

    def append(self, path: str, at: int, data: bytes | bytearray | memoryview) -> None:
        if self.full:
            raise DiskError("append to", path, OSError(28, "No space left on device"))
        super().append(path, at, data)


def test_a_full_disk_refuses_a_batch_and_stays_whole() -> None:
    driver: Any = kit.NodeDriver(FullDisk())
    driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a")), VERSION)
    driver.disk.full = True
    assert outcome(driver.call(kit.produce("t", kit.batch(b"?")), VERSION)) == (
        Code.KAFKA_STORAGE_ERROR,
        -1,
    )
    driver.disk.full = False
    assert outcome(driver.call(kit.produce("t", kit.batch(b"b")), VERSION)) == (Code.NONE, 1)
    assert values_in(driver) == [(0, b"a"), (1, b"b")]
