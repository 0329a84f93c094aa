"""Committed offsets: who may commit and read, what is answered, and groups that are nothing but
offsets (a.11, b.9).
"""

from typing import Any

import pytest

from apportion.coord.config import GroupSettings
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


def test_a_commit_is_checked_in_kafkas_order() -> None:
    driver = ShardDriver()
    offsets = {("foo", 0): 5}
    assert driver.commit(2, offsets, "a") == [Code.GROUP_ID_NOT_FOUND]
    assert driver.commit(2, offsets, "a", version=8) == [Code.ILLEGAL_GENERATION]
    driver.join("a")
    assert driver.commit(-1, offsets) == [Code.UNKNOWN_MEMBER_ID]
    assert driver.commit(8, offsets, "b", version=8) == [Code.UNKNOWN_MEMBER_ID]
    assert driver.commit(8, offsets, "a", version=8) == [Code.UNSUPPORTED_VERSION]
    assert driver.commit(8, offsets, "a") == [Code.STALE_MEMBER_EPOCH]
    assert driver.commit(-1, offsets, "a") == [Code.STALE_MEMBER_EPOCH]
    assert committed(driver) == {}
    driver.beat("a", -1)
    assert driver.commit(4, offsets, "a") == [Code.UNKNOWN_MEMBER_ID]
    assert driver.commit(-1, offsets, version=2) == [Code.NONE]
    assert committed(driver) == offsets


def test_an_older_epoch_may_commit_what_it_was_given_and_still_has() -> None:
    driver = ShardDriver()
    driver.join("a")  # foo 0 1 2 at epoch 1
    driver.join("b")
    driver.beat("a", 2)  # has to give up foo-2
    driver.beat("a", 2, owned={"foo": [0, 1]})  # is at epoch 2
    assert driver.commit(2, {("foo", 0): 5, ("foo", 1): 6}, "a") == [Code.NONE] * 2
    assert driver.commit(2, {("foo", 0): 7, ("foo", 2): 8}, "a") == [Code.STALE_MEMBER_EPOCH] * 2
    driver.beat("b", 3)  # gets foo-2 at epoch 2
    driver.beat("b", -1)
    assert driver.beat("a", 3).member_epoch == 4  # and foo-2 comes back to a at epoch 3
    assert driver.commit(3, {("foo", 2): 9}, "a") == [Code.STALE_MEMBER_EPOCH]
    assert driver.commit(5, {("foo", 0): 9}, "a") == [Code.STALE_MEMBER_EPOCH]
    assert driver.commit(3, {("foo", 0): 9}, "a") == [Code.NONE]
    assert committed(driver) == {("foo", 0): 9, ("foo", 1): 6}


def test_a_partition_that_is_being_given_up_may_still_be_committed() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.join("b")
    driver.beat("a", 2)
    assert driver.commit(2, {("foo", 2): 5}, "a") == [Code.NONE]


def test_a_commit_without_a_group_makes_a_simple_one() -> None:
    driver = ShardDriver()
    assert driver.commit(-1, {("foo", 0): 5}) == [Code.NONE]
    assert driver.commit(0, {("foo", 0): 6}) == [Code.UNKNOWN_MEMBER_ID]
    assert driver.commit(-1, {("foo", 1): 6}) == [Code.NONE]
    assert (
        driver.join("a").error_code == Code.NONE
    )  # an empty simple group becomes a consumer group
    assert committed(driver) == {("foo", 0): 5, ("foo", 1): 6}


def test_unknown_topics_and_long_metadata_fail_alone() -> None:
    driver = ShardDriver(GroupSettings(offset_metadata_max_bytes=4))
    assert driver.commit(-1, {("foo", 0): 5, ("bar", 0): 5}) == [
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert driver.commit(-1, {("foo", 0): 5, ("bar", 0): 5}, version=10) == [
        Code.NONE,
        Code.UNKNOWN_TOPIC_ID,
    ]
    assert driver.commit(-1, {("foo", 0): 6}, metadata="12345") == [Code.OFFSET_METADATA_TOO_LARGE]
    assert driver.commit(-1, {("foo", 0): 7}, metadata="1é3") == [Code.NONE]
    assert driver.commit(-1, {("foo", 0): 8}, metadata=None) == [Code.NONE]
    assert driver.log[-1].value.metadata == ""


def test_a_commit_of_unknown_topics_alone_asks_no_group() -> None:
    assert ShardDriver().commit(8, {("bar", 0): 5}, "nobody") == [Code.UNKNOWN_TOPIC_OR_PARTITION]


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


def test_nothing_committed_is_no_error() -> None:
    assert ShardDriver().fetch({"foo": [1]}) == group_answer({("foo", 1): -1})
    assert ShardDriver().fetch(None) == group_answer({})


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


def test_topics_by_id_are_looked_up_by_id() -> None:
    driver = ShardDriver()
    driver.commit(-1, {("foo", 0): 4}, version=10)
    assert driver.fetch({"foo": [0]}, version=10) == group_answer({("foo", 0): 4})
    assert driver.fetch({"bar": [0]}, version=10) == group_answer(
        {("bar", 0): -1}, code=Code.UNKNOWN_TOPIC_ID
    )


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, Code.NONE),
        ("a", 2, Code.NONE),
        ("a", 3, Code.STALE_MEMBER_EPOCH),
        ("a", -1, Code.STALE_MEMBER_EPOCH),
        ("b", 1, Code.UNKNOWN_MEMBER_ID),
        (None, 1, Code.UNKNOWN_MEMBER_ID),
        (None, 0, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_reads_offsets_at_its_epoch_alone(
    member_id: str | None, epoch: int, code: Code
) -> None:
    driver = ShardDriver()
    driver.join("a")
    answer = driver.fetch({"foo": [0]}, member_id, epoch)
    assert answer == (
        group_answer({("foo", 0): -1})
        if not code
        else OffsetFetchResponseGroup(group_id="g", error_code=code)
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
