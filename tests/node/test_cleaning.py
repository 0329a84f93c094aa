"""The logs of groups are cleaned while the broker serves: they stay small, and nobody can tell."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.machine import Note
from apportion.node import cleaning
from apportion.store.disk import DiskError
from apportion.store.log import Log
from apportion.wire.batch import Record, decode_batch, split_batches
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from apportion.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.node import kit
from tests.node.kit import NodeDriver

SMALL: dict[str, Any] = {"offsets.topic.segment.bytes": 2000, "offsets.topic.num.partitions": 1}
OFFSETS = "__consumer_offsets"
DAY_MS = 86_400_000


def commit(group_id: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group_id, topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
    )


def committed(driver: NodeDriver, group_id: str) -> int | None:
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=None),))
    topics = driver.call(asked, 9).groups[0].topics
    return topics[0].partitions[0].committed_offset if topics else None


def log_of(driver: NodeDriver) -> Log:
    [partition] = [each for each in driver.node.partitions() if each.topic.name == OFFSETS]
    return partition.log


def records(driver: Any) -> list[Record]:
    """Offset, key and value of all that a client reads of the log."""
    result, offset = [], 0
    while views := list(
        split_batches(
            driver.call(driver.fetch(OFFSETS, offset), 12).responses[0].partitions[0].records
        )
    ):
        for view in views:
            result += [record for record in decode_batch(view) if record.offset >= offset]
        last = views[-1]
        offset = int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1
    return result


def last_of_each_key(kept: list[Record]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {record.key: (record.offset, record.value) for record in kept}


def clean(driver: NodeDriver) -> None:
    """Time passes until no cleaning is under way."""
    for _ in range(1000):
        driver.sleep(cleaning.PAUSE_MS)
        driver.flush()
    assert not any(name.endswith(".cleaned") for name in files(driver))


def files(driver: NodeDriver) -> tuple[str, ...]:
    [topic] = [topic for topic in driver.node.topics if topic.name == OFFSETS]
    return driver.disk.list_dir(f"topics/{topic.id.hex()}/{OFFSETS}-0")


@pytest.fixture
def busy() -> NodeDriver:
    """A broker with a group that has committed a hundred times, and one that has once; everything
    is on the disk.
    """
    driver: Any = kit.NodeDriver(**SMALL)
    driver.fetch = kit.fetch
    driver.create("t")
    driver.call(commit("rare", 7), 9)
    for offset in range(100):
        driver.call(commit("busy", offset), 9)
    result: NodeDriver = driver
    return result


def test_a_log_of_many_commits_is_cleaned_and_says_the_same(busy: NodeDriver) -> None:
    before, size_bytes, end = records(busy), log_of(busy).size_bytes, log_of(busy).next_offset
    clean(busy)
    after = records(busy)
    assert last_of_each_key(after) == last_of_each_key(before)
    assert (len(before), len(after) < 25) == (101, True)
    assert log_of(busy).size_bytes < size_bytes / 4
    assert (log_of(busy).start_offset, log_of(busy).next_offset) == (0, end)
    assert [(note.level, note.text.partition(":")[0]) for note in busy.notes] == [
        ("info", f"{OFFSETS}-0 was cleaned")
    ]
    again = busy.crash()
    assert (committed(again, "busy"), committed(again, "rare")) == (99, 7)


def test_every_log_that_wants_it_is_cleaned_one_after_another() -> None:
    driver = kit.NodeDriver(**SMALL | {"offsets.topic.num.partitions": 4})
    driver.create("t")
    groups = [f"g{number}" for number in range(12)]
    for offset in range(40):
        for group in groups:
            driver.call(commit(group, offset), 9)
    for _ in range(200):
        driver.sleep(cleaning.PAUSE_MS)
        driver.flush()
    logs = [
        partition.log for partition in driver.node.partitions() if partition.topic.name == OFFSETS
    ]
    assert (len(logs), len(driver.notes)) == (4, 4)
    assert [log for log in logs if log.size_bytes > 4000 or log.has_leftovers] == []
    again = driver.crash()
    assert [committed(again, group) for group in groups] == [39] * len(groups)


def test_a_log_at_rest_is_left_alone(busy: NodeDriver) -> None:
    clean(busy)
    notes, names = list(busy.notes), files(busy)
    clean(busy)
    assert (busy.notes, files(busy)) == (notes, names)
    assert cleaning.CLEANING not in busy.node._broker.deadlines
    for offset in range(3):
        busy.call(commit("busy", offset), 9)
    clean(busy)
    assert (busy.notes, files(busy)) == (notes, names)


def test_a_start_cleans_what_was_written_before_it(busy: NodeDriver) -> None:
    again = busy.crash()
    assert len([name for name in files(again) if name.endswith(".log")]) > 4
    clean(again)
    assert len([name for name in files(again) if name.endswith(".log")]) == 2
    assert (committed(again.crash(), "busy"), committed(again, "rare")) == (99, 7)


def test_the_records_of_deleted_groups_go_after_a_day(busy: NodeDriver) -> None:
    assert busy.call(DeleteGroupsRequest(groups_names=("rare",))).results[0].error_code == Code.NONE
    tombstones = {record.key for record in records(busy) if record.value is None}
    assert len(tombstones) == 1
    for after_ms, stands in ((0, True), (DAY_MS, False)):
        busy.sleep(after_ms)
        for offset in range(100):
            busy.call(commit("busy", offset), 9)
        clean(busy)
        assert (tombstones <= {record.key for record in records(busy)}) is stands
    assert committed(busy.crash(), "rare") is None


@pytest.mark.parametrize("flushes", range(4))
@pytest.mark.parametrize("tear_bytes", [None, 0, 10_000])
def test_a_crash_or_a_refused_flush_in_a_cleaning_costs_nothing(
    busy: Any, flushes: int, tear_bytes: int | None
) -> None:
    for _ in range(flushes):
        busy.sleep(100)
        if busy.pending:
            busy.flush_once()
    busy.sleep(100)
    again: Any = busy.crash(tear_bytes)
    again.fetch = busy.fetch
    assert (committed(again, "busy"), committed(again, "rare")) == (99, 7)
    if busy.pending:
        busy.fail_flush()
        assert (committed(busy, "busy"), committed(busy, "rare")) == (99, 7)
    for driver in (again, busy):
        driver.call(commit("busy", 1000), 9)
        clean(driver)
        assert log_of(driver).size_bytes < 3000
        assert not log_of(driver).has_leftovers
        later = driver.crash()
        assert (committed(later, "busy"), committed(later, "rare")) == (1000, 7)


happenings = st.sampled_from(
    ["sleep", "sleep", "flush", "flush", "flush", "fail", "crash", "torn crash"]
)
chapters = st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.lists(happenings, max_size=5))


@settings(max_examples=60, deadline=None)
@given(st.lists(chapters, min_size=25, max_size=40))
def test_no_commit_is_lost_by_a_cleaning_with_failures_and_crashes(
    steps: list[tuple[str, int, list[str]]],
) -> None:
    defaults: dict[str, Any] = {
        "offsets.topic.segment.bytes": 150,
        "offsets.topic.num.partitions": 1,
    }
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    last, last_offsets, asked = 0, {"a": 0, "b": 0}, {}
    for group, count, happens in steps:
        for _ in range(count):
            last += 1
            asked[driver.ask(commit(group, last), 9)] = group, last
        for what in happens:
            if what == "sleep":
                driver.sleep(cleaning.PAUSE_MS)
            elif "crash" in what:
                driver = driver.crash(None if what == "crash" else 100_000)
                asked.clear()
            elif driver.pending:
                driver.flush_once() if what == "flush" else driver.fail_flush()
            for ticket in [ticket for ticket in asked if ticket in driver.answers]:
                group_id, offset = asked.pop(ticket)
                if driver.answers[ticket].topics[0].partitions[0].error_code == Code.NONE:
                    last_offsets[group_id] = offset
    again = driver.crash()
    for group_id, offset in last_offsets.items():
        assert offset <= (committed(again, group_id) or 0) <= last
    for _ in range(20):
        again.sleep(cleaning.PAUSE_MS)
        again.flush()
    assert [note for note in again.notes if note.level != "info"] == []
    assert not log_of(again).has_leftovers
    assert {group_id: committed(again, group_id) for group_id in last_offsets} == {
        group_id: committed(again.crash(), group_id) for group_id in last_offsets
    }


def test_a_full_disk_puts_a_cleaning_off(busy: NodeDriver) -> None:
    busy.disk.free_bytes = 0
    busy.sleep(100)
    [refused] = busy.notes
    assert refused.text.startswith(
        "the disk refuses writes, which are tried again: cannot append"
    ), refused
    busy.sleep(cleaning.RETRY_MS)
    [_, again] = busy.notes
    assert again.text.startswith("the disk has refused 1 more in a minute"), again
    busy.disk.free_bytes = None
    busy.sleep(cleaning.RETRY_MS)
    clean(busy)
    assert [note.text.partition(":")[0] for note in busy.notes[2:]] == [
        "the disk has refused nothing for a minute (memory)",
        f"{OFFSETS}-0 was cleaned",
    ]


def test_a_damaged_log_is_said_once_and_not_cleaned(busy: NodeDriver) -> None:
    segment = log_of(busy).closed_segments(1000)[1]
    busy.disk.append(segment.path, 100, b"\xff")
    clean(busy)
    clean(busy)
    [note] = busy.notes
    assert note == Note("error", note.text)
    assert note.text.startswith(f"{OFFSETS}-0 cannot be cleaned: topics/")
    assert committed(busy, "busy") == 99
    with pytest.raises(DiskError):
        busy.disk.view(segment.path.replace(".log", ".cleaned"), 0, 1)
