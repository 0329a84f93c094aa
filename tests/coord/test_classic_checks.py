"""Requests of classic members that are refused, and responses that need no script: shapes, limits,
what a peer may not break.
"""

from typing import Any

import pytest

from apportion.coord import records
from apportion.coord.config import GroupSettings
from apportion.coord.records import Append
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Arrived, Caller, Instant, Reply, Ticket
from apportion.topics import Topics
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from apportion.wire.records.codec import decode_value
from apportion.wire.records.groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.coord.classic_shard_driver import (
    TOO_LONG,
    ClassicShardDriver,
    ScriptedClient,
    ask,
    join_and_sync,
    subscription,
)
from tests.coord.shard_driver import through_bytes, topics
from tests.message_texts import request_of, words
from tests.messages import BY_NAME


@pytest.mark.parametrize("group_id", ["", TOO_LONG])
@pytest.mark.parametrize(
    ("name", "fields", "about"),
    [
        ("JoinGroup", "member_id=m session_timeout_ms=10000", " protocol_name=null member_id=m"),
        ("SyncGroup", "protocol_type=consumer protocol_name=range", ""),
        ("Heartbeat", "", ""),
        ("LeaveGroup", "", ""),
    ],
)
def test_no_group_has_such_an_id(name: str, fields: str, about: str, group_id: str) -> None:
    asked = request_of(f"{name} group_id={group_id} {fields}")
    answer = ClassicShardDriver().send(asked, BY_NAME[name].versions[-1])
    assert words(answer) == f"error_code=INVALID_GROUP_ID{about}"


def test_a_subscription_is_copied_out_of_its_request_buffer() -> None:
    buffer = bytearray(b"metadata assignment")
    driver, client = ClassicShardDriver(), ScriptedClient("a")
    client.protocols = (("range", memoryview(buffer)[:8]),)
    join_and_sync(driver, client, memoryview(buffer)[9:])
    buffer[:] = bytes(len(buffer))
    assert driver.group is not None
    assert driver.group.saved is not None
    (member,) = driver.group.saved.members
    assert (member.subscription, member.assignment) == (b"metadata", b"assignment")


def test_a_steady_heartbeat_writes_nothing_and_is_answered_at_once() -> None:
    driver = ClassicShardDriver()
    client = join_and_sync(driver, ScriptedClient("a"))
    ticket: Any = driver.ask(client.beating(), 4)
    assert driver.actions == [Reply(ticket, HeartbeatResponse())]


def test_an_assignment_is_in_the_log_before_anybody_is_told() -> None:
    driver = ClassicShardDriver()
    client = join_and_sync(driver, ScriptedClient("a"))
    ask(driver, client, client.joining())  # the only member, so there is a new generation at once
    driver.ask(client.syncing([(client.member_id, b"new")]), 5)
    append, reply = driver.actions
    assert (type(append), type(reply)) == (Append, Reply)
    assert isinstance(append, Append)
    assert append.records[0] == (
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=2,
            protocol="range",
            leader=client.member_id,
            current_state_timestamp=1_000_000,
            members=(
                MemberMetadata(
                    member_id=client.member_id,
                    client_id="a",
                    client_host="/127.0.0.1",
                    rebalance_timeout=20_000,
                    session_timeout=10_000,
                    subscription=b"range",
                    assignment=b"new",
                ),
            ),
        ),
    )


def test_leave_group_names_each_member_from_version_3_on_and_has_one_code_before() -> None:
    driver = ClassicShardDriver()
    client = join_and_sync(driver, ScriptedClient("a"))
    for asked, versions, answer in (
        ("group_id=g member_id=x", (2,), "error_code=UNKNOWN_MEMBER_ID"),
        ("group_id=g members=[member_id=x]", (3, 4, 5), GONE),
        ("group_id=none member_id=x", (0,), "error_code=UNKNOWN_MEMBER_ID"),
        (f"group_id=g member_id={client.member_id}", (1,), ""),
    ):
        for version in versions:
            assert words(driver.send(request_of(f"LeaveGroup {asked}"), version)) == answer
    assert driver.group is not None
    assert driver.group.is_empty()


GONE = "members=[member_id=x error_code=UNKNOWN_MEMBER_ID]"


def test_a_member_that_believes_in_another_protocol_gets_no_assignment() -> None:
    driver = ClassicShardDriver()
    client = join_and_sync(driver, ScriptedClient("a"))
    for client.protocol_type, client.protocol, code in (
        ("connect", "range", Code.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", Code.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "range", Code.NONE),
    ):
        assert ask(driver, client, client.syncing(), 5).error_code == code


def deleted(driver: ClassicShardDriver) -> tuple[int, list[int]]:
    """The codes of an OffsetDelete of foo-0 and bar-0."""
    topics = "[name=foo partitions=[-], name=bar partitions=[-]]"
    answer = driver.send(request_of(f"OffsetDelete group_id=g topics={topics}"), 0)
    return answer.error_code, [topic.partitions[0].error_code for topic in answer.topics]


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "answer"),
    [
        ("consumer", subscription("foo"), (0, [Code.GROUP_SUBSCRIBED_TO_TOPIC, 0])),
        (
            "consumer",
            b"no subscription",
            (0, [Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.GROUP_SUBSCRIBED_TO_TOPIC]),
        ),
        ("consumer", b"", (0, [Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.GROUP_SUBSCRIBED_TO_TOPIC])),
        ("connect", subscription("foo"), (Code.NON_EMPTY_GROUP, [])),
    ],
)
def test_offsets_of_topics_that_members_may_be_reading_are_not_forgotten(
    protocol_type: str, metadata: bytes, answer: tuple[int, list[int]]
) -> None:
    driver, client = ClassicShardDriver(known=topics(foo=1, bar=1)), ScriptedClient("a")
    client.protocol_type, client.protocols = protocol_type, (("range", metadata),)
    join_and_sync(driver, client)
    assert deleted(driver) == answer
    driver.log = [*through_bytes(driver.log)]
    driver.crash()
    assert deleted(driver) == answer
    driver.send(client.leaving(), 5)
    assert deleted(driver) == (0, [0, 0])


def test_groups_are_listed_by_their_states_and_types() -> None:
    driver = ClassicShardDriver()
    client = join_and_sync(driver, ScriptedClient("a"))
    driver.commit(-1, {("foo", 0): 1}, group_id="simple")
    driver.join("m", group_id="new")
    classic = ListedGroup(
        group_id="g", protocol_type="consumer", group_state="Stable", group_type="classic"
    )
    simple = ListedGroup(group_id="simple", group_state="Empty", group_type="classic")

    def listed(
        states: tuple[str, ...] = (), types: tuple[str, ...] = ()
    ) -> tuple[ListedGroup, ...]:
        result: tuple[ListedGroup, ...] = driver.send(
            ListGroupsRequest(states_filter=states, types_filter=types), 5
        ).groups
        return result

    assert listed(types=("Classic",)) == (classic, simple)
    assert listed(types=("classic",), states=("stable ",)) == (classic,)
    assert listed(states=("PreparingRebalance",)) == ()
    ask(driver, client, client.joining())
    assert [group.group_id for group in listed(states=("completingrebalance",))] == ["g"]


def test_a_heartbeat_while_the_coordinator_reads_its_log_frightens_nobody() -> None:
    shard = Shard(GroupSettings(), Topics())
    beat = Arrived(
        Ticket(1),
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        4,
        Caller("a", "/h"),
        bytes(16),
    )
    sync = Arrived(
        Ticket(2),
        SyncGroupRequest(group_id="g", generation_id=1, member_id="m"),
        4,
        Caller("a", "/h"),
        bytes(16),
    )
    assert shard.step(beat, Instant(0, 0)) == [Reply(Ticket(1), HeartbeatResponse())]
    assert shard.step(sync, Instant(0, 0)) == [
        Reply(Ticket(2), SyncGroupResponse(error_code=int(Code.COORDINATOR_LOAD_IN_PROGRESS)))
    ]


def test_a_group_that_a_very_old_broker_saved_lives_on() -> None:
    driver = ClassicShardDriver()
    value = bytes.fromhex(
        "0000"  # version 0: no rebalance timeout, no instance
        "0008636f6e73756d6572"  # consumer
        "00000007"  # generation 7
        "000572616e6765"  # range
        "00016d"  # led by m
        "00000001"
        "00016d"
        "000163"
        "00022f68"
        "00002710"  # a session of 10 s
        "0000000173"  # said s
        "0000000161"  # has a
    )
    key = GroupMetadataKey(group="g")
    driver.log = [records.classic_group("g", decode_value(key, value))]
    driver.crash()
    assert driver.group is not None
    (member,) = driver.group.live.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, member.assignment) == (
        10_000,
        10_000,
        b"a",
    )
    assert (
        driver.send(HeartbeatRequest(group_id="g", generation_id=7, member_id="m"), 4).error_code
        == Code.NONE
    )


@pytest.mark.parametrize(("saved_ms", "revived_ms"), [(-1, 10_000), (0, 0), (1, 1)])
def test_a_member_without_a_rebalance_timeout_has_its_session_timeout_for_one(
    saved_ms: int, revived_ms: int
) -> None:
    driver = ClassicShardDriver()
    member = MemberMetadata(member_id="m", rebalance_timeout=saved_ms, session_timeout=10_000)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol="range", leader="m", members=(member,)
    )
    driver.log = [records.classic_group("g", value)]
    driver.crash()
    assert driver.group is not None
    assert driver.group.live.rebalance_timeout_ms() == revived_ms


def test_an_empty_group_changes_its_type_when_a_member_of_the_other_protocol_joins() -> None:
    driver = ClassicShardDriver()
    client = join_and_sync(driver, ScriptedClient("a"))
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=9_000,
        subscribed_topic_names=("foo",),
        topic_partitions=(),
    )
    driver.send(client.leaving(), 5)
    written = len(driver.log)
    assert driver.send(beat, 1).error_code == Code.NONE
    assert driver.log[written] == records.classic_group("g", None)
    assert [group.type_name for group in driver.shard.ledger.groups.values()] == ["consumer"]
    driver.crash()
    driver.beat("m", -1)
    written = len(driver.log)
    client.member_id, client.generation = "", -1
    join_and_sync(driver, client)
    assert [record.key.__key__ for record in driver.log[written:]] == [6, 3, 2, 2]
    driver.crash()
    assert driver.group is not None
    assert (driver.group.state, driver.group.live.generation) == ("Stable", 1)


def test_a_group_too_large_for_a_record_is_not_saved_and_joins_again() -> None:
    driver, client = ClassicShardDriver(), ScriptedClient("a")
    ask(driver, client, client.joining())
    driver.ask(client.joining(), 9)
    driver.advance(0)
    client.apply_join(driver.responses.pop()[1])
    written = len(driver.log)
    answer = ask(driver, client, client.syncing([(client.member_id, bytes(1 << 26))]), 5)
    assert (answer, len(driver.log)) == (
        SyncGroupResponse(error_code=int(Code.UNKNOWN_SERVER_ERROR)),
        written,
    )
    assert driver.group is not None
    assert (driver.group.state, driver.group.live.members[client.member_id].assignment) == (
        "PreparingRebalance",
        b"",
    )
