"""JoinGroup of classic members: refusals, new member ids, and limits."""

from typing import Any

import pytest

from apportion.coord.classic_protocol import classic_member_id
from apportion.coord.config import GroupSettings
from apportion.errors import Code
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coord.classic_shard_driver import (
    TOO_LONG,
    ClassicShardDriver,
    ScriptedClient,
    ask,
    join_and_sync,
)


@pytest.mark.parametrize(
    ("session_ms", "code"), [(5_999, 26), (6_000, 79), (1_800_000, 79), (1_800_001, 26), (-1, 26)]
)
def test_a_session_is_neither_too_short_nor_too_long(session_ms: int, code: int) -> None:
    client = ScriptedClient("a")
    client.session_ms = session_ms
    assert ask(ClassicShardDriver(), client, client.joining()).error_code == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"protocol_type": TOO_LONG}, Code.INVALID_REQUEST),
        ({"protocols": (("range", b""), (TOO_LONG, b""))}, Code.INVALID_REQUEST),
        ({"instance_id": TOO_LONG[37:]}, Code.INVALID_REQUEST),
        ({"name": TOO_LONG[37:]}, Code.INVALID_REQUEST),
        ({"name": TOO_LONG[38:]}, Code.MEMBER_ID_REQUIRED),
        ({"protocol_type": ""}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "me"}, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_is_too_long_for_a_record_or_inconsistent_creates_no_group(
    changes: dict[str, str | tuple[tuple[str, bytes], tuple[str, bytes]]], code: Code
) -> None:
    driver, client = ClassicShardDriver(), ScriptedClient("a")
    for name, value in changes.items():
        setattr(client, name, value)
    answer = ask(driver, client, client.joining())
    assert answer is not None
    assert (answer.error_code, bool(driver.log)) == (code, code == Code.MEMBER_ID_REQUIRED)


def test_a_refused_join_has_no_protocol_name_which_before_version_7_is_an_empty_one() -> None:
    driver, client = ClassicShardDriver(), ScriptedClient("a")
    client.member_id = "me"
    refused: dict[str, Any] = {
        "error_code": int(Code.UNKNOWN_MEMBER_ID),
        "generation_id": -1,
        "member_id": "me",
    }
    assert ask(driver, client, client.joining(), 9) == JoinGroupResponse(
        protocol_name=None, **refused
    )
    assert ask(driver, client, client.joining(), 6) == JoinGroupResponse(
        protocol_name="", **refused
    )


def test_a_new_id_is_the_clients_name_and_a_uuid() -> None:
    assert (
        classic_member_id("rdkafka", bytes(range(16)))
        == "rdkafka-00010203-0405-4607-8809-0a0b0c0d0e0f"
    )
    assert classic_member_id("i", b"\xff" * 16) == "i-ffffffff-ffff-4fff-bfff-ffffffffffff"


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    driver, client, other = ClassicShardDriver(), ScriptedClient("a"), ScriptedClient("b")
    client.protocols = (("range", b"first"), ("range", b"second"))
    join_and_sync(driver, client)
    assert driver.group is not None
    assert driver.group.saved is not None
    assert driver.group.saved.members[0].subscription == b"first"
    assert ask(driver, other, other.joining()).error_code == Code.MEMBER_ID_REQUIRED


def test_only_so_many_ids_are_handed_out_at_a_time_and_the_oldest_give_way() -> None:
    driver = ClassicShardDriver(GroupSettings(group_max_size=150))
    clients = [ScriptedClient(f"p{number}") for number in range(151)]
    for client in clients:
        ask(driver, client, client.joining())
    assert driver.group is not None
    assert list(driver.group.live.pending_joins) == [client.member_id for client in clients[1:]]
    first, last = (ask(driver, client, client.joining()) for client in (clients[0], clients[-1]))
    assert first is not None
    assert (first.error_code, last) == (Code.UNKNOWN_MEMBER_ID, None)


def test_a_group_without_a_limit_hands_out_ten_thousand_ids() -> None:
    driver = ClassicShardDriver()
    client = ScriptedClient("p")
    for _ in range(10_001):
        ask(driver, client, client.joining())
        client.member_id = ""
    assert driver.group is not None
    assert len(driver.group.live.pending_joins) == 10_000


def test_a_small_group_hands_out_a_hundred_ids() -> None:
    driver = ClassicShardDriver(GroupSettings(group_max_size=1))
    for number in range(101):
        client = ScriptedClient(f"p{number}")
        ask(driver, client, client.joining())
    assert driver.group is not None
    assert len(driver.group.live.pending_joins) == 100


def test_an_id_that_nobody_used_is_void_after_one_session_and_leaves_nothing_behind() -> None:
    driver, client = ClassicShardDriver(), ScriptedClient("a")
    ask(driver, client, client.joining())
    driver.advance(9_999)
    assert driver.group is not None
    assert list(driver.group.live.pending_joins) == [client.member_id]
    driver.advance(1)
    wake_ms = driver.shard.wake_at()
    assert (driver.group.live.pending_joins, wake_ms is None or wake_ms > 100_000) == ({}, True)


def test_a_refused_join_leaves_an_empty_consumer_group_as_it_is() -> None:
    driver, client = ClassicShardDriver(), ScriptedClient("a")
    driver.join("m")
    driver.beat("m", -1)
    written = len(driver.log)
    for client.member_id, client.protocols in (("", ()), ("x", (("range", b""),))):
        assert ask(driver, client, client.joining()).error_code
    assert (len(driver.log), driver.group) == (written, None)


def test_absent_members_with_short_rebalance_timeouts_do_not_busy_the_coordinator() -> None:
    driver, a, b = ClassicShardDriver(), ScriptedClient("a"), ScriptedClient("b")
    a.instance_id, a.rebalance_ms, b.rebalance_ms = "i", 10, 10
    join_and_sync(driver, a)
    ask(driver, b, b.joining())
    driver.ask(b.joining(), 9)
    driver.advance(11)  # "a" was too late for this generation
    assert driver.group is not None
    assert driver.group.live.generation == 2
    driver.ask(LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=b.member_id),)), 5)
    driver.advance(20)
    assert driver.group.state == "PreparingRebalance"
    wake_ms = driver.shard.wake_at()
    assert wake_ms is not None
    assert wake_ms - driver.mono_ms > 900
