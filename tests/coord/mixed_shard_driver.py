"""A shard with a group of either kind, and clients of both protocols that do as their protocol
says: what one uses is in `owned`.
"""

from typing import Any

from apportion.assign.by_name import Subscription, TopicShape
from apportion.errors import Code
from apportion.machine import Caller, Ticket
from apportion.member.assignors.builtin import CooperativeSticky
from apportion.member.assignors.interface import from_named_parts, to_named_parts
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from tests.coord.shard_driver import ShardDriver, topic_id

SESSION_MS, REBALANCE_MS = 10_000, 20_000
REFUSED = (
    Code.UNKNOWN_MEMBER_ID,
    Code.FENCED_INSTANCE_ID,
    Code.GROUP_MAX_SIZE_REACHED,
    Code.INCONSISTENT_GROUP_PROTOCOL,
)
LOST = (
    Code.UNKNOWN_MEMBER_ID,
    Code.FENCED_INSTANCE_ID,
    Code.FENCED_MEMBER_EPOCH,
    Code.GROUP_ID_NOT_FOUND,
)


class MixedShardDriver(ShardDriver):
    """A shard whose group "g" is of the one kind or the other."""

    def group(self) -> Any:
        return self.shard.ledger.groups.get("g")


def parts_of(partitions: set[tuple[str, int]]) -> tuple[ConsumerProtocolTopicPartition, ...]:
    """(topic, partition) as classic members write them."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return tuple(
        ConsumerProtocolTopicPartition(topic=topic, partitions=tuple(indexes))
        for topic, indexes in topics.items()
    )


def places_of(named: tuple[ConsumerProtocolTopicPartition, ...]) -> set[tuple[str, int]]:
    return {(part.topic, index) for part in named for index in part.partitions}


class ConsumerClient:
    """A member of the consumer protocol: it gives up at once what it is told to, and says so in its
    next heartbeat.
    """

    is_classic = False

    def __init__(
        self,
        driver: MixedShardDriver,
        name: str,
        topic_names: tuple[str, ...],
        instance_id: str | None = None,
    ) -> None:
        self.driver = driver
        self.name = self.member_id = name
        self.topic_names, self.expression = topic_names, ""
        self.instance_id = instance_id
        self.lose()

    def lose(self) -> None:
        """It has lost its membership, and uses nothing."""
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.is_news = True

    def act(self, is_lost: bool = False) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat."""
        facts: dict[str, Any] = {}
        if self.is_news:
            parts = (
                TopicPartitions(topic_id=topic_id(topic), partitions=(index,))
                for topic, index in sorted(self.owned)
            )
            facts = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": self.topic_names,
                "subscribed_topic_regex": self.expression,
                "topic_partitions": tuple(parts),
            }
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            **facts,
        )
        answer = self.driver.send(request, 1, Caller(self.name, "/h"))
        if is_lost:
            self.is_news = True
        else:
            self.hear(answer)
        result: ConsumerGroupHeartbeatResponse = answer
        return result

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code in (*LOST, Code.GROUP_MAX_SIZE_REACHED):
            self.lose()
            return
        assert answer.error_code in (Code.NONE, Code.UNRELEASED_INSTANCE_ID), answer
        self.is_news = bool(answer.error_code)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                names = {topic.id: topic.name for topic in self.driver.shard.topics}
                parts = answer.assignment.topic_partitions
                self.owned = {
                    (names[part.topic_id], index) for part in parts for index in part.partitions
                }
                self.is_news = True

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """It goes; with -2 for a while."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        answer = self.driver.send(request, 1, Caller(self.name, "/h"))
        self.lose()
        result: ConsumerGroupHeartbeatResponse = answer
        return result


class ClassicClient:
    """A classic member, eager (it gives up everything before it joins) or cooperative (it goes on
    with what it keeps).

    `act` does the next thing that its protocol asks for: join, sync or a heartbeat; nothing while
    it waits for an answer.
    """

    is_classic = True
    version = 9

    def __init__(
        self,
        driver: MixedShardDriver,
        name: str,
        topic_names: tuple[str, ...],
        instance_id: str | None = None,
        is_eager: bool = False,
        is_old: bool = False,
    ) -> None:
        self.driver = driver
        self.name = name
        self.topic_names = topic_names
        self.instance_id = instance_id
        self.is_eager = is_eager
        self.subscription_version = 0 if is_old else 3
        self.member_id = ""
        self.waits: tuple[str, Ticket] | None = None  # ("join" or "sync", ticket)
        self.lose()

    def lose(self) -> None:
        """It is not in its generation any more, and uses nothing; it joins again under its id."""
        self.drop_call()
        self.generation = -1
        self.owned: set[tuple[str, int]] = set()
        self.next = "join"

    def drop_call(self) -> None:
        """Its connection breaks: it waits for nothing."""
        if self.waits is not None and self.driver.taken_or_none(self.waits[1]) is None:
            self.driver.hang_up(self.waits[1])
        self.waits = None

    def act(self, is_lost: bool = False) -> None:
        """What it waits for, if that has come, then its next request, unless it waits; is_lost: the
        answer does not arrive.
        """
        self.listen()
        if self.waits is None:
            if self.next == "beat" and self.leads and self.cluster() != self.seen:
                self.next = "join"
            if self.next == "join":
                if self.is_eager:
                    self.owned = set()
                self.waits = (
                    "join",
                    self.driver.ask(self.join_request(), self.version, self.caller),
                )
            elif self.next == "sync":
                self.waits = ("sync", self.driver.ask(self.sync_request(), 5, self.caller))
            else:
                beat = HeartbeatRequest(
                    group_id="g",
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                )
                answer = self.driver.send(beat, 4, self.caller)
                if not is_lost:
                    self.apply_code(answer.error_code)
                return
        if is_lost:
            self.drop_call()
        self.listen()

    def listen(self) -> None:
        """It hears what it waits for, if that has come."""
        if self.waits is None:
            return
        kind, ticket = self.waits
        answer = self.driver.taken_or_none(ticket)
        if answer is not None:
            self.waits = None
            if answer.error_code:
                if kind == "join" and answer.error_code == Code.MEMBER_ID_REQUIRED:
                    self.member_id = answer.member_id
                else:
                    self.apply_code(answer.error_code)
            elif kind == "join":
                self.apply_join(answer)
            else:
                self.apply_sync(answer)

    @property
    def caller(self) -> Caller:
        return Caller(self.name, "/h")

    def protocols(self) -> tuple[JoinGroupRequestProtocol, ...]:
        value = ConsumerProtocolSubscription(
            topics=self.topic_names,
            owned_partitions=parts_of(self.owned),
            generation_id=self.generation,
        )
        metadata = consumer_serde.encode(value, self.subscription_version)
        names = ("cooperative-sticky", "range") if self.is_eager else ("cooperative-sticky",)
        return tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names)

    def join_request(self) -> JoinGroupRequest:
        self.sent_topics = self.topic_names
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=self.protocols(),
        )

    def sync_request(self) -> SyncGroupRequest:
        given = tuple(
            SyncGroupRequestAssignment(member_id=who, assignment=blob)
            for who, blob in self.made.items()
        )
        return SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=given,
        )

    def apply_join(self, answer: JoinGroupResponse) -> None:
        self.member_id, self.generation, self.protocol = (
            answer.member_id,
            answer.generation_id,
            answer.protocol_name,
        )
        self.leads, self.seen = answer.leader == answer.member_id, self.cluster()
        self.made = self.assign(answer.members) if self.leads and not answer.skip_assignment else {}
        self.next = "sync"

    def cluster(self) -> dict[str, TopicShape]:
        """The topics as a leader sees them."""
        return {topic.name: TopicShape(topic.partitions) for topic in self.driver.shard.topics}

    def assign(self, members: tuple[JoinGroupResponseMember, ...]) -> dict[str, bytes]:
        """The assignment that this leader makes, as bytes by member."""
        decoded = {
            each.member_id: consumer_serde.decode(ConsumerProtocolSubscription, each.metadata)[1]
            for each in members
        }
        subscriptions = {
            who: Subscription(
                topics=value.topics,
                user_data=None,
                owned=from_named_parts(value.owned_partitions),
                generation=value.generation_id,
            )
            for who, value in decoded.items()
        }
        given = CooperativeSticky().assign(self.cluster(), subscriptions)
        return {
            who: consumer_serde.encode(
                ConsumerProtocolAssignment(assigned_partitions=to_named_parts(each.partitions))
            )
            for who, each in given.items()
        }

    def apply_sync(self, answer: SyncGroupResponse) -> None:
        given = b"" if not answer.assignment else answer.assignment
        assigned = set()
        if given:
            assigned = places_of(
                consumer_serde.decode(ConsumerProtocolAssignment, given)[1].assigned_partitions
            )
        revoked = self.owned - assigned
        self.owned = assigned
        self.next = (
            "join"
            if (revoked and not self.is_eager) or self.sent_topics != self.topic_names
            else "beat"
        )

    def apply_code(self, code: int) -> None:
        if code == Code.REBALANCE_IN_PROGRESS:
            self.next = "join"
        elif code == Code.ILLEGAL_GENERATION:
            self.lose()
        elif code in REFUSED:
            self.lose()
            self.member_id = ""
        else:
            assert code == Code.NONE, Code(code).name

    def leave(self) -> None:
        """It goes for good, by its id; nobody hears of a static member that goes."""
        self.drop_call()
        if self.instance_id is None and self.member_id:
            request = LeaveGroupRequest(
                group_id="g", members=(MemberIdentity(member_id=self.member_id),)
            )
            self.driver.send(request, 5, self.caller)
        self.lose()
