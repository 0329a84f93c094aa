"""retention.ms, retention.bytes, segment.ms: the oldest segments go, by Kafka's rules, for every
reader and also after a crash.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.deadlines import Deadlines
from apportion.errors import Code
from apportion.machine import Note
from apportion.node.config_entries import TOPIC_SETTINGS
from apportion.node.partitions import Partition
from apportion.node.retention import INITIAL_DELAY_MS, SegmentInfo, expired_before
from apportion.node.topic_rules import TopicRules, topic_rules
from apportion.store.disk import DiskError
from apportion.store.memory_disk import MemoryDisk
from apportion.wire.batch import encode_batch
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.node import kit
from tests.node.fault_histories import Fault, begun
from tests.node.kit import NodeDriver
from tests.node.topic_requests import EARLIEST, LATEST, VERSION, create, listed, produced, stored

OFTEN: dict[str, Any] = {"log.retention.check.interval.ms": 1000}
DAY_MS = 86_400_000


def rules(**given: Any) -> TopicRules:
    return topic_rules(
        TOPIC_SETTINGS | {name.replace("_", "."): str(value) for name, value in given.items()}
    )


def expired(*spans: tuple[int, int], at_ms: int = 100, visible_to: int = 1000, **given: Any) -> int:
    """What is deleted of segments that end at 10, 20, 30..., given as (size, largest timestamp)."""
    facts = [SegmentInfo(10 * number, *span) for number, span in enumerate(spans, 1)]
    return expired_before(facts, rules(**given), at_ms, visible_to)


def test_segments_go_while_their_largest_timestamp_is_older_than_the_retention() -> None:
    assert expired((5, 10), (5, 50), (5, 90), retention_ms=50) == 10
    assert expired((5, 10), (5, 49), (5, 90), retention_ms=50) == 20
    assert expired((5, 90), (5, 10), (5, 10), retention_ms=50) == 0, (
        "a younger one stands before them"
    )
    assert expired((5, 10), (5, 10), (5, 10), retention_ms=50) == 30, (
        "the segment that is written goes as well"
    )
    assert expired((5, 10), (5, 10), (0, -1), retention_ms=50) == 20, "but not an empty one"
    assert expired((5, 10), (5, 10), retention_ms=-1) == 0
    assert expired((5, -1), (5, 10), retention_ms=50) == 0, (
        "records without a timestamp never grow old"
    )
    assert expired((5, 10), (5, 200), retention_ms=0) == 10


def test_segments_go_while_what_is_left_is_as_large_as_the_topic_may_be() -> None:
    assert expired((60, 99), (60, 99), (60, 99), retention_bytes=100) == 10
    assert expired((60, 99), (60, 99), (60, 99), retention_bytes=120) == 10
    assert expired((60, 99), (60, 99), (60, 99), retention_bytes=121) == 0
    assert expired((60, 99), (60, 99), (60, 99), retention_bytes=0) == 30
    assert expired((60, 99), (60, 99), (60, 99), retention_bytes=-5) == 0


def test_nothing_goes_that_is_not_durable_yet() -> None:
    assert expired((5, 10), (5, 10), retention_ms=50, visible_to=19) == 10


def files(driver: NodeDriver) -> list[str]:
    [topic] = list(driver.node.topics)
    return [
        name
        for name in driver.disk.list_dir(f"topics/{topic.id.hex()}/t-0")
        if not name.endswith(".sealed")
    ]


def batch(driver: Any, value: bytes = b"v") -> bytes:
    """A batch of this moment."""
    return kit.batch(value, timestamp_ms=driver.now.wall_ms)


def test_a_topic_keeps_its_records_unless_it_is_told_otherwise(driver: NodeDriver) -> None:
    driver.create("t")
    produced(driver, kit.produce("t", kit.batch(b"v", timestamp_ms=1)))
    driver.sleep(100 * DAY_MS)
    assert listed(driver, EARLIEST) == (0, -1)


def test_records_expire_at_a_look_that_comes_each_five_minutes() -> None:
    defaults: dict[str, Any] = {"log.retention.hours": 168}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    produced(driver, kit.produce("t", batch(driver)))
    driver.sleep(7 * DAY_MS)
    assert (listed(driver, EARLIEST), len(stored(driver))) == ((0, -1), 1)
    driver.sleep(300_000)
    driver.flush()
    assert (listed(driver, EARLIEST), listed(driver, LATEST)) == ((1, -1), (1, -1))
    assert [note.text for note in driver.notes] == [
        "the records of t-0 below offset 1 have expired"
    ]


@pytest.mark.parametrize(
    "setting",
    [
        {"log.retention.hours": 1},
        {"log.retention.minutes": 60, "log.retention.hours": 9},
        {"log.retention.ms": 3_600_000},
    ],
)
def test_the_brokers_retention_holds_for_topics_without_one(setting: dict[str, Any]) -> None:
    driver = kit.NodeDriver(**setting)
    driver.create("t")
    create(driver, "own", retention_ms="-1")
    for name in ("t", "own"):
        produced(driver, kit.produce(name, batch(driver)))
    driver.sleep(3_600_000 + 300_000)
    driver.flush()
    assert (listed(driver, EARLIEST), listed(driver, EARLIEST, "own")) == ((1, -1), (0, -1))


def test_the_brokers_size_holds_for_topics_without_one() -> None:
    defaults: dict[str, Any] = {"log.retention.bytes": 300, "log.segment.bytes": 150}
    driver = kit.NodeDriver(**OFTEN, **defaults)
    driver.create("t")
    for number in range(6):
        produced(driver, kit.produce("t", batch(driver, b"%d" % number * 70)))
    driver.sleep(1000)
    driver.flush()
    assert listed(driver, EARLIEST) == (3, -1)


def test_the_files_leave_the_disk_and_the_log_goes_on() -> None:
    driver = kit.NodeDriver(**OFTEN)
    create(driver, retention_ms="8000", segment_ms="1000")
    for _ in range(4):
        produced(driver, kit.produce("t", batch(driver)))
        driver.sleep(1500)
        driver.flush()
    assert files(driver) == [f"{offset:020d}.log" for offset in range(4)]
    driver.sleep(4000)
    driver.flush()
    assert files(driver) == [f"{2:020d}.log", f"{2:020d}.start", f"{3:020d}.log"]
    driver.sleep(10_000)
    driver.flush()
    assert files(driver) == [f"{4:020d}.log", f"{4:020d}.start"], "an empty file is left"
    again = driver.crash()
    for life in (again, again.crash(0)):
        assert (listed(life, EARLIEST), listed(life, LATEST)) == ((4, -1), (4, -1))
    life = again.crash()
    assert produced(life, kit.produce("t", batch(life))).base_offset == 4
    assert [records[0].offset for _, records in stored(life, offset=4)] == [4]


def test_a_segment_takes_no_batch_that_is_later_by_segment_ms() -> None:
    driver = kit.NodeDriver()
    create(driver, segment_ms="1000")
    for late_ms in (0, 1000, 1001, 500, 2001, 2002):
        produced(driver, kit.produce("t", kit.batch(b"v", timestamp_ms=kit.WALL_MS + late_ms)))
    assert files(driver) == [f"{offset:020d}.log" for offset in (0, 2, 5)]


@pytest.mark.parametrize(("setting", "value"), [("log.roll.ms", 1000), ("log.roll.hours", 1)])
def test_the_brokers_roll_time_holds_for_topics_without_one(setting: str, value: int) -> None:
    defaults: dict[str, Any] = {setting: value}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    for late_ms in (0, 3_600_001):
        produced(
            driver,
            kit.produce("t", kit.batch(b"v", timestamp_ms=kit.WALL_MS - 7_200_000 + late_ms)),
        )
    assert files(driver) == [f"{offset:020d}.log" for offset in (0, 1)]


@pytest.mark.parametrize("policy", ["compact", ""])
def test_a_topic_whose_policy_does_not_delete_keeps_everything(policy: str) -> None:
    driver = kit.NodeDriver(**OFTEN)
    create(driver, cleanup_policy=policy, retention_ms="1", retention_bytes="0")
    produced(driver, kit.produce("t", keyed(driver)))
    driver.sleep(60_000)
    assert listed(driver, EARLIEST) == (0, -1)


def keyed(driver: NodeDriver) -> bytes:
    """A batch of this moment with a key."""
    return encode_batch([(b"k", b"v", ())], timestamp_ms=driver.now.wall_ms)


def test_a_topic_that_is_compacted_and_deleted_from_loses_old_records() -> None:
    driver = kit.NodeDriver(**OFTEN)
    create(driver, cleanup_policy="compact,delete", retention_ms="1000")
    produced(driver, kit.produce("t", keyed(driver)))
    driver.sleep(3000)
    driver.flush()
    assert listed(driver, EARLIEST) == (1, -1)


def test_the_first_look_comes_soon_after_a_start() -> None:
    driver = kit.NodeDriver()
    create(driver, retention_ms="1000")
    produced(driver, kit.produce("t", batch(driver)))
    again = driver.crash()
    again.sleep(INITIAL_DELAY_MS)
    again.flush()
    assert listed(again, EARLIEST) == (1, -1)


def test_records_expire_for_readers_once_durable_and_a_waiting_fetch_is_answered() -> None:
    driver = kit.NodeDriver(**OFTEN)
    create(driver, retention_ms="1000")
    produced(driver, kit.produce("t", batch(driver)))
    waiting = driver.ask(kit.fetch("t", 0, max_wait_ms=60_000, min_bytes=1_000_000), 12)
    driver.sleep(3000)
    assert driver.pending is not None
    assert (len(stored(driver)), waiting in driver.answers) == (1, False)
    driver.flush()
    assert driver.answers[waiting].responses[0].partitions[0].error_code == Code.OFFSET_OUT_OF_RANGE


def test_a_disk_that_refuses_the_flush_keeps_the_records_until_the_next_round() -> None:
    driver = kit.NodeDriver(**OFTEN)
    create(driver, retention_ms="1000")
    produced(driver, kit.produce("t", batch(driver)))
    driver.sleep(2000)
    driver.fail_flush()
    assert (listed(driver, EARLIEST), len(stored(driver))) == ((0, -1), 1)
    assert [note.text for note in driver.notes if "expired" in note.text] == []
    assert produced(driver, kit.produce("t", batch(driver))).base_offset == 1
    driver.sleep(5000)
    driver.flush()
    assert (listed(driver, EARLIEST), listed(driver.crash(), LATEST)) == ((2, -1), (2, -1))


class NoNewFilesDisk(MemoryDisk):
    """A disk that makes no new file while `is_full`."""

    is_full = False

    def resize(self, path: str, size_bytes: int) -> None:
        if self.is_full:
            raise DiskError("create", "a file", OSError(28, "No space left on device"))
        super().resize(path, size_bytes)


def test_a_full_disk_keeps_the_records_and_says_so() -> None:
    driver: Any = kit.NodeDriver(NoNewFilesDisk(), **OFTEN)
    create(driver, retention_ms="1000")
    produced(driver, kit.produce("t", batch(driver)))
    driver.disk.is_full = True
    driver.sleep(3000)
    assert (listed(driver, EARLIEST), driver.notes) == (
        (0, -1),
        [
            Note(
                "error",
                "the disk refuses writes, which are tried again: cannot create a file: "
                "No space left on device; make room on its file system (memory)",
            )
        ],
    )
    driver.disk.is_full = False
    driver.sleep(1000)
    driver.flush()
    assert listed(driver.crash(), EARLIEST) == (1, -1)


def test_a_topic_deleted_in_the_middle_of_a_round_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apportion.node.retention.PARTITIONS_PER_STEP", 1)
    driver = kit.NodeDriver(**OFTEN)
    for name in ("a", "b", "c"):
        create(driver, name, retention_ms="1")
        produced(driver, kit.produce(name, batch(driver)))
    driver.sleep(1000)
    driver.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="b"),)))
    driver.sleep(100)
    driver.flush()
    assert [listed(driver, EARLIEST, name) for name in ("a", "c")] == [(1, -1)] * 2


moves = st.lists(
    st.tuples(st.just("produce"), st.integers(1, 3))
    | st.tuples(st.just("sleep"), st.integers(1, 4000)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(moves, st.lists(st.sampled_from([None, 0, 1000]), max_size=25))
def test_retention_keeps_young_records_and_drops_old_ones_across_crashes(
    steps: list[tuple[str, int]], crashes: list[int | None]
) -> None:
    driver = kit.NodeDriver(**OFTEN)
    create(driver, retention_ms="3000", segment_ms="1000")
    times: list[int] = []
    for number, (what, amount) in enumerate(steps):
        if what == "produce":
            sent = kit.batch(*(b"v" for _ in range(amount)), timestamp_ms=driver.now.wall_ms)
            assert produced(driver, kit.produce("t", sent)).base_offset == len(times)
            times += [driver.now.wall_ms] * amount
        else:
            driver.sleep(amount)
            driver.flush()
        if number < len(crashes):
            now_ms = driver.now_ms
            driver = driver.crash(crashes[number])
            driver.now_ms = now_ms
        (start, _), (end, _) = listed(driver, EARLIEST), listed(driver, LATEST)
        assert end == len(times)
        assert all(time < driver.now.wall_ms - 3000 for time in times[:start])
        at = start
        while at < end:
            at += sum(
                record.offset >= at
                for _, records in stored(driver, offset=at)
                for record in records
            )
        assert at == end
    driver.sleep(6000)
    driver.flush()
    assert listed(driver, EARLIEST) == (len(times), -1)


def test_offsets_go_on_where_all_has_expired_and_the_disk_refuses_what_comes_next() -> None:
    driver = kit.NodeDriver(**OFTEN)
    create(driver, retention_ms="8000")
    for _ in range(3):
        produced(driver, kit.produce("t", batch(driver)))
    driver.sleep(20_000)
    driver.flush()
    assert (listed(driver, EARLIEST), listed(driver, LATEST)) == ((3, -1), (3, -1))
    lost = driver.ask(kit.produce("t", batch(driver)), VERSION)
    driver.fail_flush()
    assert (
        driver.answers[lost].responses[0].partition_responses[0].error_code
        == Code.KAFKA_STORAGE_ERROR
    )
    assert produced(driver, kit.produce("t", batch(driver))).base_offset == 3
    assert (listed(driver, EARLIEST), listed(driver, LATEST)) == ((3, -1), (4, -1))
    life = driver.crash()
    assert (listed(life, EARLIEST), listed(life, LATEST)) == ((3, -1), (4, -1))


@pytest.mark.parametrize(
    ("target", "number"), [((Partition, "delete_expired"), 2), ((Deadlines, "arm"), 1)]
)
def test_a_look_that_fails_undoes_nothing_of_the_others_and_comes_again(
    target: tuple[type[Any], str], number: int
) -> None:
    history = begun(**OFTEN)
    create(history, retention_bytes="0")
    create(history, "u", retention_bytes="0")
    create(history, "w", retention_bytes="0")
    for name in "tuw":
        produced(history, kit.produce(name, batch(history)))
    with pytest.MonkeyPatch.context() as patch:
        history.faults = (Fault(patch, target, number, False, RuntimeError("planted")),)
        history.sleep(1_010)
        history.flush()
        ends = [1, 0, 1] if number == 2 else [0, 0, 0]
        assert [listed(history, EARLIEST, name)[0] for name in "tuw"] == ends
        history.faults = ()
    history.sleep(1_000)
    history.flush()
    assert [listed(history, EARLIEST, name)[0] for name in "tuw"] == [1, 1, 1]
