"""DeleteRecords: a partition begins later, for every reader, at once and after a crash; and its
disk is freed.
"""

from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.store.disk import DiskError
from apportion.wire.batch import decode_batch, split_batches
from tests.message_texts import request_of, words
from tests.node import kit, topic_requests
from tests.node.kit import NodeDriver
from tests.node.topic_requests import EARLIEST, LATEST, YOUNGEST, create


def trim(offset: int, topic: str = "t", partition: int = 0) -> Any:
    where = f"partition_index={partition} offset={offset}"
    return request_of(f"DeleteRecords topics=[name={topic} partitions=[{where}]] timeout_ms=1000")


def trimmed(
    driver: NodeDriver, offset: Any, topic: Any = "t", partition: int = 0
) -> tuple[int, Code]:
    """Low watermark and code."""
    [topic] = driver.call(trim(offset, topic, partition)).topics
    [result] = topic.partitions
    assert result.partition_index == partition
    return result.low_watermark, result.error_code


def listed(driver: NodeDriver, when: int) -> int:
    return topic_requests.listed(driver, when)[0]


def values(driver: NodeDriver, offset: int) -> tuple[Any, int]:
    """What a client reads from `offset` on, or the code that it is told; and where the log
    begins.
    """
    partition = driver.call(kit.fetch("t", offset), 12).responses[0].partitions[0]
    records = [record for view in split_batches(partition.records) for record in decode_batch(view)]
    read = [bytes(record.value or b"") for record in records if record.offset >= offset]
    return partition.error_code or read, partition.log_start_offset


def files(driver: NodeDriver) -> tuple[str, ...]:
    [topic] = list(driver.node.topics)
    return driver.disk.list_dir(f"topics/{topic.id.hex()}/t-0")


@pytest.fixture
def filled() -> NodeDriver:
    """A broker with a topic of ten records, two in a batch."""
    driver = kit.NodeDriver()
    driver.create("t")
    for number in range(0, 10, 2):
        made = kit.batch(
            b"%d" % number, b"%d" % (number + 1), timestamp_ms=kit.WALL_MS - 50 + number
        )
        driver.call(kit.produce("t", made), 12)
    return driver


def test_readers_find_the_log_to_begin_where_it_was_told_to(filled: NodeDriver) -> None:
    assert trimmed(filled, 5) == (5, Code.NONE)
    assert values(filled, 4) == (Code.OFFSET_OUT_OF_RANGE, -1)
    assert values(filled, 5) == ([b"5", b"6", b"7", b"8", b"9"], 5)
    assert (
        listed(filled, EARLIEST),
        listed(filled, LATEST),
        listed(filled, YOUNGEST),
        listed(filled, 0),
    ) == (5, 10, 8, 5)


def test_a_log_never_begins_earlier_again(filled: NodeDriver) -> None:
    assert [trimmed(filled, offset) for offset in (7, 3, 0)] == [(7, Code.NONE)] * 3


def test_minus_one_is_all_that_can_be_read(filled: NodeDriver) -> None:
    assert trimmed(filled, -1) == (10, Code.NONE)
    assert values(filled, 10) == ([], 10)
    assert (
        listed(filled, EARLIEST),
        listed(filled, LATEST),
        listed(filled, YOUNGEST),
        listed(filled, 0),
    ) == (10, 10, -1, -1)
    filled.call(kit.produce("t", kit.batch(b"next")), 12)
    assert values(filled, 10) == ([b"next"], 10)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ((11,), Code.OFFSET_OUT_OF_RANGE),
        ((-2,), Code.OFFSET_OUT_OF_RANGE),
        ((0, "nothing"), Code.UNKNOWN_TOPIC_OR_PARTITION),
        ((0, "t", 1), Code.UNKNOWN_TOPIC_OR_PARTITION),
        ((0, "t", -1), Code.UNKNOWN_TOPIC_OR_PARTITION),
        ((0, "__consumer_offsets"), Code.INVALID_TOPIC_EXCEPTION),
        ((0, "compacted"), Code.POLICY_VIOLATION),
        ((10**9, "compacted"), Code.POLICY_VIOLATION),
    ],
)
def test_a_forbidden_deletion_of_records_is_refused_with_kafkas_code(
    filled: NodeDriver, wanted: tuple[Any, ...], code: Code
) -> None:
    create(filled, "compacted", cleanup_policy="compact")
    assert trimmed(filled, *wanted) == (-1, code)


def test_a_topic_that_is_compacted_and_deleted_from_loses_records(filled: NodeDriver) -> None:
    create(filled, "both", cleanup_policy="compact, delete")
    assert trimmed(filled, 0, "both") == (0, Code.NONE)


def test_of_a_partition_that_is_named_twice_the_last_word_counts(filled: NodeDriver) -> None:
    twice = "[name=t partitions=[offset=9], name=t partitions=[offset=2]]"
    answer = filled.call(request_of(f"DeleteRecords topics={twice}"))
    assert words(answer) == "topics=[name=t partitions=[low_watermark=2]]"


def test_records_are_not_said_to_be_deleted_before_that_is_on_the_disk(filled: NodeDriver) -> None:
    asked = filled.ask(trim(5))
    assert asked not in filled.answers
    assert values(filled, 0)[1] == 0, "readers see what the disk has"
    filled.flush()
    assert asked in filled.answers
    assert values(filled, 5)[1] == 5


@pytest.mark.parametrize("tear_bytes", [None, 0])
def test_deleted_records_stay_deleted_after_a_crash(
    filled: NodeDriver, tear_bytes: int | None
) -> None:
    trimmed(filled, 3)
    trimmed(filled, 5)
    again = filled.crash(tear_bytes)
    assert values(again, 5) == ([b"5", b"6", b"7", b"8", b"9"], 5)
    assert listed(again, EARLIEST) == 5
    assert [name for name in files(again) if name.endswith(".start")] == [f"{5:020d}.start"]


def test_a_disk_that_refuses_the_flush_leaves_the_records(filled: NodeDriver) -> None:
    trimmed(filled, 2)
    asked = filled.ask(trim(5))
    filled.fail_flush()
    assert filled.answers[asked].topics[0].partitions[0].error_code == Code.KAFKA_STORAGE_ERROR
    filled.sleep(1000)
    filled.flush()
    assert values(filled, 2) == ([b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"], 2)
    assert trimmed(filled, 6) == (6, Code.NONE)
    assert listed(filled.crash(), EARLIEST) == 6


def test_a_full_disk_refuses_one_partition_alone(
    filled: NodeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, size_bytes: int) -> NoReturn:
        raise DiskError("create", path, OSError(28, "no space"))

    monkeypatch.setattr(filled.disk, "resize", full)
    assert trimmed(filled, 5) == (-1, Code.KAFKA_STORAGE_ERROR)
    assert trimmed(filled, 0) == (0, Code.NONE)


def test_files_of_deleted_records_leave_the_disk() -> None:
    defaults: dict[str, Any] = {"log.segment.bytes": 300}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    for number in range(20):
        driver.call(kit.produce("t", kit.batch(b"%d" % number * 40)), 12)
    before = [name for name in files(driver) if name.endswith(".log")]
    trimmed(driver, 15)
    left = [name for name in files(driver) if name.endswith(".log")]
    assert (len(before) > 5, left) == (True, before[-len(left) :])
    assert int(left[0][:20]) <= 15 < int(left[1][:20])
    trimmed(driver, -1)
    assert [name for name in files(driver) if not name.endswith(".sealed")] == [
        before[-1],
        f"{20:020d}.start",
    ]
    again = driver.crash()
    assert (listed(again, EARLIEST), listed(again, LATEST)) == (20, 20)


def test_the_settings_of_a_topic_say_how_large_its_files_grow() -> None:
    driver = kit.NodeDriver()
    create(driver, segment_bytes="1048576")
    for _ in range(3):
        driver.call(kit.produce("t", kit.batch(b"x" * 700_000)), 12)
    assert [int(name[:20]) for name in files(driver) if name.endswith(".log")] == [0, 1, 2]


def test_a_batch_that_was_deleted_and_is_sent_again_is_known_after_a_crash() -> None:
    driver = kit.NodeDriver()
    driver.create("t")
    once = kit.batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    driver.call(kit.produce("t", once), 12)
    trimmed(driver, -1)
    again = driver.crash()
    answer = again.call(kit.produce("t", once), 12).responses[0].partition_responses[0]
    assert (answer.base_offset, answer.error_code, listed(again, LATEST)) == (0, Code.NONE, 1)


def test_a_fetch_that_waits_for_deleted_records_is_out_of_range(filled: NodeDriver) -> None:
    asked = filled.ask(kit.fetch("t", 5, max_wait_ms=10_000, min_bytes=10_000), 12)
    trimmed(filled, 8)
    assert filled.answers[asked].responses[0].partitions[0].error_code == Code.OFFSET_OUT_OF_RANGE


steps = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 4)),
        st.tuples(st.just("trim"), st.integers(0, 60)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.lists(st.sampled_from([None, 0, 1000]), max_size=30))
def test_a_partition_is_what_a_plain_list_would_be_through_any_number_of_crashes(
    plays: list[tuple[str, int]], crashes: list[int | None]
) -> None:
    defaults: dict[str, Any] = {"log.segment.bytes": 400}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    start, end = 0, 0
    for number, (what, count) in enumerate(plays):
        if what == "produce":
            driver.call(
                kit.produce("t", kit.batch(*(b"%d" % (end + each) for each in range(count)))), 12
            )
            end += count
        elif count <= end:
            start = max(start, count)
            assert trimmed(driver, count) == (start, Code.NONE)
        else:
            assert trimmed(driver, count) == (-1, Code.OFFSET_OUT_OF_RANGE)
        if number < len(crashes):
            driver = driver.crash(crashes[number])
        read_back: list[bytes] = []
        at = start
        while at < end:
            more, _ = values(driver, at)
            read_back += more
            at += len(more)
        assert read_back == [b"%d" % each for each in range(start, end)]
        assert (listed(driver, EARLIEST), listed(driver, LATEST)) == (start, end)
