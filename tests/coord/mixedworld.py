"""A shard whose requests may wait, and clients of both protocols that do as their protocol says:
what one uses is in `owned`.
"""

from coordworld import HERE, World, topic_id, topics

from apportion.coord.config import GroupSettings
from apportion.errors import Code
from apportion.machine import Arrived, Caller, Gone, Reply, Ticket
from apportion.member.assignors.builtin import CooperativeSticky, Subscription, TopicShape
from apportion.member.assignors.interface import from_wire, to_wire
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)

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


class MixedWorld(World):
    """A world in which a request may be parked: `ask` gives its ticket, `answers` what came, for
    whoever still waits.
    """

    def __init__(self, settings=None, known=None):
        self.answers = {}
        self.asked = 0
        super().__init__(settings, known)

    def perform(self, actions):
        self.answers |= {
            action.ticket: action.body for action in actions if isinstance(action, Reply)
        }
        return super().perform(actions)

    def ask(self, request, version, caller=HERE):
        """The ticket of a request; its answer may be there already."""
        self.asked += 1
        ticket = Ticket(self.asked)
        arrived = Arrived(ticket, request, version, caller, self.asked.to_bytes(16, "big"))
        self.perform(self.shard.step(arrived, self.now))
        return ticket

    def send(self, request, version=1, caller=HERE):
        return self.answers.pop(self.ask(request, version, caller))

    def forget(self, ticket):
        """Nobody waits for that answer any more."""
        if self.answers.pop(ticket, None) is None:
            self.perform(self.shard.step(Gone((ticket,)), self.now))

    def crash(self):
        """The shard is rebuilt from its log, and nobody hears of what was asked."""
        self.answers = {}
        super().crash()

    def group(self):
        return self.shard.ledger.groups.get("g")


def parts_of(places):
    """(topic, partition) as classic members write them."""
    topics = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    return tuple(
        ConsumerProtocolTopicPartition(topic=topic, partitions=tuple(indexes))
        for topic, indexes in topics.items()
    )


def places_of(named):
    return {(part.topic, index) for part in named for index in part.partitions}


class ConsumerClient:
    """A member of the consumer protocol: it gives up at once what it is told to, and says so in its
    next heartbeat.
    """

    is_classic = False

    def __init__(self, world, name, wishes, instance_id=None):
        self.world = world
        self.name = self.member_id = name
        self.wishes = wishes
        self.instance_id = instance_id
        self.lose()

    def lose(self):
        """It is no member any more, and uses nothing."""
        self.epoch, self.owned, self.is_news = 0, set(), True

    def act(self, is_lost=False):
        """One heartbeat."""
        facts = {}
        if self.is_news:
            parts = (
                TopicPartitions(topic_id=topic_id(topic), partitions=(index,))
                for topic, index in sorted(self.owned)
            )
            facts = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": self.wishes,
                "topic_partitions": tuple(parts),
            }
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            **facts,
        )
        answer = self.world.send(request, 1, Caller(self.name, "/h"))
        if is_lost:
            self.is_news = True
        else:
            self.hear(answer)
        return answer

    def hear(self, answer):
        if answer.error_code in (*LOST, Code.GROUP_MAX_SIZE_REACHED):
            self.lose()
            return
        assert answer.error_code in (Code.NONE, Code.UNRELEASED_INSTANCE_ID), answer
        self.is_news = bool(answer.error_code)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                names = {topic.id: topic.name for topic in self.world.shard.topics}
                parts = answer.assignment.topic_partitions
                self.owned = {
                    (names[part.topic_id], index) for part in parts for index in part.partitions
                }
                self.is_news = True

    def leave(self, epoch=-1):
        """It goes; with -2 for a while."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        answer = self.world.send(request, 1, Caller(self.name, "/h"))
        self.lose()
        return answer


class ClassicClient:
    """A classic member, eager (it gives up everything before it joins) or cooperative (it goes on
    with what it keeps).

    `act` does the next thing that its protocol asks for: join, sync or a heartbeat; nothing while
    it waits for an answer.
    """

    is_classic = True
    version = 9

    def __init__(self, world, name, wishes, instance_id=None, is_eager=False, is_old=False):
        self.world = world
        self.name = name
        self.wishes = wishes
        self.instance_id = instance_id
        self.is_eager = is_eager
        self.subscription_version = 0 if is_old else 3
        self.member_id = ""
        self.waits = None  # ("join" or "sync", ticket)
        self.lose()

    def lose(self):
        """It is not in its generation any more, and uses nothing; it joins again under its id."""
        self.drop_call()
        self.generation, self.owned, self.next = -1, set(), "join"

    def drop_call(self):
        """Its connection breaks: it waits for nothing."""
        if self.waits is not None:
            self.world.forget(self.waits[1])
        self.waits = None

    def act(self, is_lost=False):
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
                    self.world.ask(self.join_request(), self.version, self.caller),
                )
            elif self.next == "sync":
                self.waits = ("sync", self.world.ask(self.sync_request(), 5, self.caller))
            else:
                beat = HeartbeatRequest(
                    group_id="g",
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                )
                answer = self.world.send(beat, 4, self.caller)
                if not is_lost:
                    self.hear_code(answer.error_code)
                return
        if is_lost:
            self.drop_call()
        self.listen()

    def listen(self):
        """It hears what it waits for, if that has come."""
        if self.waits is not None and self.waits[1] in self.world.answers:
            (kind, ticket), self.waits = self.waits, None
            answer = self.world.answers.pop(ticket)
            if answer.error_code:
                if kind == "join" and answer.error_code == Code.MEMBER_ID_REQUIRED:
                    self.member_id = answer.member_id
                else:
                    self.hear_code(answer.error_code)
            elif kind == "join":
                self.hear_join(answer)
            else:
                self.hear_sync(answer)

    @property
    def caller(self):
        return Caller(self.name, "/h")

    def protocols(self):
        value = ConsumerProtocolSubscription(
            topics=self.wishes,
            owned_partitions=parts_of(self.owned),
            generation_id=self.generation,
        )
        metadata = consumer_serde.encode(value, self.subscription_version)
        names = ("cooperative-sticky", "range") if self.is_eager else ("cooperative-sticky",)
        return tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names)

    def join_request(self):
        self.said = self.wishes
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=self.protocols(),
        )

    def sync_request(self):
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

    def hear_join(self, answer):
        self.member_id, self.generation, self.protocol = (
            answer.member_id,
            answer.generation_id,
            answer.protocol_name,
        )
        self.leads, self.seen = answer.leader == answer.member_id, self.cluster()
        self.made = self.assign(answer.members) if self.leads and not answer.skip_assignment else {}
        self.next = "sync"

    def cluster(self):
        """The topics as a leader sees them."""
        return {topic.name: TopicShape(topic.partitions) for topic in self.world.shard.topics}

    def assign(self, members):
        """The assignment that this leader makes, as bytes by member."""
        said = {
            each.member_id: consumer_serde.decode(ConsumerProtocolSubscription, each.metadata)[1]
            for each in members
        }
        subscriptions = {
            who: Subscription(
                topics=value.topics,
                user_data=None,
                owned=from_wire(value.owned_partitions),
                generation=value.generation_id,
            )
            for who, value in said.items()
        }
        given = CooperativeSticky().assign(self.cluster(), subscriptions)
        return {
            who: consumer_serde.encode(
                ConsumerProtocolAssignment(assigned_partitions=to_wire(each.partitions))
            )
            for who, each in given.items()
        }

    def hear_sync(self, answer):
        given = b"" if not answer.assignment else answer.assignment
        told = set()
        if given:
            told = places_of(
                consumer_serde.decode(ConsumerProtocolAssignment, given)[1].assigned_partitions
            )
        revoked = self.owned - told
        self.owned = told
        self.next = (
            "join" if (revoked and not self.is_eager) or self.said != self.wishes else "beat"
        )

    def hear_code(self, code):
        if code == Code.REBALANCE_IN_PROGRESS:
            self.next = "join"
        elif code == Code.ILLEGAL_GENERATION:
            self.lose()
        elif code in REFUSED:
            self.lose()
            self.member_id = ""
        else:
            assert code == Code.NONE, Code(code).name

    def leave(self):
        """It goes for good, by its id; nobody hears of a static member that goes."""
        self.drop_call()
        if self.instance_id is None and self.member_id:
            request = LeaveGroupRequest(
                group_id="g", members=(MemberIdentity(member_id=self.member_id),)
            )
            self.world.send(request, 5, self.caller)
        self.lose()


def make_world(**settings):
    """A shard with these settings and a topic foo of four partitions."""
    settings = {"group_min_session_timeout_ms": 1_000} | settings
    return MixedWorld(GroupSettings(**settings), topics(foo=4))


def classic(world, name, **facts):
    """A classic client that wants foo."""
    return ClassicClient(world, name, ("foo",), **facts)


def consumer(world, name, **facts):
    """A client of the consumer protocol that wants foo."""
    return ConsumerClient(world, name, ("foo",), **facts)


def settle(*clients):
    """Everybody does what its protocol asks for until nothing changes any more."""
    for _ in range(10):
        for client in clients:
            client.act()
        hands(*clients)
        clients[0].world.advance(1)


def hands(*clients):
    """{client: partitions of foo that it uses}; no partition is in two hands."""
    used = {client.name: sorted(index for _, index in client.owned) for client in clients}
    flat = [index for some in used.values() for index in some]
    assert len(flat) == len(set(flat)), used
    return used
