"""Classic members inside a consumer group: what they are answered, by when they must speak, and
what they may commit.
"""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest
from apportion.wire.messages.sync_group import SyncGroupResponse
from tests.coord.classic_requests import (
    assignment,
    beat,
    driver_with_one_consumer,
    join,
    leave,
    members,
    subscription,
    sync,
)
from tests.coord.consumer_client import REBALANCE_MS
from tests.coord.mixed_shard_driver import (
    SESSION_MS,
    ClassicClient,
    ConsumerClient,
    MixedShardDriver,
)
from tests.coord.shard_driver import topic_id, topics


@pytest.fixture
def driver() -> MixedShardDriver:
    result: MixedShardDriver = driver_with_one_consumer()
    return result


@pytest.mark.parametrize("said_version", [0, 1, 2, 3])
def test_a_classic_member_joins_a_consumer_group_and_syncs_what_is_free_for_it(
    driver: Any, said_version: int
) -> None:
    joined = join(driver, metadata=subscription(said_version), names=("range", "roundrobin"))
    assert joined == JoinGroupResponse(
        generation_id=3,
        protocol_type="consumer",
        protocol_name="range",
        leader="",
        member_id="m",
        members=(),
    )
    synced = SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=assignment(said_version)
    )
    assert sync(driver, 3) == synced
    assert beat(driver, 3) == Code.NONE
    driver.c.act()
    driver.c.act()
    assert beat(driver, 3) == Code.REBALANCE_IN_PROGRESS  # what it waits for is free
    assert join(driver, metadata=subscription(said_version)).generation_id == 3
    mine = tuple(sorted({0, 1, 2, 3} - {index for _, index in driver.c.owned}))
    assert sync(driver, 3).assignment == assignment(said_version, *mine)
    assert beat(driver, 3) == Code.NONE


def test_a_subscription_of_a_newer_version_is_answered_in_the_newest_known(
    driver: MixedShardDriver,
) -> None:
    newer = b"\0\x63" + subscription()[2:] + b"more"
    assert join(driver, metadata=newer).error_code == Code.NONE
    assert sync(driver, 3).assignment == assignment(3)


def test_a_member_is_not_sent_to_join_again_before_all_that_it_waits_for_is_free(
    driver: Any,
) -> None:
    driver.change_topics(topics(foo=6))
    d = ConsumerClient(driver, "d", ("foo",))
    for client in (d, driver.c, driver.c, d):
        client.act()
    assert (len(driver.c.owned), len(d.owned)) == (3, 3)
    generation = join(driver).generation_id
    assert sync(driver, generation).assignment == assignment(3)
    codes = []
    for client in (driver.c, d):  # it is told, then it has given up one partition of the two
        for _ in range(2):
            client.act()
            codes.append(beat(driver, generation))
    assert codes == [Code.NONE, Code.NONE, Code.NONE, Code.REBALANCE_IN_PROGRESS]
    assert join(driver).generation_id == generation
    free = sorted({0, 1, 2, 3, 4, 5} - {index for _, index in driver.c.owned | d.owned})
    assert (len(free), sync(driver, generation).assignment) == (2, assignment(3, *free))


def test_a_member_is_sent_to_join_again_when_its_group_goes_on(driver: MixedShardDriver) -> None:
    generation = join(driver).generation_id
    assert sync(driver, generation).error_code == Code.NONE
    assert beat(driver, generation) == Code.NONE
    assert join(driver, "n").generation_id == generation + 1
    assert beat(driver, generation) == Code.REBALANCE_IN_PROGRESS
    assert join(driver).generation_id == generation + 1


def test_a_cooperative_member_keeps_its_generation_until_it_revokes_by_rejoining(
    driver: Any,
) -> None:
    m = ClassicClient(driver, "m", ("foo",))
    driver.c.leave()
    for _ in range(4):
        m.act()
        driver.advance(1)
    c = ConsumerClient(driver, "c", ("foo",))
    c.act()
    generation = m.generation
    assert beat(driver, generation, m.member_id) == Code.REBALANCE_IN_PROGRESS
    assert (
        sync(driver, generation, m.member_id, protocol_name="cooperative-sticky").error_code
        == Code.REBALANCE_IN_PROGRESS
    )
    m.act()
    m.act()
    assert (m.generation, len(m.owned)) == (generation, 4)
    m.act()
    assert (m.generation, len(m.owned), m.next) == (generation, 2, "join")
    assert beat(driver, generation, m.member_id) == Code.REBALANCE_IN_PROGRESS
    m.act()
    m.act()
    assert (m.generation, len(m.owned), m.next) == (generation + 1, 2, "beat")


def test_a_member_without_an_id_is_given_one_and_remembered_only_when_it_comes_back(
    driver: MixedShardDriver,
) -> None:
    answer = join(driver, "")
    assert (answer.error_code, bool(answer.member_id), members(driver)) == (
        Code.MEMBER_ID_REQUIRED,
        True,
        ["c"],
    )
    assert join(driver, answer.member_id).error_code == Code.NONE
    assert members(driver) == sorted(["c", answer.member_id])
    assert join(driver, "", version=3).error_code == Code.NONE
    assert len(members(driver)) == 3


@pytest.mark.parametrize("rack", [None, "r1"])
def test_a_subscription_with_or_without_a_rack_is_heard(
    driver: MixedShardDriver, rack: str | None
) -> None:
    """KAFKA-20778."""
    assert join(driver, metadata=subscription(rack_id=rack)).error_code == Code.NONE
    assert driver.group().saved.members["m"].metadata.rack_id == rack


def test_members_leave_in_a_batch_with_one_new_epoch(driver: MixedShardDriver) -> None:
    static = join(driver, "", group_instance_id="i1").member_id
    for member_id in ("m", "n"):
        join(driver, member_id)
    epoch = driver.group().saved.epoch
    codes = leave(driver, ("m", None), ("n", "i1"), ("x", None), ("", "i9"), ("", None), ("", "i1"))
    unknown = Code.UNKNOWN_MEMBER_ID
    assert codes == [Code.NONE, Code.FENCED_INSTANCE_ID, unknown, unknown, unknown, Code.NONE]
    assert (members(driver), driver.group().saved.epoch, static in members(driver)) == (
        ["c", "n"],
        epoch + 1,
        False,
    )
    assert (
        driver.send(LeaveGroupRequest(group_id="g", member_id="x"), 2).error_code
        == Code.UNKNOWN_MEMBER_ID
    )
    assert driver.send(LeaveGroupRequest(group_id="g", member_id="n"), 2).error_code == Code.NONE
    assert members(driver) == ["c"]


def test_a_classic_member_has_its_own_session(driver: MixedShardDriver) -> None:
    join(driver)
    sync(driver, 3)
    driver.advance(SESSION_MS - 1)
    assert beat(driver, 3) == Code.NONE
    driver.advance(SESSION_MS - 1)
    assert members(driver) == ["c", "m"]
    driver.advance(1)
    assert members(driver) == ["c"]
    assert driver.notes == ["group g: member m was silent for too long and is gone"]


def alive_until(driver: Any, at_ms: int, generation: int) -> bool:
    """The member beats until `at_ms`, so that its session does not end; True if it is there
    then.
    """
    while driver.mono_ms < at_ms:
        driver.advance(min(SESSION_MS // 2, at_ms - driver.mono_ms))
        if "m" in members(driver):
            beat(driver, generation)
        driver.c.act()
    return "m" in members(driver)


def test_a_member_that_joined_and_does_not_sync_is_gone_after_its_rebalance_timeout(
    driver: MixedShardDriver,
) -> None:
    join(driver)
    assert alive_until(driver, REBALANCE_MS - 1, 3)
    assert not alive_until(driver, REBALANCE_MS, 3)
    assert driver.notes == ["group g: member m took too long to sync and is gone"]


def test_a_member_that_does_not_rejoin_within_the_rebalance_timeout_is_removed(
    driver: MixedShardDriver,
) -> None:
    join(driver)
    sync(driver, 3)
    join(driver, "n", session_timeout_ms=60_000, rebalance_timeout_ms=60_000)
    assert beat(driver, 3) == Code.REBALANCE_IN_PROGRESS
    assert alive_until(driver, REBALANCE_MS - 1, 3)
    assert not alive_until(driver, REBALANCE_MS, 3)
    assert driver.notes == ["group g: member m took too long to join again and is gone"]


def test_a_member_that_does_its_part_is_due_nothing_but_signs_of_life(driver: Any) -> None:
    m = ClassicClient(driver, "m", ("foo",))
    while driver.mono_ms < 4 * REBALANCE_MS:
        driver.advance(SESSION_MS // 2)
        driver.c.act()
        m.act()
    assert (len(m.owned), driver.notes) == (2, [])


def test_deadlines_begin_anew_after_a_crash(driver: MixedShardDriver) -> None:
    join(driver)
    driver.advance(SESSION_MS - 1)
    driver.crash()
    driver.advance(SESSION_MS - 1)
    assert beat(driver, 3) == Code.NONE


def test_new_partitions_are_heard_of_in_a_classic_heartbeat(driver: MixedShardDriver) -> None:
    join(driver)
    sync(driver, 3)
    driver.change_topics(topics(foo=6))
    assert (beat(driver, 3), driver.group().saved.epoch) == (Code.REBALANCE_IN_PROGRESS, 4)


def test_commits_and_fetches_of_classic_members_follow_their_generation(driver: Any) -> None:
    driver.c.leave()
    m = ClassicClient(driver, "m", ("foo",))
    for _ in range(4):
        m.act()
        driver.advance(1)
    c = ConsumerClient(driver, "c", ("foo",))
    for client in (c, m, m, m, m, m):
        client.act()
    old, new = m.generation - 1, m.generation
    (_, mine), *_ = sorted(m.owned)
    (theirs,) = {index for index in range(4) if ("foo", index) not in m.owned} - {3} - set(
        range(mine)
    ) or {3}
    for epoch, index, version, code in (
        (new, mine, 9, Code.NONE),
        (new, mine, 8, Code.NONE),
        (old, mine, 8, Code.NONE),  # KIP-1251: it had the partition then
        (old, theirs, 9, Code.ILLEGAL_GENERATION),
        (new + 1, mine, 9, Code.ILLEGAL_GENERATION),
    ):
        assert driver.commit(epoch, {("foo", index): 1}, m.member_id, version) == [code], (
            epoch,
            index,
            version,
        )
    assert driver.commit(c.epoch, {("foo", 0): 1}, "c", 8) == [Code.UNSUPPORTED_VERSION]
    codes = [
        driver.fetch(None, member_id, epoch).error_code
        for member_id, epoch in ((m.member_id, new), (m.member_id, old), ("c", 99))
    ]
    assert codes == [Code.NONE, Code.ILLEGAL_GENERATION, Code.STALE_MEMBER_EPOCH]


def test_a_description_tells_the_members_kinds(driver: MixedShardDriver) -> None:
    join(driver)
    (group,) = driver.send(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    assert [(member.member_id, member.member_type) for member in group.members] == [
        ("c", 1),
        ("m", 0),
    ]


def test_a_static_place_changes_its_protocol_without_having_been_released(
    driver: MixedShardDriver,
) -> None:
    first = join(driver, "", group_instance_id="i1")
    second = driver.join("d", instance_id="i1")
    assert (second.error_code, beat(driver, first.generation_id, first.member_id, "i1")) == (
        Code.NONE,
        Code.FENCED_INSTANCE_ID,
    )
    third = join(driver, "", group_instance_id="i1")
    assert (third.error_code, "d" in members(driver)) == (Code.NONE, False)
    assert (
        driver.beat("d", second.member_epoch, instance_id="i1").error_code
        == Code.FENCED_INSTANCE_ID
    )
    assert driver.group().saved.members[third.member_id].is_classic


def test_a_member_that_speaks_the_new_protocol_is_no_classic_one_any_more(
    driver: MixedShardDriver,
) -> None:
    joined = join(driver)
    sync(driver, 3)
    assert driver.beat("m", joined.generation_id).error_code == Code.NONE
    assert (driver.group().saved.members["m"].is_classic, beat(driver, 3)) == (
        False,
        Code.UNKNOWN_MEMBER_ID,
    )
    driver.advance(SESSION_MS + REBALANCE_MS)
    assert "m" in members(driver)  # with the session of its new protocol


def test_topics_that_are_gone_are_not_given(driver: Any) -> None:
    join(driver)
    for client in (driver.c, driver.c):
        client.act()
    assert join(driver).error_code == Code.NONE
    driver.change_topics([])
    assert sync(driver, 3).assignment == assignment(3)
    assert topic_id("foo") in driver.group().saved.units.ids
