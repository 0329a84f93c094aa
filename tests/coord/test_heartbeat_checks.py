"""What a heartbeat is refused for, and in which order (group-semantics b.2, b.3, b.4)."""

from typing import Any

import pytest

from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.records import CoordinatorRecord
from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from apportion.wire.records.groups import ConsumerGroupCurrentMemberAssignmentValue
from tests.coord.shard_driver import ShardDriver, parts, settings_with, through_bytes

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


def test_a_wrong_expression_is_refused_last_and_in_words() -> None:
    driver = ShardDriver()
    assert (
        driver.join("m", subscribed_topic_regex="(", server_assignor="mine").error_code
        == Code.UNSUPPORTED_ASSIGNOR
    )
    assert driver.beat("m", 3, subscribed_topic_regex="(").error_code == Code.GROUP_ID_NOT_FOUND
    driver.join("a")
    assert driver.beat("m", 3, subscribed_topic_regex="(").error_code == Code.UNKNOWN_MEMBER_ID
    for topics in (None, ("foo",)):
        assert driver.join(
            "m", topics=topics, subscribed_topic_regex="("
        ) == ConsumerGroupHeartbeatResponse(
            error_code=Code.INVALID_REGULAR_EXPRESSION,
            error_message=("SubscribedTopicRegex is no regular expression of RE2: missing ): (."),
        )


def test_a_join_that_owns_something_is_refused() -> None:
    answer = ShardDriver().join("m", owned={"foo": [0]})
    assert answer.error_message == "A member that joins must send empty TopicPartitions."


@pytest.mark.parametrize(
    ("epoch", "why"),
    [(-2, "Only a member with an InstanceId can leave temporarily."), (-3, None)],
)
def test_epochs_that_mean_nothing_are_refused(epoch: int, why: str | None) -> None:
    answer = ShardDriver().beat("m", epoch)
    assert answer == ConsumerGroupHeartbeatResponse(
        error_code=Code.INVALID_REQUEST, error_message=why or "MemberEpoch -3 is not valid."
    )


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_a_joining_member_of_version_0_may_come_without_an_id(epoch: int) -> None:
    driver = ShardDriver()
    assert driver.beat("", epoch, version=0).error_code == Code.INVALID_REQUEST
    made: Any = driver.join("", version=0)
    assert (made.member_epoch, len(made.member_id)) == (2, 22)
    assert driver.join("", version=1).error_code == Code.INVALID_REQUEST


def test_an_empty_expression_is_no_expression() -> None:
    assert ShardDriver().join("m", subscribed_topic_regex="").error_code == Code.NONE


def test_leaving_is_checked_in_kafkas_order() -> None:
    driver = ShardDriver()
    assert driver.beat("a", -1).error_code == Code.GROUP_ID_NOT_FOUND
    driver.join("a")
    driver.join("s", instance_id="i")
    assert driver.beat("b", -1).error_code == Code.UNKNOWN_MEMBER_ID
    assert driver.beat("a", -1, instance_id="other").error_code == Code.UNKNOWN_MEMBER_ID
    assert driver.beat("a", -1, instance_id="i").error_code == Code.FENCED_INSTANCE_ID
    assert driver.beat("a", -2, instance_id="i").error_code == Code.FENCED_INSTANCE_ID
    assert driver.beat("s", -2, instance_id="i") == ConsumerGroupHeartbeatResponse(
        member_id="s", member_epoch=-2
    )
    assert driver.beat("a", -1) == ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=-1)


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


def test_the_records_of_a_first_heartbeat_stand_in_kafkas_order() -> None:
    driver = ShardDriver()
    answer = driver.join("a")
    assert [record.key.__key__ for record in driver.log] == [5, 3, 7, 6, 8]
    assert answer == ConsumerGroupHeartbeatResponse(
        member_id="a",
        member_epoch=2,
        heartbeat_interval_ms=100,
        assignment=Assignment(topic_partitions=parts({"foo": [0, 1, 2]})),
    )


def test_a_group_that_does_not_exist_is_made_by_a_join_alone() -> None:
    driver = ShardDriver()
    assert driver.beat("a", 2).error_code == Code.GROUP_ID_NOT_FOUND
    assert driver.join("a").error_code == Code.NONE


def test_a_full_group_refuses_strangers_first() -> None:
    driver = ShardDriver(settings_with(group_consumer_max_size=1))
    driver.join("s", instance_id="i")
    assert driver.join("b").error_code == Code.GROUP_MAX_SIZE_REACHED
    assert driver.beat("b", 8).error_code == Code.GROUP_MAX_SIZE_REACHED
    driver.beat("s", -2, instance_id="i")
    # even a static member that returns
    assert driver.join("t", instance_id="i").error_code == Code.GROUP_MAX_SIZE_REACHED
    assert driver.join("s", instance_id="i").error_code == Code.NONE


def test_a_dynamic_member_is_known_by_its_id_and_epoch() -> None:
    driver = ShardDriver()
    driver.join("a")
    assert driver.beat("b", 2).error_code == Code.UNKNOWN_MEMBER_ID
    assert driver.beat("a", 3).error_code == Code.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2).error_code == Code.NONE


def test_a_static_member_is_known_by_its_instance() -> None:
    driver = ShardDriver()
    driver.join("s", instance_id="i")
    assert driver.beat("s", 2, instance_id="other").error_code == Code.UNKNOWN_MEMBER_ID
    assert driver.beat("t", 2, instance_id="i").error_code == Code.FENCED_INSTANCE_ID
    assert driver.join("t", instance_id="i").error_code == Code.UNRELEASED_INSTANCE_ID
    assert driver.beat("s", 3, instance_id="i").error_code == Code.FENCED_MEMBER_EPOCH
    assert driver.beat("s", 2, instance_id="i").error_code == Code.NONE


def test_a_known_member_may_join_again_at_any_time() -> None:
    driver = ShardDriver()
    first = driver.join("a")
    driver.beat("a", first.member_epoch)
    assert driver.join("a") == first


def test_a_static_member_joins_again_only_after_it_left() -> None:
    driver = ShardDriver()
    assert driver.join("s", instance_id="i").error_code == Code.NONE
    refused = driver.join("s", instance_id="i")
    assert (refused.error_code, refused.error_message) == (
        Code.UNRELEASED_INSTANCE_ID,
        "Group instance id i is held by member s (client client, host 127.0.0.1), which releases "
        "it when it leaves or its session ends: stop that member, or give this one another group "
        "instance id.",
    )
    driver.beat("s", -2, instance_id="i")
    assert driver.join("s", instance_id="i").error_code == Code.NONE


@pytest.mark.parametrize(
    ("owned", "code"),
    [
        ({"foo": [0, 1]}, Code.NONE),
        ({}, Code.NONE),
        (None, Code.FENCED_MEMBER_EPOCH),
        ({"foo": [0, 2]}, Code.FENCED_MEMBER_EPOCH),
        ({"bar": [0]}, Code.FENCED_MEMBER_EPOCH),
    ],
)
def test_the_epoch_before_is_enough_for_a_member_that_uses_nothing_else(
    owned: dict[str, list[int]] | None, code: Code
) -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.join("b")
    driver.beat("a", 2)
    driver.beat("a", 2, owned={"foo": [0, 1]})  # its answer, epoch 2, is lost
    assert driver.beat("a", 2, owned=owned).error_code == code


def test_an_epoch_older_than_the_one_before_is_fenced() -> None:
    driver = ShardDriver()
    driver.join("a", topics=())
    for epoch, name in enumerate(("b", "c"), 1):
        driver.join(name)
        driver.beat("a", epoch)
    assert driver.beat("a", 1, owned={}).error_code == Code.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2, owned={}).error_code == Code.NONE


def test_an_epoch_that_the_member_was_never_told_is_fenced() -> None:
    driver = ShardDriver()
    driver.join("a", topics=())
    for name in ("b", "c", "d"):
        driver.join(name)
    assert driver.beat("a", 1, owned={}).member_epoch == 4  # from epoch 1 right to epoch 4
    assert [driver.beat("a", epoch, owned={}).error_code for epoch in (2, 3)] == [
        Code.FENCED_MEMBER_EPOCH
    ] * 2
    assert driver.beat("a", 1, owned={}).error_code == Code.NONE


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


def test_an_error_changes_nothing() -> None:
    driver = ShardDriver()
    driver.join("a")
    written, wake_ms = len(driver.log), driver.shard.wake_at()
    driver.advance(10)
    for answer in (
        driver.beat("a", 6),
        driver.beat("b", 2),
        driver.beat("a", 2, server_assignor="mine"),
    ):
        assert answer.error_code
        assert answer.error_message
    assert (len(driver.log), driver.shard.wake_at()) == (written, wake_ms)


def test_a_request_that_comes_before_the_log_was_read_has_to_wait() -> None:
    driver = ShardDriver()
    driver.shard._is_loaded = False
    assert driver.join("a").error_code == Code.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_a_too_early_offset_fetch_is_refused_if_its_version_has_an_error_code(
    version: int,
) -> None:
    driver, code = ShardDriver(), Code.COORDINATOR_LOAD_IN_PROGRESS
    driver.shard._is_loaded = False
    if version >= 8:
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id="g"), OffsetFetchRequestGroup(group_id="h"))
        )
        refused = OffsetFetchResponse(
            groups=(
                OffsetFetchResponseGroup(group_id="g", error_code=code),
                OffsetFetchResponseGroup(group_id="h", error_code=code),
            )
        )
    else:
        request = OffsetFetchRequest(
            group_id="g", topics=(OffsetFetchRequestTopic(name="foo", partition_indexes=(0, 2)),)
        )
        nowhere = tuple(
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            for index in (0, 2)
        )
        at_partitions = OffsetFetchResponse(
            topics=(OffsetFetchResponseTopic(name="foo", partitions=nowhere),)
        )
        refused = at_partitions if version == 1 else OffsetFetchResponse(error_code=code)
    assert driver.send(request, version) == refused
