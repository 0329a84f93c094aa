"""What the differential test (tests/kafka) found: a real Kafka's behaviour where one would have
guessed otherwise.
"""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coord.shard_driver import ShardDriver, settings_with, topics

SHORT_NOTES = settings_with(offset_metadata_max_bytes=4)


@pytest.fixture
def driver() -> ShardDriver:
    """A shard where foo has two partitions and a note may have four bytes."""
    return ShardDriver(SHORT_NOTES, known=topics(foo=2))


def codes_of_a_commit(
    driver: ShardDriver, member_id: str, epoch: int, notes: dict[int, str]
) -> dict[int, int]:
    """The codes of a commit of foo with {partition: note}."""
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=5, committed_metadata=note
        )
        for index, note in notes.items()
    )
    topic = OffsetCommitRequestTopic(name="foo", partitions=partitions)
    request = OffsetCommitRequest(
        group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch, topics=(topic,)
    )
    (answered,) = driver.send(request, 9).topics
    return {each.partition_index: each.error_code for each in answered.partitions}


def test_a_partition_that_does_not_exist_has_its_own_answer_even_in_a_refused_commit(
    driver: ShardDriver,
) -> None:
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes_of_a_commit(driver, "", -1, {0: "", 2: "", -1: ""}) == {
        0: Code.NONE,
        2: unknown,
        -1: unknown,
    }
    assert codes_of_a_commit(driver, "ghost", 7, {0: "", 2: ""}) == {
        0: Code.UNKNOWN_MEMBER_ID,
        2: unknown,
    }
    assert codes_of_a_commit(driver, "ghost", 7, {2: ""}) == {2: unknown}


def test_a_note_that_is_too_long_is_found_before_an_epoch_that_is_too_old(driver: Any) -> None:
    driver.join("a")
    driver.join("b")
    now = driver.beat("b", driver.shard.ledger.groups["g"].saved.members["b"].epoch).member_epoch
    too_long, stale = Code.OFFSET_METADATA_TOO_LARGE, Code.STALE_MEMBER_EPOCH
    assert codes_of_a_commit(driver, "b", now - 1, {0: "12345"}) == {0: too_long}
    assert codes_of_a_commit(driver, "b", now - 1, {0: "1234"}) == {0: stale}
    assert codes_of_a_commit(driver, "b", now - 1, {0: "12345", 1: ""}) == {0: stale, 1: stale}
    assert codes_of_a_commit(driver, "b", now + 1, {0: "12345"}) == {0: stale}


def test_a_group_of_nothing_but_offsets_takes_commits_without_an_epoch_from_anybody(
    driver: ShardDriver,
) -> None:
    assert codes_of_a_commit(driver, "", -1, {0: ""}) == {0: Code.NONE}
    assert codes_of_a_commit(driver, "ghost", -1, {0: ""}) == {0: Code.NONE}
    assert codes_of_a_commit(driver, "ghost", 0, {0: ""}) == {0: Code.UNKNOWN_MEMBER_ID}


def test_an_offset_of_a_partition_that_does_not_exist_cannot_be_deleted(
    driver: ShardDriver,
) -> None:
    codes_of_a_commit(driver, "", -1, {0: "", 1: ""})
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (1, 2, -1))
    request = OffsetDeleteRequest(
        group_id="g", topics=(OffsetDeleteRequestTopic(name="foo", partitions=partitions),)
    )
    (answered,) = driver.send(request, 0).topics
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in answered.partitions] == [Code.NONE, unknown, unknown]
    assert list(driver.shard.ledger.offsets["g"]["foo"]) == [0]


def test_a_description_shows_what_a_member_has_and_has_yet_to_give_up(driver: ShardDriver) -> None:
    first = driver.join("a").member_epoch
    driver.join("b")
    driver.beat("a", first)
    (group,) = driver.send(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    shown = {
        member.member_id: (member.assignment, member.target_assignment) for member in group.members
    }
    held, target = ([part.partitions for part in each.topic_partitions] for each in shown["a"])
    assert (held, target) == ([(0, 1)], [(0,)])
