"""Requests of classic members that are refused, and answers that are no story: shapes, limits, what
a peer may not break.
"""

import pytest
from classicworld import ClassicWorld, Player
from coordworld import topics

from apportion.coord import records
from apportion.coord.classic.join import new_member_id
from apportion.coord.config import GroupSettings
from apportion.coord.records import Append
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Arrived, Caller, Instant, Reply, Ticket
from apportion.topics import Topics
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from apportion.wire.records import consumer_serde
from apportion.wire.records.codec import decode_value
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata

TOO_LONG = "x" * 32768


def seated(world, player, assignment=b"all", version=9):
    """The player is the only member of a stable group."""
    ask(world, player, player.joining(), version)
    if player.generation < 0 and player.member_id:
        ask(world, player, player.joining(), version)
    world.advance(0)
    player.hear_join(world.heard.pop()[1])
    world.heard.clear()
    world.ask(player.syncing([(player.member_id, assignment)]), 5)
    world.heard.clear()
    return player


def ask(world, player, request, version=9):
    """The answer to the player's request, if it has one."""
    world.heard.clear()
    world.ask(request, version, player.name)
    answers = [answer for _, answer in world.heard]
    if answers and isinstance(answers[0], JoinGroupResponse):
        player.hear_join(answers[0])
    return answers[0] if answers else None


def subscription(*names):
    return consumer_serde.encode(ConsumerProtocolSubscription(topics=names, user_data=None))


@pytest.mark.parametrize("group_id", ["", TOO_LONG])
@pytest.mark.parametrize(
    ("kind", "facts", "answer"),
    [
        (
            JoinGroupRequest,
            {"member_id": "m", "session_timeout_ms": 10_000},
            JoinGroupResponse(
                error_code=int(Code.INVALID_GROUP_ID), protocol_name=None, member_id="m"
            ),
        ),
        (
            SyncGroupRequest,
            {"protocol_type": "consumer", "protocol_name": "range"},
            SyncGroupResponse(error_code=int(Code.INVALID_GROUP_ID)),
        ),
        (HeartbeatRequest, {}, HeartbeatResponse(error_code=int(Code.INVALID_GROUP_ID))),
        (LeaveGroupRequest, {}, LeaveGroupResponse(error_code=int(Code.INVALID_GROUP_ID))),
    ],
)
def test_no_group_has_such_an_id(kind, facts, answer, group_id):
    assert ClassicWorld().send(kind(group_id=group_id, **facts), kind.__versions__[-1]) == answer


@pytest.mark.parametrize(
    ("session_ms", "code"), [(5_999, 26), (6_000, 79), (1_800_000, 79), (1_800_001, 26), (-1, 26)]
)
def test_a_session_is_neither_too_short_nor_too_long(session_ms, code):
    player = Player("a")
    player.session_ms = session_ms
    assert ask(ClassicWorld(), player, player.joining()).error_code == code


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
def test_a_join_that_no_record_could_hold_or_no_group_grant_is_refused_and_makes_no_group(
    changes, code
):
    world, player = ClassicWorld(), Player("a")
    for name, value in changes.items():
        setattr(player, name, value)
    answer = ask(world, player, player.joining())
    assert (answer.error_code, bool(world.log)) == (code, code == Code.MEMBER_ID_REQUIRED)


def test_a_refused_join_has_no_protocol_name_which_before_version_7_is_an_empty_one():
    world, player = ClassicWorld(), Player("a")
    player.member_id = "me"
    refused = {"error_code": int(Code.UNKNOWN_MEMBER_ID), "generation_id": -1, "member_id": "me"}
    assert ask(world, player, player.joining(), 9) == JoinGroupResponse(
        protocol_name=None, **refused
    )
    assert ask(world, player, player.joining(), 6) == JoinGroupResponse(protocol_name="", **refused)


def test_a_new_id_is_the_clients_name_and_a_uuid():
    assert (
        new_member_id("rdkafka", bytes(range(16))) == "rdkafka-00010203-0405-4607-8809-0a0b0c0d0e0f"
    )
    assert new_member_id("i", b"\xff" * 16) == "i-ffffffff-ffff-4fff-bfff-ffffffffffff"


def test_what_a_member_sent_is_kept_and_not_the_buffer_that_it_came_in():
    buffer = bytearray(b"metadata assignment")
    world, player = ClassicWorld(), Player("a")
    player.protocols = (("range", memoryview(buffer)[:8]),)
    seated(world, player, memoryview(buffer)[9:])
    buffer[:] = bytes(len(buffer))
    (member,) = world.group.saved.members
    assert (member.subscription, member.assignment) == (b"metadata", b"assignment")


def test_a_protocol_that_is_named_twice_counts_once():
    world, player, other = ClassicWorld(), Player("a"), Player("b")
    player.protocols = (("range", b"first"), ("range", b"second"))
    seated(world, player)
    assert world.group.saved.members[0].subscription == b"first"
    assert ask(world, other, other.joining()).error_code == Code.MEMBER_ID_REQUIRED


def test_only_so_many_ids_are_handed_out_at_a_time_and_the_oldest_give_way():
    world = ClassicWorld(GroupSettings(group_max_size=150))
    players = [Player(f"p{number}") for number in range(151)]
    for player in players:
        ask(world, player, player.joining())
    assert list(world.group.live.pending_joins) == [player.member_id for player in players[1:]]
    first, last = (ask(world, player, player.joining()) for player in (players[0], players[-1]))
    assert (first.error_code, last) == (Code.UNKNOWN_MEMBER_ID, None)


def test_a_small_group_hands_out_a_hundred_ids():
    world = ClassicWorld(GroupSettings(group_max_size=1))
    for number in range(101):
        player = Player(f"p{number}")
        ask(world, player, player.joining())
    assert len(world.group.live.pending_joins) == 100


def test_an_id_that_nobody_used_is_void_after_one_session_and_leaves_nothing_behind():
    world, player = ClassicWorld(), Player("a")
    ask(world, player, player.joining())
    world.advance(9_999)
    assert list(world.group.live.pending_joins) == [player.member_id]
    world.advance(1)
    assert (
        world.group.live.pending_joins,
        world.shard.wake_at() is None or world.shard.wake_at() > 100_000,
    ) == ({}, True)


def test_a_steady_heartbeat_writes_nothing_and_is_answered_at_once():
    world = ClassicWorld()
    player = seated(world, Player("a"))
    ticket = world.ask(player.beating(), 4)
    assert world.actions == [Reply(ticket, HeartbeatResponse())]


def test_an_assignment_is_in_the_log_before_anybody_is_told():
    world = ClassicWorld()
    player = seated(world, Player("a"))
    ask(world, player, player.joining())  # the only member, so there is a new generation at once
    world.ask(player.syncing([(player.member_id, b"new")]), 5)
    append, reply = world.actions
    assert (type(append), type(reply)) == (Append, Reply)
    assert append.records[0] == (
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=2,
            protocol="range",
            leader=player.member_id,
            current_state_timestamp=1_000_000,
            members=(
                MemberMetadata(
                    member_id=player.member_id,
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


def test_a_member_that_leaves_is_named_in_the_answer_but_before_version_3_stands_at_its_top():
    world = ClassicWorld()
    player = seated(world, Player("a"))
    wrong = LeaveGroupRequest(group_id="g", member_id="x")
    unknown = int(Code.UNKNOWN_MEMBER_ID)
    assert world.send(wrong, 2) == LeaveGroupResponse(error_code=unknown)
    named = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="x"),))
    for version in (3, 4, 5):
        assert world.send(named, version) == LeaveGroupResponse(
            members=(MemberResponse(member_id="x", error_code=unknown),)
        )
    assert world.send(LeaveGroupRequest(group_id="none", member_id="x"), 0) == LeaveGroupResponse(
        error_code=unknown
    )
    assert (
        world.send(LeaveGroupRequest(group_id="g", member_id=player.member_id), 1)
        == LeaveGroupResponse()
    )
    assert world.group.is_empty()


def test_a_member_that_believes_in_another_protocol_gets_no_assignment():
    world = ClassicWorld()
    player = seated(world, Player("a"))
    for player.protocol_type, player.protocol, code in (
        ("connect", "range", Code.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", Code.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "range", Code.NONE),
    ):
        assert ask(world, player, player.syncing(), 5).error_code == code


def deleted(world):
    """The codes of an OffsetDelete of foo-0 and bar-0."""
    partition = (OffsetDeleteRequestPartition(partition_index=0),)
    wanted = tuple(
        OffsetDeleteRequestTopic(name=name, partitions=partition) for name in ("foo", "bar")
    )
    answer = world.send(OffsetDeleteRequest(group_id="g", topics=wanted), 0)
    return answer.error_code, [topic.partitions[0].error_code for topic in answer.topics]


@pytest.mark.parametrize(
    ("protocol_type", "said", "answer"),
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
    protocol_type, said, answer
):
    world, player = ClassicWorld(known=topics(foo=1, bar=1)), Player("a")
    player.protocol_type, player.protocols = protocol_type, (("range", said),)
    seated(world, player)
    assert deleted(world) == answer
    world.send(player.leaving(), 5)
    assert deleted(world) == (0, [0, 0])


def test_groups_are_listed_by_their_states_and_types():
    world = ClassicWorld()
    player = seated(world, Player("a"))
    world.commit(-1, {("foo", 0): 1}, group_id="simple")
    world.join("m", group_id="new")
    classic = ListedGroup(
        group_id="g", protocol_type="consumer", group_state="Stable", group_type="classic"
    )
    simple = ListedGroup(group_id="simple", group_state="Empty", group_type="classic")

    def listed(states=(), types=()):
        return world.send(ListGroupsRequest(states_filter=states, types_filter=types), 5).groups

    assert listed(types=("Classic",)) == (classic, simple)
    assert listed(types=("classic",), states=("stable ",)) == (classic,)
    assert listed(states=("PreparingRebalance",)) == ()
    ask(world, player, player.joining())
    assert [group.group_id for group in listed(states=("completingrebalance",))] == ["g"]


def test_other_groups_are_described_as_missing_and_offsets_alone_as_an_empty_group():
    world = ClassicWorld()
    world.commit(-1, {("foo", 0): 1}, group_id="simple")
    world.join("m", group_id="new")
    simple, new, none = world.send(
        DescribeGroupsRequest(groups=("simple", "new", "none")), 5
    ).groups
    assert simple == DescribedGroup(group_id="simple", group_state="Empty")
    assert (new, none) == (
        DescribedGroup(group_id="new", group_state="Dead"),
        DescribedGroup(group_id="none", group_state="Dead"),
    )
    found = [
        group.error_code
        for group in world.send(DescribeGroupsRequest(groups=("simple", "new", "none")), 6).groups
    ]
    assert found == [0, Code.GROUP_ID_NOT_FOUND, Code.GROUP_ID_NOT_FOUND]


def test_a_heartbeat_while_the_coordinator_reads_its_log_frightens_nobody():
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
    assert shard.step(beat, Instant(0, 0)) == [Reply(1, HeartbeatResponse())]
    assert shard.step(sync, Instant(0, 0)) == [
        Reply(2, SyncGroupResponse(error_code=int(Code.COORDINATOR_LOAD_IN_PROGRESS)))
    ]


def test_a_group_that_a_very_old_broker_saved_lives_on():
    world = ClassicWorld()
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
    world.log = [records.classic_group("g", decode_value(key, value))]
    world.crash()
    (member,) = world.group.live.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, member.assignment) == (
        10_000,
        10_000,
        b"a",
    )
    assert (
        world.send(HeartbeatRequest(group_id="g", generation_id=7, member_id="m"), 4).error_code
        == Code.NONE
    )


@pytest.mark.parametrize(("saved_ms", "revived_ms"), [(-1, 10_000), (0, 0), (1, 1)])
def test_a_member_without_a_rebalance_timeout_has_its_session_timeout_for_one(saved_ms, revived_ms):
    world = ClassicWorld()
    member = MemberMetadata(member_id="m", rebalance_timeout=saved_ms, session_timeout=10_000)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol="range", leader="m", members=(member,)
    )
    world.log = [records.classic_group("g", value)]
    world.crash()
    assert world.group.live.rebalance_timeout_ms() == revived_ms


@pytest.mark.parametrize(
    ("epoch", "facts", "code"),
    [
        (-1, {}, Code.NONE),
        (-1, {"member_id": "m"}, Code.NONE),
        (0, {}, Code.UNKNOWN_MEMBER_ID),
        (0, {"group_instance_id": "i"}, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_to_a_group_without_members(epoch, facts, code):
    world = ClassicWorld()
    player = Player("a")
    ask(world, player, player.joining())  # it is given an id, and there is a group
    assert world.commit(epoch, {("foo", 0): 1}, version=9, **facts) == [code]


def test_an_empty_group_becomes_one_of_the_other_kind_when_a_member_of_that_protocol_comes():
    world = ClassicWorld()
    player = seated(world, Player("a"))
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=9_000,
        subscribed_topic_names=("foo",),
        topic_partitions=(),
    )
    world.send(player.leaving(), 5)
    written = len(world.log)
    assert world.send(beat, 1).error_code == Code.NONE
    assert world.log[written] == records.classic_group("g", None)
    assert [group.type_name for group in world.shard.ledger.groups.values()] == ["consumer"]
    world.crash()
    world.beat("m", -1)
    written = len(world.log)
    player.member_id, player.generation = "", -1
    seated(world, player)
    assert [record.key.__key__ for record in world.log[written:]] == [6, 3, 2, 2]
    world.crash()
    assert (world.group.state_name(), world.group.live.generation) == ("Stable", 1)


def test_a_refused_join_leaves_an_empty_consumer_group_as_it_is():
    world, player = ClassicWorld(), Player("a")
    world.join("m")
    world.beat("m", -1)
    written = len(world.log)
    for player.member_id, player.protocols in (("", ()), ("x", (("range", b""),))):
        assert ask(world, player, player.joining()).error_code
    assert (len(world.log), world.group) == (written, None)


def test_members_that_allow_no_time_do_not_keep_the_coordinator_busy_while_they_are_away():
    world, a, b = ClassicWorld(), Player("a"), Player("b")
    a.instance_id, a.rebalance_ms, b.rebalance_ms = "i", 10, 10
    seated(world, a)
    ask(world, b, b.joining())
    world.ask(b.joining(), 9)
    world.advance(11)  # "a" was too late for this generation
    assert world.group.live.generation == 2
    world.ask(LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=b.member_id),)), 5)
    world.advance(20)
    assert world.group.state_name() == "PreparingRebalance"
    assert world.shard.wake_at() - world.mono_ms > 900


def test_a_group_too_large_for_a_record_is_not_saved_and_joins_again():
    world, player = ClassicWorld(), Player("a")
    ask(world, player, player.joining())
    world.ask(player.joining(), 9)
    world.advance(0)
    player.hear_join(world.heard.pop()[1])
    written = len(world.log)
    answer = ask(world, player, player.syncing([(player.member_id, bytes(1 << 26))]), 5)
    assert (answer, len(world.log)) == (
        SyncGroupResponse(error_code=int(Code.UNKNOWN_SERVER_ERROR)),
        written,
    )
    assert (world.group.state_name(), world.group.live.members[player.member_id].assignment) == (
        "PreparingRebalance",
        b"",
    )
