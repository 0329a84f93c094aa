"""Committed offsets: who may commit and read, what is answered, and groups that are nothing but
offsets (a.11, b.9).
"""

from typing import Any

from apportion.errors import Code
from apportion.topics import NO_TOPIC_ID, Topic
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
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


def committed(driver: ShardDriver, group_id: str = "g") -> dict[tuple[str, int], int]:
    """{("foo", 0): 5}"""
    by_topic = driver.shard.ledger.offsets.get(group_id, {})
    return {
        (name, index): value.offset
        for name, some in by_topic.items()
        for index, value in some.items()
    }


def group_answer(
    offsets: dict[tuple[str, int], int], version: int = 9, code: Code = Code.NONE
) -> OffsetFetchResponseGroup:
    """The answer of a group that committed {("foo", 0): 5}, in that order."""
    answered = tuple(
        OffsetFetchResponseTopic(
            name=name,
            topic_id=topic_id(name),
            partitions=(
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=offset, metadata="", error_code=code
                ),
            ),
        )
        for (name, index), offset in offsets.items()
    )
    return OffsetFetchResponseGroup(group_id="g", topics=answered)


def test_a_member_commits_at_its_epoch_and_everybody_may_read() -> None:
    driver = ShardDriver()
    driver.join("a")
    assert driver.commit(2, {("foo", 0): 5}, "a") == [Code.NONE]
    assert driver.log[-1].value == OffsetCommitValue(
        offset=5, commit_timestamp=1_000_000, topic_id=topic_id("foo")
    )
    assert driver.fetch({"foo": [0]}) == group_answer({("foo", 0): 5})


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


def test_the_answer_to_a_commit_names_what_the_request_named() -> None:
    driver = ShardDriver()
    request_of = {9: ("foo", NO_TOPIC_ID), 10: ("", topic_id("foo"))}
    for version, (name, some_id) in request_of.items():
        partition = OffsetCommitRequestPartition(
            partition_index=1, committed_offset=4, committed_metadata=None
        )
        topic = OffsetCommitRequestTopic(name=name, topic_id=some_id, partitions=(partition,))
        answer = driver.send(OffsetCommitRequest(group_id="g", topics=(topic,)), version)
        done = OffsetCommitResponsePartition(partition_index=1)
        expected = OffsetCommitResponseTopic(name=name, topic_id=some_id, partitions=(done,))
        assert answer == OffsetCommitResponse(topics=(expected,))


def test_all_offsets_of_a_group_are_listed_by_name_and_partition() -> None:
    driver = ShardDriver(known=topics(foo=2, bar=1))
    for where in (("foo", 1), ("bar", 0)):
        driver.commit(-1, {where: 4})
    answers = [driver.fetch(None, version=version).topics for version in (9, 10)]
    names = [[topic.name for topic in answer] for answer in answers]
    assert names == [["bar", "foo"]] * 2
    old = driver.send(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert old == OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                name=name,
                partitions=(
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=4, metadata=""
                    ),
                ),
            )
            for name, index in (("bar", 0), ("foo", 1))
        )
    )


def test_an_old_version_asks_for_one_group() -> None:
    driver = ShardDriver()
    driver.commit(-1, {("foo", 0): 4})
    wanted = (OffsetFetchRequestTopic(name="foo", partition_indexes=(0, 1)),)
    assert driver.send(OffsetFetchRequest(group_id="g", topics=wanted), 1) == OffsetFetchResponse(
        topics=(
            OffsetFetchResponseTopic(
                name="foo",
                partitions=(
                    OffsetFetchResponsePartition(
                        partition_index=0, committed_offset=4, metadata=""
                    ),
                    OffsetFetchResponsePartition(
                        partition_index=1, committed_offset=-1, metadata=""
                    ),
                ),
            ),
        )
    )


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_hidden_then_deleted() -> None:
    driver = ShardDriver()
    driver.commit(-1, {("foo", 0): 4})
    driver.shard.topics = type(driver.shard.topics)([Topic("foo", topic_id("foo", life=1), 3)])
    assert driver.fetch({"foo": [0]}) == group_answer({("foo", 0): -1})
    old = driver.send(OffsetFetchRequest(group_id="g", topics=None), 7)
    partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=-1, metadata="")
    assert old.topics == (OffsetFetchResponseTopic(name="foo", partitions=(partition,)),)
    driver = ShardDriver()
    driver.commit(-1, {("foo", 0): 4})
    driver.change_topics([Topic("foo", topic_id("foo", life=1), 3)])
    assert (committed(driver), driver.log[-1].value) == ({}, None)


def delete(driver: ShardDriver, **partitions: Any) -> Code | list[int]:
    wanted = tuple(
        OffsetDeleteRequestTopic(
            name=name,
            partitions=tuple(
                OffsetDeleteRequestPartition(partition_index=index) for index in indexes
            ),
        )
        for name, indexes in partitions.items()
    )
    answer = driver.send(OffsetDeleteRequest(group_id="g", topics=wanted), 0)
    codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    return Code(answer.error_code) if answer.error_code else codes


def test_offsets_are_deleted_but_for_topics_that_somebody_reads() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    assert delete(driver, foo=[0]) is Code.GROUP_ID_NOT_FOUND
    for where in (("foo", 0), ("bar", 0)):
        driver.commit(-1, {where: 4})
    driver.join("a")
    assert delete(driver, foo=[0], bar=[0, 7], baz=[0]) == [
        Code.GROUP_SUBSCRIBED_TO_TOPIC,
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert committed(driver) == {("foo", 0): 4}
    assert driver.send(OffsetDeleteRequest(group_id=""), 0).error_code == Code.INVALID_GROUP_ID


def test_offsets_survive_a_crash_and_a_compaction() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    for offset in range(3):
        driver.commit(-1, {("foo", 0): offset, ("bar", 0): offset})
    delete(driver, bar=[0])
    live = state_of(driver.shard)
    assert live["offsets"]["g"].keys() == {"foo"}
    for log in (
        through_bytes(driver.log),
        compacted(driver.log, True),
        compacted(driver.log, False),
    ):
        assert state_of(recovered(log, driver.shard)) == live
