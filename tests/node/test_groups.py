"""Groups through the node: their shards, their log, and answers that never run ahead of the
disk.
"""

from typing import Any

import pytest

from apportion.coord.placement import shard_of
from apportion.errors import Code
from apportion.machine import Arrived, Caller, Flushed, Note, Reply, Tick, Ticket
from apportion.store.disk import Damaged, DiskError
from apportion.store.log import Log
from apportion.wire.batch import encode_batch
from apportion.wire.messages.delete_topics import DeleteTopicsRequest
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.records.codec import encode_key
from apportion.wire.records.groups import OffsetCommitKey
from tests.message_texts import request_of
from tests.node import kit
from tests.node.group_requests import beat, commit, committed
from tests.node.kit import NodeDriver


def test_a_node_shows_its_topics_and_each_shard_with_its_log(
    driver: NodeDriver,
) -> None:
    driver.create("t", 3)
    driver.call(beat("g", "m", 0))
    [(log, shard)] = driver.node.shards()
    assert (log.topic.name, log.index) == (
        "__consumer_offsets",
        shard_of("g", log.topic.partitions),
    )
    assert list(shard.ledger.groups) == ["g"]
    assert log in list(driver.node.partitions())
    assert [topic.name for topic in driver.node.topics] == ["__consumer_offsets", "t"]


def test_members_learn_of_new_partitions_only_when_these_are_durable(driver: NodeDriver) -> None:
    topic_id = driver.create("t")
    epoch = driver.call(beat("g", "m", 0)).member_epoch
    driver.create("u")
    driver.sleep(1_000)  # the next target is due
    who = f"group_id=g member_id=m member_epoch={epoch} topic_partitions=[]"
    subscribe = request_of(f"ConsumerGroupHeartbeat {who} subscribed_topic_names=[t,u]")
    answer = driver.call(subscribe)
    assert len(answer.assignment.topic_partitions) == 2
    assert any(each.topic_id == topic_id for each in answer.assignment.topic_partitions)


def test_a_broken_step_is_answered_and_its_shard_reloaded(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(commit("g", 1), 9)
    broken = commit("g", 2)
    broken.topics[0].partitions[0].committed_offset = "not a number"
    nonsense = Arrived(Ticket(99), broken, 9, Caller("", ""), bytes(16))
    try:
        driver.node.step(nonsense, driver.now)
        raise AssertionError("the step should have failed")
    except Exception as error:
        actions = driver.node.give_up(nonsense, error, driver.now)
    replies = [action for action in actions if isinstance(action, Reply)]
    assert [(reply.ticket, reply.body.topics[0].partitions[0].error_code) for reply in replies] == [
        (99, Code.UNKNOWN_SERVER_ERROR)
    ]
    assert committed(driver, "g") == [1]


def give_up(driver: NodeDriver, event: Arrived | Tick) -> list[Note]:
    """The event's step breaks off, and the node says what follows."""
    with pytest.raises(DiskError) as refused:
        driver.node.step(event, driver.now)
    return driver.node.give_up(event, refused.value, driver.now)


def test_a_shard_that_could_not_note_a_deleted_topic_shows_what_its_log_says(
    driver: NodeDriver,
) -> None:
    driver.create("t")
    driver.create("u")
    driver.call(commit("g", 1), 9)
    driver.disk.free_bytes = 100  # the catalog's line fits, the shard's batch does not
    actions = give_up(
        driver,
        Arrived(Ticket(99), DeleteTopicsRequest(topic_names=("t",)), 5, Caller("", ""), bytes(16)),
    )
    assert [action for action in actions if isinstance(action, Reply)] == []
    driver.disk.free_bytes = None
    (flush,) = driver.node.step(Tick(), driver.now)
    assert [type(action) for action in driver.node.step(Flushed(flush.flush_seq), driver.now)] == [
        Reply
    ]
    assert committed(driver, "g") == committed(driver.crash(), "g") == [1]


def test_a_deadline_behind_a_broken_step_is_served_by_the_next() -> None:
    defaults: dict[str, Any] = {"group.consumer.session.timeout.ms": 3000}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    driver.call(beat("g", "m", 0))
    parked = driver.ask(kit.fetch("t", max_wait_ms=3001), 12)
    driver.now_ms = 3001
    driver.disk.free_bytes = 0
    assert {type(action) for action in give_up(driver, Tick())} == {Note}
    driver.disk.free_bytes = None
    driver.sleep(0)
    assert driver.answers[parked].responses[0].partitions[0].error_code == Code.NONE


def test_a_record_that_cannot_be_read_stops_the_start_and_is_named(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(commit("g", 1), 9)
    topic = driver.call(
        MetadataRequest(topics=(MetadataRequestTopic(name="__consumer_offsets"),)), 13
    ).topics[0]
    disk, partition = driver.disk.crash(), shard_of("g", len(topic.partitions))
    log = Log.open(disk, f"topics/{topic.topic_id.hex()}/__consumer_offsets-{partition}")
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
    log.append(
        encode_batch([(key, b"\0\x63", ())], base_offset=1, timestamp_ms=1),
        last_offset=1,
        max_timestamp_ms=1,
    )
    with pytest.raises(Damaged) as damage:
        kit.NodeDriver(disk)
    assert (
        str(damage.value)
        == f"__consumer_offsets-{partition}, offset 1: OffsetCommitValue has no version 99"
    )
