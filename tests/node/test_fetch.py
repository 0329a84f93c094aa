"""What a fetch shows, and when it is answered."""

from typing import Any

from apportion.errors import Code
from apportion.machine import Gone, Ticket
from apportion.wire.batch import decode_batch, split_batches
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tests.message_texts import request_of
from tests.node import kit
from tests.node.kit import NodeDriver

VERSION = 12


def offsets_in(data: Any) -> list[int]:
    return [record.offset for view in split_batches(data.records) for record in decode_batch(view)]


def only(answer: FetchResponse) -> PartitionData:
    """The only partition of an answer."""
    return answer.responses[0].partitions[0]


def test_an_empty_partition_makes_a_fetch_wait_until_its_time_is_up(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    driver.sleep(499)
    assert ticket not in driver.answers
    driver.sleep(1)
    partition = only(driver.answers[ticket])
    assert partition.records is not None
    assert (partition.error_code, bytes(partition.records)) == (Code.NONE, b"")


def test_a_waiting_fetch_is_answered_when_the_record_is_durable(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    driver.ask(kit.produce("t", kit.batch(b"a")), VERSION)
    assert ticket not in driver.answers
    driver.flush()
    assert offsets_in(only(driver.answers[ticket])) == [0]
    driver.sleep(1000)  # and not once more


def test_min_bytes_are_waited_for(driver: NodeDriver) -> None:
    driver.create("t")
    size = len(kit.batch(b"a"))
    ticket = driver.ask(kit.fetch("t", max_wait_ms=500, min_bytes=2 * size), VERSION)
    driver.call(kit.produce("t", kit.batch(b"a")), VERSION)
    assert ticket not in driver.answers
    driver.call(kit.produce("t", kit.batch(b"b")), VERSION)
    assert offsets_in(only(driver.answers[ticket])) == [0, 1]


def test_a_fetch_returns_too_few_bytes_at_its_deadline(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.fetch("t", max_wait_ms=500, min_bytes=10_000), VERSION)
    driver.call(kit.produce("t", kit.batch(b"a")), VERSION)
    driver.sleep(500)
    assert offsets_in(only(driver.answers[ticket])) == [0]


def test_a_fetch_whose_connection_is_gone_is_forgotten(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    driver.node.step(Gone((Ticket(ticket),)), driver.now)
    driver.call(kit.produce("t", kit.batch(b"a")), VERSION)
    driver.sleep(1000)
    assert ticket not in driver.answers


def test_offsets_outside_the_log_are_out_of_range(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a")), VERSION)
    assert only(driver.call(kit.fetch("t", 2), VERSION)).error_code == Code.OFFSET_OUT_OF_RANGE
    assert only(driver.call(kit.fetch("t", -1), VERSION)).error_code == Code.OFFSET_OUT_OF_RANGE
    assert only(driver.call(kit.fetch("t", 1), VERSION)).error_code == Code.NONE


def test_an_offset_in_the_middle_of_a_batch_gives_the_whole_batch(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a", b"b", b"c")), VERSION)
    assert offsets_in(only(driver.call(kit.fetch("t", 1), VERSION))) == [0, 1, 2]


def test_the_first_batch_comes_however_large_and_the_limits_hold_for_the_rest(
    driver: NodeDriver,
) -> None:
    driver.create("t", 2)
    for partition in (0, 1):
        for _ in range(3):
            driver.call(kit.produce("t", kit.batch(b"x" * 1000), partition), VERSION)
    assert offsets_in(only(driver.call(kit.fetch("t", partition_max_bytes=10), VERSION))) == [0]
    size = len(kit.batch(b"x" * 1000))
    partitions = tuple(
        FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=10 * size) for n in (0, 1)
    )
    both = FetchRequest(
        max_bytes=4 * size, min_bytes=1, topics=(FetchTopic(topic="t", partitions=partitions),)
    )
    first, second = driver.call(both, VERSION).responses[0].partitions
    assert (offsets_in(first), offsets_in(second)) == ([0, 1, 2], [0])


def test_topics_are_found_by_id_from_version_13_on(driver: NodeDriver) -> None:
    topic_id = driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a")), VERSION)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        max_bytes=1000, topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),)
    )
    answer = driver.call(request, 17)
    assert (answer.responses[0].topic_id, offsets_in(only(answer))) == (topic_id, [0])
    driver.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert only(driver.call(request, 17)).error_code == Code.UNKNOWN_TOPIC_ID


def test_a_deleted_topic_ends_the_wait_for_it(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    driver.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert only(driver.answers[ticket]).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_sessions_are_never_opened_so_none_can_be_found(driver: NodeDriver) -> None:
    driver.create("t")
    assert driver.call(kit.fetch("t", session_epoch=0), VERSION).session_id == 0
    assert (
        driver.call(kit.fetch("t", session_id=5, session_epoch=1), VERSION).error_code
        == Code.FETCH_SESSION_ID_NOT_FOUND
    )


def test_a_newer_leader_epoch_than_the_only_one_is_unknown(driver: NodeDriver) -> None:
    driver.create("t")
    partition = FetchPartition(
        partition=0, current_leader_epoch=1, fetch_offset=0, partition_max_bytes=100
    )
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=(partition,)),))
    assert only(driver.call(request, VERSION)).error_code == Code.UNKNOWN_LEADER_EPOCH


def offset_at(timestamp: int) -> Any:
    return request_of(
        f"ListOffsets replica_id=-1 topics=[name=t partitions=[timestamp={timestamp}]]"
    )


def listed(driver: NodeDriver, timestamp: int, version: int = 11) -> tuple[Code, int, int]:
    listed_partition = driver.call(offset_at(timestamp), version).topics[0].partitions[0]
    return Code(listed_partition.error_code), listed_partition.offset, listed_partition.timestamp


def test_offsets_are_listed_by_place_and_by_time(driver: NodeDriver) -> None:
    driver.create("t")
    at = kit.WALL_MS
    assert listed(driver, -3) == (Code.NONE, -1, -1)
    for ms in (10, 30, 20):
        driver.call(kit.produce("t", kit.batch(b"a", timestamp_ms=at + ms)), VERSION)
    assert listed(driver, -1) == (Code.NONE, 3, -1)
    assert listed(driver, -2) == (Code.NONE, 0, -1)
    assert listed(driver, -3) == (Code.NONE, 1, at + 30)
    assert listed(driver, -4) == (Code.NONE, 0, -1)
    assert listed(driver, -5) == (Code.NONE, -1, -1)
    assert listed(driver, at + 15) == (Code.NONE, 1, at + 30)
    assert listed(driver, at + 31) == (Code.NONE, -1, -1)
    assert listed(driver, -3, version=6) == (Code.UNSUPPORTED_VERSION, -1, -1)


def test_offsets_that_are_not_durable_are_not_listed(driver: NodeDriver) -> None:
    driver.create("t")
    driver.ask(kit.produce("t", kit.batch(b"a")), VERSION)
    ticket = driver.ask(offset_at(-1))
    assert driver.answers[ticket].topics[0].partitions[0].offset == 0


def test_the_one_epoch_ends_at_the_high_watermark(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a", b"b")), VERSION)

    def end_of(epoch: int) -> int:
        asked = f"OffsetForLeaderEpoch topics=[topic=t partitions=[leader_epoch={epoch}]]"
        result: int = driver.call(request_of(asked)).topics[0].partitions[0].end_offset
        return result

    assert (end_of(0), end_of(1)) == (2, -1)


def test_a_partition_that_is_named_twice_is_waited_for_and_answered_once(
    driver: NodeDriver,
) -> None:
    driver.create("t")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    for topics in (
        (FetchTopic(topic="t", partitions=(partition, partition)),),
        (FetchTopic(topic="t", partitions=(partition,)),) * 2,
    ):
        late = driver.ask(FetchRequest(max_wait_ms=500, min_bytes=10_000, topics=topics), VERSION)
        driver.sleep(500)
        assert [
            each.error_code for topic in driver.answers[late].responses for each in topic.partitions
        ] == [Code.NONE]
        stored = (
            driver.call(kit.produce("t", kit.batch(b"a")), VERSION)
            .responses[0]
            .partition_responses[0]
        )
        early = driver.ask(kit.fetch("t", stored.base_offset + 1, max_wait_ms=500), VERSION)
        assert early not in driver.answers
        driver.call(kit.produce("t", kit.batch(b"b")), VERSION)
        assert len(offsets_in(only(driver.answers[early]))) == 1
