"""A shard with a group of either kind, and clients of both protocols that do as their protocol
says: what one uses is in `owned`.
"""

from typing import TYPE_CHECKING, Any

from apportion.assign.by_name import Subscription, TopicShape, by_topic
from apportion.errors import Code
from apportion.member.assignors.builtin import CooperativeSticky
from apportion.member.assignors.interface import from_named_parts, to_named_parts
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupResponse
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.coord.classic_shard_driver import ScriptedClient
from tests.coord.consumer_client import Client
from tests.coord.shard_driver import ShardDriver

if TYPE_CHECKING:
    from apportion.machine import Ticket

SESSION_MS = 10_000
REFUSED = (
    Code.UNKNOWN_MEMBER_ID,
    Code.FENCED_INSTANCE_ID,
    Code.GROUP_MAX_SIZE_REACHED,
    Code.INCONSISTENT_GROUP_PROTOCOL,
)


class MixedShardDriver(ShardDriver):
    """A shard whose group "g" is of the one kind or the other."""

    def group(self) -> Any:
        return self.shard.ledger.groups.get("g")


class ConsumerClient(Client):
    """A member of the consumer protocol; `owned` is (topic, partition)."""

    is_classic = False

    @property
    def owned(self) -> set[tuple[str, int]]:
        names = {topic.id: topic.name for topic in self.driver.shard.topics}
        return {(names[some], index) for some, index in self.held}


class ClassicClient(ScriptedClient):
    """A classic member, eager (it gives up everything before it joins) or cooperative (it goes on
    with what it keeps).

    `act` does the next thing that its protocol asks for: join, sync or a heartbeat; nothing while
    it waits for an answer.
    """

    is_classic = True

    def __init__(
        self,
        driver: MixedShardDriver,
        name: str,
        topic_names: tuple[str, ...],
        instance_id: str | None = None,
        is_eager: bool = False,
        is_old: bool = False,
    ) -> None:
        super().__init__(name)
        self.driver = driver
        self.topic_names = topic_names
        self.instance_id = instance_id
        self.is_eager = is_eager
        self.subscription_version = 0 if is_old else 3
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
                self.sent_topics, self.protocols = self.topic_names, self.said()
                ticket = self.driver.ask(self.joining(), self.version, self.caller)
                self.waits = ("join", ticket)
            elif self.next == "sync":
                ticket = self.driver.ask(self.syncing([*self.made.items()]), 5, self.caller)
                self.waits = ("sync", ticket)
            else:
                answer = self.driver.send(self.beating(), 4, self.caller)
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

    def said(self) -> tuple[tuple[str, bytes], ...]:
        """Its subscription, by protocol."""
        value = ConsumerProtocolSubscription(
            topics=self.topic_names,
            owned_partitions=to_named_parts(by_topic(self.owned)),
            generation_id=self.generation,
        )
        metadata = consumer_serde.encode(value, self.subscription_version)
        names = ("cooperative-sticky", "range") if self.is_eager else ("cooperative-sticky",)
        return tuple((name, metadata) for name in names)

    def apply_join(self, answer: JoinGroupResponse) -> None:
        super().apply_join(answer)
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
            _, decoded = consumer_serde.decode(ConsumerProtocolAssignment, given)
            assigned = {
                (part.topic, index)
                for part in decoded.assigned_partitions
                for index in part.partitions
            }
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
            self.driver.send(self.leaving(), 5, self.caller)
        self.lose()
