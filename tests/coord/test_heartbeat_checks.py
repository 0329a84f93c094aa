"""What a heartbeat is refused for, and in which order (group-semantics b.2, b.3, b.4)."""

from typing import Any

import pytest

from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.records import CoordinatorRecord
from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.records.groups import ConsumerGroupCurrentMemberAssignmentValue
from tests.coord.shard_driver import ShardDriver, through_bytes
from tests.message_texts import request_of, words

COMPLETE: dict[str, Any] = {
    "rebalance_timeout_ms": 1_000,
    "topic_partitions": (),
    "subscribed_topic_names": ("foo",),
}


def codes_while_mending(
    driver: ShardDriver,
    version: int,
    epoch: int,
    faults: Any,
    **right: Any,
) -> list[Code | str]:
    """The codes of a request with all faults, without the first one, and so on; faults are (field,
    wrong value).
    """
    seen = []
    for first in range(len(faults) + 1):
        facts: dict[str, Any] = (
            {"group_id": "g", "member_id": "m", "member_epoch": epoch}
            | right
            | dict(faults[first:])
        )
        seen.append(driver.send(ConsumerGroupHeartbeatRequest(**facts), version))
    return [
        answer.error_message
        if answer.error_code == Code.INVALID_REQUEST
        else Code(answer.error_code)
        for answer in seen
    ]


def test_a_join_is_checked_in_kafkas_order() -> None:
    faults = [
        ("member_id", " "),
        ("group_id", "\t"),
        ("instance_id", ""),
        ("rack_id", " "),
        ("rebalance_timeout_ms", -1),
        ("topic_partitions", None),
        ("subscribed_topic_names", None),
        ("server_assignor", "mine"),
    ]
    assert codes_while_mending(ShardDriver(), 1, 0, faults, **COMPLETE) == [
        "MemberId is empty.",
        "GroupId is empty.",
        "InstanceId is empty.",
        "RackId is empty.",
        "A member that joins must send a RebalanceTimeoutMs.",
        "A member that joins must send empty TopicPartitions.",
        "A member that joins must send a subscription.",
        Code.UNSUPPORTED_ASSIGNOR,
        Code.NONE,
    ]


@pytest.mark.parametrize(
    ("field", "sentence"),
    [("group_id", "GroupId is too long."), ("member_id", "MemberId is too long.")],
)
def test_an_id_that_no_record_can_hold_is_refused(field: str, sentence: str) -> None:
    driver = ShardDriver()
    ids: dict[str, Any] = {"group_id": "g", "member_id": "m", field: "é" * 16_384}
    refused = driver.send(ConsumerGroupHeartbeatRequest(member_epoch=0, **COMPLETE, **ids))
    assert refused == ConsumerGroupHeartbeatResponse(
        error_code=Code.INVALID_REQUEST, error_message=sentence
    )
    longest: dict[str, Any] = ids | {field: "é" * 16_383 + "e"}
    assert (
        driver.send(ConsumerGroupHeartbeatRequest(member_epoch=0, **COMPLETE, **longest)).error_code
        == Code.NONE
    )
    assert len(list(through_bytes(driver.log))) == len(driver.log) > 0


def test_an_id_is_measured_in_bytes_and_only_by_its_limit() -> None:
    for group_id in ("e" * 8_192, "é" * 10_000, "e" * 32_766, "e" * 32_767):
        answer = ShardDriver().send(
            ConsumerGroupHeartbeatRequest(
                group_id=group_id, member_id="m", member_epoch=0, **COMPLETE
            )
        )
        assert answer.error_code == Code.NONE


def test_the_last_leave_forgets_the_member_and_bumps_both_epochs_of_the_group() -> None:
    driver = ShardDriver()
    driver.join("a")
    written = len(driver.log)
    driver.beat("a", -1)
    *tombstones, epoch, target = driver.log[written:]
    names = [(type(record.key).__name__, record.value) for record in tombstones]
    assert names == [
        ("ConsumerGroupCurrentMemberAssignmentKey", None),
        ("ConsumerGroupTargetAssignmentMemberKey", None),
        ("ConsumerGroupMemberMetadataKey", None),
    ]
    assert (epoch.value.epoch, epoch.value.metadata_hash) == (3, 0)
    assert (target.value.assignment_epoch, target.value.assignment_timestamp) == (3, 0)
    assert driver.shard.ledger.groups["g"].state == "Empty"
    # and no member's deadline is left
    assert driver.shard.wake_at() == driver.settings.offsets_retention_check_interval_ms


def test_a_member_in_a_state_of_a_newer_coordinator_has_to_begin_anew() -> None:
    driver: Any = ShardDriver()
    driver.join("a")
    key, value = driver.log[-1]
    newer = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2,
        previous_member_epoch=0,
        state=9,
        assigned_partitions=value.assigned_partitions,
    )
    driver.shard.replay(CoordinatorRecord(key, newer))
    assert driver.beat("a", 2).error_code == Code.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2, owned={"foo": [0]}).error_code == Code.FENCED_MEMBER_EPOCH
    assert driver.join("a").error_code == Code.NONE
    assert driver.shard.ledger.groups["g"].saved.members["a"].state is MemberState.STABLE


def test_a_request_that_comes_before_the_log_was_read_has_to_wait() -> None:
    driver = ShardDriver()
    driver.shard._is_loaded = False
    assert driver.join("a").error_code == Code.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("versions", "asked", "refused"),
    [
        (
            (1,),
            "group_id=g topics=[name=foo partition_indexes=[0,2]]",
            "topics=[name=foo partitions=[committed_offset=-1 error_code={code}, "
            "partition_index=2 committed_offset=-1 error_code={code}]]",
        ),
        ((2, 7), "group_id=g topics=[name=foo partition_indexes=[0,2]]", "error_code={code}"),
        (
            (8, 10),
            "groups=[group_id=g, group_id=h]",
            "groups=[group_id=g error_code={code}, group_id=h error_code={code}]",
        ),
    ],
)
def test_a_too_early_offset_fetch_is_refused_if_its_version_has_an_error_code(
    versions: tuple[int, ...], asked: str, refused: str
) -> None:
    driver = ShardDriver()
    driver.shard._is_loaded = False
    for version in versions:
        answer = driver.send(request_of(f"OffsetFetch {asked}"), version)
        assert words(answer) == refused.format(code="COORDINATOR_LOAD_IN_PROGRESS")
