"""Classic groups through the node: requests that wait there, whatever becomes of the disk, the
connections and the process.
"""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.machine import Gone, Ticket
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.join_group import (
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.list_groups import ListGroupsRequest
from tests.message_texts import request_of
from tests.node.kit import NodeDriver


def joining(member_id: str = "", instance_id: str = "null", group_id: str = "g") -> Any:
    who = f"group_id={group_id} member_id={member_id} group_instance_id={instance_id}"
    timeouts = "session_timeout_ms=10000 rebalance_timeout_ms=20000"
    protocols = "protocol_type=consumer protocols=[name=range metadata=said]"
    return request_of(f"JoinGroup {who} {timeouts} {protocols}")


def syncing(joined: Any, version: int = 5, assignment: str = "") -> Any:
    """A sync that gives the member an assignment, if there is one."""
    names = "protocol_type=consumer protocol_name=range" if version >= 5 else ""
    given = f"member_id={joined.member_id} assignment={assignment}" if assignment else ""
    return request_of(f"SyncGroup {membership(joined)} {names} assignments=[{given}]")


def membership(joined: Any) -> str:
    return f"group_id=g generation_id={joined.generation_id} member_id={joined.member_id}"


def beating(joined: Any) -> Any:
    return request_of(f"Heartbeat {membership(joined)}")


def wait_for(driver: NodeDriver, ticket: int) -> JoinGroupResponse:
    """The answer to a request that waits for others or for the clock."""
    for _ in range(5):
        driver.flush()
        driver.sleep(0)
    result: JoinGroupResponse = driver.answers[ticket]
    return result


def led(driver: NodeDriver, version: int = 9) -> JoinGroupResponse:
    """What the only member of a group is told when it joins."""
    member_id = driver.call(joining(), version).member_id if version >= 4 else ""
    return wait_for(driver, driver.ask(joining(member_id), version))


def settled(driver: NodeDriver) -> JoinGroupResponse:
    """A group of one that has its assignment."""
    joined = led(driver)
    assert driver.call(syncing(joined, assignment="all")).assignment == b"all"
    return joined


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves_in_every_version(
    driver: NodeDriver, version: int
) -> None:
    joined = led(driver, version)
    assert (joined.error_code, joined.generation_id, joined.leader) == (
        Code.NONE,
        1,
        joined.member_id,
    )
    sync_version = min(version, 5)
    synced = driver.call(syncing(joined, sync_version, "all"), sync_version)
    assert (synced.error_code, synced.assignment) == (Code.NONE, b"all")
    assert driver.call(beating(joined), min(version, 4)).error_code == Code.NONE
    (group,) = driver.call(DescribeGroupsRequest(groups=("g",)), min(version, 6)).groups
    assert (group.group_state, group.protocol_data, len(group.members)) == ("Stable", "range", 1)
    who = (
        {"members": (MemberIdentity(member_id=joined.member_id),)}
        if version >= 3
        else {"member_id": joined.member_id}
    )
    leaving = LeaveGroupRequest(group_id="g", **who)
    assert driver.call(leaving, min(version, 5)).error_code == Code.NONE
    (group,) = driver.call(DescribeGroupsRequest(groups=("g",))).groups
    assert (group.group_state, group.members) == ("Empty", ())


def test_nobody_is_told_an_assignment_that_could_be_lost(driver: NodeDriver) -> None:
    joined = led(driver)
    ticket = driver.ask(syncing(joined, assignment="all"))
    beat = driver.ask(beating(joined))
    assert not {ticket, beat} & set(driver.answers)
    driver.flush()
    assert (driver.answers[ticket].assignment, driver.answers[beat].error_code) == (
        b"all",
        Code.NONE,
    )


def test_an_assignment_that_the_disk_refused_was_never_given(driver: NodeDriver) -> None:
    joined = settled(driver)
    driver.ask(joining(joined.member_id))  # the leader wants another generation
    driver.flush()
    again = next(answer for answer in reversed(driver.answers.values()))
    assert again.generation_id == 2
    lost = driver.ask(syncing(again, assignment="new"))
    waits = driver.ask(joining(instance_id="i"), 3)
    driver.fail_flush()
    codes = [driver.answers[ticket].error_code for ticket in (lost, waits)]
    assert codes == [Code.COORDINATOR_NOT_AVAILABLE] * 2
    driver.sleep(2_000)
    driver.flush()
    # of generation 1, which is the last one that there was
    assert driver.call(syncing(joined)).assignment == b"all"
    # the lost generation gave nobody anything, so who speaks of it keeps what it holds and joins
    # again
    assert driver.call(beating(again)).error_code == Code.REBALANCE_IN_PROGRESS


def test_a_group_is_there_after_a_crash_and_misses_who_does_not_come_back(
    driver: NodeDriver,
) -> None:
    joined = settled(driver)
    driver = driver.crash()
    assert driver.call(syncing(joined)).assignment == b"all"
    driver.sleep(9_999)
    assert driver.call(beating(joined)).error_code == Code.NONE
    driver.sleep(10_000)
    driver.flush()
    assert driver.call(beating(joined)).error_code == Code.UNKNOWN_MEMBER_ID
    driver = driver.crash()
    (group,) = driver.call(ListGroupsRequest()).groups
    assert (group.group_id, group.group_state, group.protocol_type, group.group_type) == (
        "g",
        "Empty",
        "consumer",
        "classic",
    )


def test_a_closed_connection_gets_no_response_and_the_others_do(driver: NodeDriver) -> None:
    joined = settled(driver)
    gone, stays = driver.ask(joining(instance_id="i")), driver.ask(joining(instance_id="j"))
    driver.node.step(Gone((Ticket(gone),)), driver.now)
    driver.ask(joining(joined.member_id))
    driver.flush()
    assert (gone in driver.answers, driver.answers[stays].generation_id) == (False, 2)
