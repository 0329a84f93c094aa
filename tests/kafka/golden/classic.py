"""Classic groups in every version: a group of three comes and goes, with what is wrong on the way,
and changes its kind.

Joins and syncs wait for others, so each member has a connection of its own; it sends, and its
answer is taken up later.
"""

import socket
import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from apportion.wire.codec import read, write
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode

if TYPE_CHECKING:
    from tests.kafka.golden.proxy import exactly
else:  # a script: its own directory is on the path
    from proxy import exactly

KEYS = (11, 12, 13, 14, 15)
PARTITIONS = 50
SESSION_MS, REBALANCE_MS = 20_000, 30_000
NAME = "birds"
CHANGES = "changes-its-kind"
"""The group that changes its kind: a word for an assignor would forbid that."""
RANGE, STICKY = "range", "cooperative-sticky"


def subscription(version: int, *owned: int) -> bytes:
    """What a member wants, and what it owned."""
    partitions = (
        (ConsumerProtocolTopicPartition(topic=NAME, partitions=owned),) if owned and version else ()
    )
    value = ConsumerProtocolSubscription(
        topics=(NAME,), user_data=None, owned_partitions=partitions, generation_id=3, rack_id="r"
    )
    return encode(value, version)


def protocols(version: int) -> tuple[JoinGroupRequestProtocol, ...]:
    """Two protocols; the blob's version goes with the version of the request."""
    return tuple(
        JoinGroupRequestProtocol(name=name, metadata=subscription(min(version, 3), 0))
        for name in (RANGE, STICKY)
    )


class Peer:
    """One member on its own connection."""

    def __init__(
        self, bootstrap: str, group: str, version: int, instance: str | None = None
    ) -> None:
        host, port = bootstrap.split(":")
        self.connection = socket.create_connection((host, int(port)), timeout=30)
        self.group, self.version, self.instance = group, version, instance
        self.member_id, self.generation, self.leader = "", -1, ""
        self.members: tuple[str, ...] = ()
        self.asked: list[tuple[type, int]] = []

    def send(self, request: Any, version: int) -> None:
        """The request is on its way."""
        header = struct.pack(">hhih", request.__key__, version, 7, 7) + b"classic"
        frame = (
            header + (b"\0" if version >= request.__flexible__ else b"") + write(request, version)
        )
        self.connection.sendall(struct.pack(">i", len(frame)) + frame)
        self.asked.append((type(request), version))

    def take(self) -> bytes:
        """The frame that answers the request sent first."""
        self.asked.pop(0)
        return exactly(self.connection, struct.unpack(">i", exactly(self.connection, 4))[0])

    def ask(self, request: Any, version: int) -> bytes:
        """The frame that answers this request."""
        self.send(request, version)
        return self.take()

    def join(self, **said: Any) -> None:
        """A JoinGroup is on its way."""
        facts: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.member_id,
            "group_instance_id": self.instance if self.version >= 5 else None,
            "protocol_type": "consumer",
            "protocols": protocols(self.version),
            "reason": "for the record" if self.version >= 8 else None,
        }
        self.send(JoinGroupRequest(**facts | said), self.version)

    def joined(self) -> JoinGroupResponse:
        """The answer to the JoinGroup; what it says is believed."""
        answer, _ = read(
            JoinGroupResponse, self.version, self.take(), 5 if self.version >= 6 else 4
        )
        if answer.error_code in (0, 79):
            self.member_id, self.generation, self.leader = (
                answer.member_id,
                answer.generation_id,
                answer.leader,
            )
            self.members = tuple(each.member_id for each in answer.members)
        return answer

    def join_at_once(self) -> JoinGroupResponse:
        """As `join` and `joined`, in two steps where the version wants them."""
        self.join()
        answer = self.joined()
        if answer.error_code == 79:
            self.join()
            answer = self.joined()
        return answer

    def sync(self, **said: Any) -> None:
        """A SyncGroup is on its way; the leader's says who gets which partition."""
        version = min(self.version, 5)
        facts: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
        }
        facts |= {"group_instance_id": self.instance if version >= 3 else None}
        facts |= {"protocol_type": "consumer", "protocol_name": RANGE} if version >= 5 else {}
        word = None if self.group == CHANGES else b"word"
        if self.leader == self.member_id:
            facts["assignments"] = tuple(
                SyncGroupRequestAssignment(
                    member_id=member, assignment=assignment(index, min(version, 3), word)
                )
                for index, member in enumerate(self.members)
            )
        self.send(SyncGroupRequest(**facts | said), version)

    def beat(self, **said: Any) -> None:
        """One Heartbeat was answered."""
        version = min(self.version, 4)
        facts: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
        }
        facts |= {"group_instance_id": self.instance if version >= 3 else None}
        self.ask(HeartbeatRequest(**facts | said), version)

    def leave(self, *others: MemberIdentity) -> None:
        """The member has left, and from version 3 on these others."""
        version = min(self.version, 5)
        me = MemberIdentity(
            member_id=self.member_id,
            group_instance_id=self.instance,
            reason="done" if version >= 5 else None,
        )
        fields = {"members": (me, *others)} if version >= 3 else {"member_id": self.member_id}
        self.ask(LeaveGroupRequest(group_id=self.group, **fields), version)

    def describe(self, *groups: str) -> None:
        """These groups were described."""
        version = min(self.version, 6)
        self.ask(
            DescribeGroupsRequest(groups=groups, include_authorized_operations=version >= 3),
            version,
        )

    def count_members(self) -> int:
        """How many members the broker knows."""
        frame = self.ask(DescribeGroupsRequest(groups=(self.group,)), 6)
        return len(read(DescribeGroupsResponse, 6, frame, 5)[0].groups[0].members)


def assignment(partition: int, version: int, word: bytes | None) -> bytes:
    """What the leader gives a member, and perhaps a word for its assignor."""
    partitions = (ConsumerProtocolTopicPartition(topic=NAME, partitions=(partition,)),)
    return encode(
        ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=word), version
    )


def prepare(bootstrap: str) -> None:
    """The topic is there, and every group of any name has a coordinator that has read its log."""
    peer, number = Peer(bootstrap, "any", 0), 0
    topic = CreatableTopic(name=NAME, num_partitions=3, replication_factor=1)
    peer.ask(CreateTopicsRequest(topics=(topic,)), 2)
    peer.ask(FindCoordinatorRequest(key="any"), 0)  # makes the topic of offsets where there is none
    while number < PARTITIONS * 8:  # so many groups meet every partition
        frame = peer.ask(
            HeartbeatRequest(group_id=f"any {number}", generation_id=1, member_id="nobody"), 0
        )
        if int.from_bytes(frame[4:], "big") in (14, 15, 16):
            time.sleep(0.1)
        else:
            number += 1


def classic(bootstrap: str) -> Iterator[str]:
    """Everything below has happened; yields what the broker would not answer."""
    for version in JoinGroupRequest.__versions__:  # type: ignore[attr-defined]
        for scenario in (come_and_go, go_wrong, come_back):
            try:
                scenario(bootstrap, version)
            except (EOFError, OSError) as error:
                yield f"{scenario.__name__} v{version}: {error!r}"
    change_kind(bootstrap)


def come_and_go(bootstrap: str, version: int) -> None:
    """A group of three, one of them static where the version knows it: it joins, syncs, beats, is
    described and left.
    """
    group = f"classic-{version}"
    first, second = Peer(bootstrap, group, version), Peer(bootstrap, group, version)
    third = Peer(bootstrap, group, version, "static" if version >= 5 else None)
    peers = [first, second, third]
    first.join_at_once()
    first.describe(group)  # waits for its leader's sync
    first.sync()
    first.take()
    for peer in (second, third):
        peer.join()
        if version >= 4 and peer.instance is None:
            peer.joined()
            peer.join()
    while first.count_members() < len(peers):  # the broker has yet to hear of them
        pass
    first.beat()  # is told to join again
    first.join()
    for peer in peers:
        peer.joined()
    for peer in peers:
        peer.sync()
    for peer in peers:
        peer.take()
        peer.beat()
    first.describe(group, "nobody")
    third.leave(MemberIdentity(member_id="ghost", group_instance_id=None, reason=None))
    for peer in (first, second):
        peer.leave()
    first.describe(group)


def go_wrong(bootstrap: str, version: int) -> None:
    """Every refusal that one member alone can earn."""
    group = f"wrong-{version}"
    peer = Peer(bootstrap, group, version, "i" if version >= 5 else None)
    for fields in (
        {"group_id": ""},
        {"session_timeout_ms": 1},
        {"member_id": "ghost"},
        {"protocols": ()},
        {"protocol_type": ""},
    ):
        peer.join(**fields)
        peer.joined()
    peer.join_at_once()
    peer.join(protocol_type="other")
    peer.joined()
    peer.sync(generation_id=77)
    peer.take()
    peer.sync(member_id="ghost")
    peer.take()
    if version >= 5:
        peer.sync(protocol_name="other")
        peer.take()
        for fields in (
            {"member_id": "ghost"},
            {"member_id": "ghost", "group_instance_id": "nobody"},
        ):
            peer.join(**fields)
            peer.joined()
            peer.beat(**fields)
    for fields in (
        {"generation_id": 77},
        {"member_id": "ghost"},
        {"group_id": "nobody"},
        {"group_id": ""},
    ):
        peer.beat(**fields)
    peer.describe("", "nobody")
    peer.leave()
    peer.member_id = "ghost"
    peer.leave()


def come_back(bootstrap: str, version: int) -> None:
    """A static leader has been replaced by itself: from version 9 on it is told to assign nothing
    (KIP-814).
    """
    if version < 5:
        return
    group = f"back-{version}"
    leader = Peer(bootstrap, group, version, "leader")
    leader.join_at_once()
    leader.sync()
    leader.take()
    new = Peer(bootstrap, group, version, "leader")
    new.join(reason="back again" if version >= 8 else None)
    assert new.joined().skip_assignment == (version >= 9)
    new.sync(assignments=())
    new.take()
    leader.beat()  # is fenced
    new.leave()


def change_kind(bootstrap: str) -> None:
    """A classic group has become a consumer group and a classic one again: what stands in the log
    says so.
    """
    group = CHANGES
    one, two = Peer(bootstrap, group, 9), Peer(bootstrap, group, 9, "static")
    one.join_at_once()
    one.sync()
    one.take()
    two.join()
    while one.count_members() < 2:  # the broker has yet to hear of it
        pass
    one.join()
    for peer in (one, two):
        peer.joined()
        peer.sync()
    for peer in (one, two):
        peer.take()
    new = Peer(bootstrap, group, 9)
    fields: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": (NAME,),
        "topic_partitions": (),
    }
    beat = ConsumerGroupHeartbeatRequest(group_id=group, member_id="new", member_epoch=0, **fields)
    assert b"new" in new.ask(beat, 1)
    for peer in (one, two):
        peer.beat()
        peer.join()
        peer.joined()
        peer.sync(assignments=(), protocol_name=None)
        peer.take()
    one.describe(group)
    new.ask(ConsumerGroupHeartbeatRequest(group_id=group, member_id="new", member_epoch=-1), 1)
    for peer in (one, two):
        peer.beat()
    two.leave(MemberIdentity(member_id=one.member_id, group_instance_id=None, reason=None))
