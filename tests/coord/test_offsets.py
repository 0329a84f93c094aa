"""Committed offsets: who may commit and read, what is answered, and groups that are nothing but
offsets (a.11, b.9).
"""

from apportion.errors import Code
from apportion.topics import Topic
from apportion.wire.records.groups import OffsetCommitValue
from tests.coord.shard_driver import (
    ShardDriver,
    compacted,
    recovered,
    state_of,
    through_bytes,
    topic_id,
    topics,
)
from tests.message_texts import request_of, words

IDS = {"foo": topic_id("foo")}


def committed(driver: ShardDriver, group_id: str = "g") -> dict[tuple[str, int], int]:
    """{("foo", 0): 5}"""
    by_topic = driver.shard.ledger.offsets.get(group_id, {})
    return {
        (name, index): value.offset
        for name, some in by_topic.items()
        for index, value in some.items()
    }


def test_a_member_commits_at_its_epoch_and_everybody_may_read() -> None:
    driver = ShardDriver()
    driver.join("a")
    assert driver.commit(2, {("foo", 0): 5}, "a") == [Code.NONE]
    assert driver.log[-1].value == OffsetCommitValue(
        offset=5, commit_timestamp=1_000_000, topic_id=topic_id("foo")
    )
    assert words(driver.fetch({"foo": [0]}), IDS) == (
        "group_id=g topics=[name=foo topic_id=foo partitions=[committed_offset=5]]"
    )


def test_an_explicit_retention_is_kept_across_a_crash() -> None:
    driver = ShardDriver()
    driver.commit(-1, {("foo", 0): 5}, version=4, retention_time_ms=60_000)
    value = OffsetCommitValue(offset=5, commit_timestamp=1_000_000, expire_timestamp=1_060_000)
    assert driver.log[-1].value == value
    assert state_of(recovered(through_bytes(driver.log), driver.shard)) == state_of(driver.shard)


def test_a_retention_without_end_ends_at_the_last_moment() -> None:
    driver = ShardDriver()
    assert driver.commit(-1, {("foo", 0): 5}, version=4, retention_time_ms=2**63 - 1) == [Code.NONE]
    assert [record.value.expire_timestamp for record in through_bytes(driver.log)] == [2**63 - 1]


def test_a_group_id_that_no_record_can_hold_is_refused() -> None:
    assert ShardDriver().commit(-1, {("foo", 0): 5}, group_id="g" * 32_768) == [
        Code.INVALID_GROUP_ID
    ]


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_hidden_then_deleted() -> None:
    driver = ShardDriver()
    driver.commit(-1, {("foo", 0): 4})
    driver.shard.topics = type(driver.shard.topics)([Topic("foo", topic_id("foo", life=1), 3)])
    assert words(driver.fetch({"foo": [0]}), IDS) == (
        "group_id=g topics=[name=foo topic_id=foo partitions=[committed_offset=-1]]"
    )
    assert words(driver.send(request_of("OffsetFetch group_id=g topics=null"), 7)) == (
        "topics=[name=foo partitions=[committed_offset=-1]]"
    )
    driver = ShardDriver()
    driver.commit(-1, {("foo", 0): 4})
    driver.change_topics([Topic("foo", topic_id("foo", life=1), 3)])
    assert (committed(driver), driver.log[-1].value) == ({}, None)


def test_offsets_survive_a_crash_and_a_compaction() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    for offset in range(3):
        driver.commit(-1, {("foo", 0): offset, ("bar", 0): offset})
    driver.send(request_of("OffsetDelete group_id=g topics=[name=bar partitions=[-]]"), 0)
    live = state_of(driver.shard)
    assert live["offsets"]["g"].keys() == {"foo"}
    for log in (
        through_bytes(driver.log),
        compacted(driver.log, True),
        compacted(driver.log, False),
    ):
        assert state_of(recovered(log, driver.shard)) == live
