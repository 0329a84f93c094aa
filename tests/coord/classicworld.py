"""A shard whose requests may be parked, and classic members under the names that a story gives
them.
"""

from coordworld import World

from apportion.errors import Code
from apportion.machine import Arrived, Caller, Gone, Reply, Ticket
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription


class ClassicWorld(World):
    """A world that keeps the tickets: `heard` is every (ticket, answer) since it was last
    emptied.
    """

    def __init__(self, settings=None, known=None):
        self.heard = []
        self.asked = 0
        super().__init__(settings, known)

    def perform(self, actions):
        self.heard += [
            (action.ticket, action.body) for action in actions if isinstance(action, Reply)
        ]
        return super().perform(actions)

    def ask(self, request, version, name="client"):
        """The ticket of a request; its answer may be in `heard` already."""
        self.asked += 1
        arrived = Arrived(
            Ticket(self.asked),
            request,
            version,
            Caller(name, "/127.0.0.1"),
            bytes(6) + self.asked.to_bytes(10, "big"),
        )
        self.perform(self.shard.step(arrived, self.now))
        return arrived.ticket

    def send(self, request, version=9, caller=None):
        """The answer to a request that is not parked."""
        self.heard.clear()
        self.ask(request, version)
        ((_, body),) = self.heard
        return body

    def hang_up(self, *tickets):
        """The connections behind these tickets are closed."""
        self.perform(self.shard.step(Gone(tickets), self.now))

    @property
    def group(self):
        return self.shard.ledger.classic_group_or_none("g")


class Player:
    """One client: what it is, and the id and generation that it knows."""

    def __init__(self, name):
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.instance_id = None
        self.version = 9
        self.protocols = (("range", b"range"),)
        self.protocol_type = "consumer"
        self.protocol = "range"  # the one that was chosen
        self.session_ms = 10_000
        self.rebalance_ms = 20_000
        self.tickets = []

    def joining(self, group_id="g"):
        protocols = tuple(
            JoinGroupRequestProtocol(name=name, metadata=said) for name, said in self.protocols
        )
        return JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=protocols,
        )

    def syncing(self, assignments=()):
        given = tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=said)
            for member_id, said in assignments
        )
        return SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            assignments=given,
        )

    def beating(self):
        return HeartbeatRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def leaving(self):
        return LeaveGroupRequest(
            group_id="g",
            members=(MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id),),
        )

    def hear_join(self, answer):
        """The player knows what a JoinGroupResponse says."""
        if answer.error_code in (Code.NONE, Code.MEMBER_ID_REQUIRED):
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name or self.protocol


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
