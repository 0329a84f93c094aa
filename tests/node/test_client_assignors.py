"""Client-side assignors through the node: their requests wait for the disk, and survive a crash."""

from typing import Any

from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ClientAssignor,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from tests.node.kit import NodeDriver


def heartbeat(epoch: int, **facts: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat of the only member; a joining one offers an assignor."""
    if epoch == 0:
        facts = {
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": ("t",),
            "topic_partitions": (),
            "client_assignors": (ClientAssignor(name="lag", metadata=b"lags"),),
        } | facts
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **facts)


def installation(topic_id: bytes) -> ConsumerGroupInstallAssignmentRequest:
    """The target that the member computes for epoch 2."""
    parts = (InstalledPartitions(topic_id=topic_id, partitions=(0, 2)),)
    member = InstalledMember(
        member_id="m", topic_partitions=parts, metadata_version=1, metadata=b"so"
    )
    return ConsumerGroupInstallAssignmentRequest(
        group_id="g", member_id="m", member_epoch=1, group_epoch=2, error=3, members=(member,)
    )


PREPARE = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=1)


def test_an_installed_target_is_durable_before_its_answer_and_after_a_crash(
    driver: NodeDriver,
) -> None:
    topic_id = driver.create("t", 3)
    assert driver.call(heartbeat(0)).should_compute_assignment
    assert driver.call(PREPARE).group_epoch == 2
    ticket = driver.ask(installation(topic_id))
    assert ticket not in driver.answers
    driver.flush()
    assert driver.answers[ticket].error_code == Code.NONE
    driver = driver.crash()
    answer = driver.call(heartbeat(1))
    assert (answer.member_epoch, answer.assignment) == (
        2,
        Assignment(
            topic_partitions=(TopicPartitions(topic_id=topic_id, partitions=(0, 2)),),
            error=3,
            metadata_version=1,
            metadata=b"so",
        ),
    )


def test_a_crash_before_the_installation_begins_the_computation_anew(driver: NodeDriver) -> None:
    topic_id = driver.create("t", 3)
    driver.call(heartbeat(0))
    driver.call(PREPARE)
    driver = driver.crash()
    assert driver.call(installation(topic_id)).error_code == Code.UNKNOWN_MEMBER_ID
    assert driver.call(heartbeat(1)).should_compute_assignment
    assert [bytes(each.assignor.metadata) for each in driver.call(PREPARE).members] == [b"lags"]
    assert driver.call(installation(topic_id)).error_code == Code.NONE


def test_an_installation_whose_flush_fails_is_answered_with_an_error_and_undone(
    driver: NodeDriver,
) -> None:
    topic_id = driver.create("t", 3)
    driver.call(heartbeat(0))
    driver.call(PREPARE)
    ticket = driver.ask(installation(topic_id))
    driver.fail_flush()
    assert driver.answers[ticket].error_code != Code.NONE
    driver.flush()
    answer = driver.call(heartbeat(1))
    assert (answer.member_epoch, answer.should_compute_assignment) == (1, True)
