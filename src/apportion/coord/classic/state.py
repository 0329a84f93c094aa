"""What a classic group is: `saved`, the last generation that the log knows, and `live`, everything that its members do now.

A group goes round in the circle of `NEXT`: somebody comes, leaves or changes its mind (Preparing), everybody has joined and the
leader works (Completing), the leader has brought the assignment (Stable). A generation that nobody brought an assignment for is
never saved, as in Kafka: after a crash the group stands where its last assignment left it. Counters beside the members answer the
questions of one join without looking at the other members.

So after a crash members may speak of generations that are gone. Nobody was given anything in those: a member of the saved
generation holds what that gave it, and is told to join again. Kafka, once it has loaded its groups, tells it ILLEGAL_GENERATION,
at which clients give up what they hold without a commit. They seldom hear that there, because a broker that has just started is not
yet their coordinator (NOT_COORDINATOR), and so they join by themselves; this broker coordinates as soon as it listens.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from apportion.coord import records
from apportion.coord.classic.election import select_protocol
from apportion.coord.group import CONSUMER_PROTOCOL_TYPE, CommitClaim, FetchClaim
from apportion.errors import Code, DecodeError, Refused
from apportion.machine import Caller, Ticket
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import decode
from apportion.wire.records.groups import GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.coord.records import CoordinatorRecord
    from apportion.deadlines import Key

SESSION = "classic session"
"""The kind of deadline at which a member that was silent is gone, and an id that was only handed out is void."""

NOT_DECODED: dict[str, None] = {}
"""Stands for the topics of a generation until somebody asks for them."""

Protocols: TypeAlias = "tuple[tuple[str, bytes], ...]"
"""What a member can speak, best first: names, and what it says in each."""


class ClassicGroupState(Enum):
    """Where a group stands, by the names that Kafka's tools show. No group is DEAD: that is said of one that is not there."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


NEXT = {  # state -> the states that a group may go to from there
    ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.PREPARING_REBALANCE: {ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY},
    ClassicGroupState.COMPLETING_REBALANCE: {ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.STABLE: {ClassicGroupState.PREPARING_REBALANCE},
}


class ClassicGroupMember:
    """One member: what it said, what it was assigned, and the tickets on which it waits.

    is_new: it has not heard of any generation yet, so nothing but its own patience keeps it alive.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(self, member_id: str, instance_id: str | None, caller: Caller, protocol_type: str) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = caller.client_id
        self.client_host = caller.host
        self.protocol_type = protocol_type
        self.rebalance_timeout_ms = 0
        self.session_timeout_ms = 0
        self.protocols: Protocols = ()
        self.assignment = b""
        self.is_new = False
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None

    @property
    def is_waiting(self) -> bool:
        """True while the member is parked: it cannot heartbeat then."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What the member says in that protocol; nothing if it does not speak it."""
        return next((said for name, said in self.protocols if name == protocol), b"")


class ClassicGroupLiveState:
    """What the members of a group do now. Its methods keep the counters true; who may do what is decided elsewhere."""

    __slots__ = (
        "generation",
        "generation_metadata",
        "has_newcomers",
        "initial_delay_left_ms",
        "instances",
        "is_restored",
        "leader",
        "logged_upgrade_blocker",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_counts",
        "protocol_type",
        "state",
        "state_since_ms",
        "subscribed_topics",
        "waiting_join_count",
    )

    def __init__(self) -> None:
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_since_ms = -1  # the wall time of the last change of state
        self.generation = 0
        self.is_restored = False  # the generation was read from the log, and later ones may have died unsaved
        self.logged_upgrade_blocker = ""  # why a consumer could not join, as the process's log was told last
        self.protocol_type = ""  # "" until a first member has one
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}  # in the order in which they joined
        self.instances: dict[str, str] = {}  # instance id -> member id
        self.pending_joins: dict[str, None] = {}  # ids that were handed out, oldest first, and have not joined yet
        self.pending_syncs: dict[str, None] = {}  # members of this generation that have not asked for their assignment
        self.protocol_counts: dict[str, int] = {}  # protocol -> how many members speak it
        self.waiting_join_count = 0  # how many members wait for the next generation
        self.has_newcomers = False  # somebody came since the initial wait was last looked at
        self.initial_delay_left_ms = 0  # how much longer a group that was empty may be kept waiting
        self.generation_metadata: tuple[bytes, ...] | None = (
            None  # what the members said when the generation began; None before the first
        )
        self.subscribed_topics: dict[str, None] | None = NOT_DECODED  # what they said that they read; None where nobody can know

    def transition_to(self, state: ClassicGroupState, wall_ms: int) -> None:
        """The group is in that state from now on."""
        assert state in NEXT[self.state], f"a classic group cannot go from {self.state} to {state}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, wall_ms

    def add(self, member: ClassicGroupMember) -> None:
        """The member is one of the group; the first one gives the group its type, and leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member: ClassicGroupMember) -> None:
        """The member is none any more; if it led, the one that has been here longest leads. Its tickets must be spent before."""
        assert not member.is_waiting, f"{member.member_id} still waits"
        del self.members[member.member_id]
        self._count(member, -1)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        self.pending_syncs.pop(member.member_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """The new member has the old one's place, its part in the generation, and its leadership."""
        led, owed_sync = self.leader == old.member_id, old.member_id in self.pending_syncs
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new.member_id
        if owed_sync:
            self.pending_syncs[new.member_id] = None

    def update_protocols(self, member: ClassicGroupMember, protocols: Protocols) -> None:
        """The member, which is in the group, speaks these protocols."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def park_join(self, member: ClassicGroupMember, ticket: Ticket) -> Ticket | None:
        """The member waits on `ticket` for the next generation; the ticket on which it had waited before, if it had."""
        before, member.join_ticket = member.join_ticket, ticket
        self.waiting_join_count += before is None
        return before

    def unpark_join(self, member: ClassicGroupMember) -> Ticket | None:
        """The member does not wait for a generation any more; the ticket on which it did."""
        ticket, member.join_ticket = member.join_ticket, None
        self.waiting_join_count -= ticket is not None
        return ticket

    def start_generation(self) -> None:
        """The members are a new generation, in the protocol that was chosen."""
        self.generation += 1
        self.is_restored = False
        self.capture_metadata()

    def capture_metadata(self) -> None:
        """What the members say now is what this generation reads, whatever they may say later."""
        self.generation_metadata = tuple(member.metadata(self.protocol) for member in self.members.values())
        self.subscribed_topics = NOT_DECODED

    def all_joined(self) -> bool:
        """True where nobody is missing: every member waits, and no id that was handed out is still to come."""
        return self.waiting_join_count == len(self.members) and not self.pending_joins

    def select_protocol(self) -> str:
        """The protocol that the members would choose now."""
        return select_protocol([name for name, _ in member.protocols] for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """How long everybody has to join: as long as the most patient member allows."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _count(self, member: ClassicGroupMember, step: int) -> None:
        for name, _ in member.protocols:
            count = self.protocol_counts.get(name, 0) + step
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]


class ClassicGroup:
    """One classic group. `saved` is what the log says; only `replay.apply_classic` writes it."""

    __slots__ = ("group_id", "live", "saved")

    type_name = "classic"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.saved: GroupMetadataValue | None = None
        self.live = ClassicGroupLiveState()

    @property
    def protocol_type(self) -> str:
        """What the members are: consumer, connect..., and "" where there never was one."""
        return self.live.protocol_type

    def is_empty(self) -> bool:
        """True where the group has no members."""
        return self.live.state is ClassicGroupState.EMPTY

    def state_name(self) -> str:
        """The state as Kafka's tools name it."""
        return self.live.state.value

    def subscribes_to(self, topic: str) -> bool:
        """True where some member of the generation read that topic when it began, or may: an unreadable subscription may say so."""
        live = self.live
        if live.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        if live.subscribed_topics is NOT_DECODED:
            live.subscribed_topics = self._topics_or_none()
        return live.subscribed_topics is None or topic in live.subscribed_topics

    def expirable_since_ms_or_none(self, topic: str, committed_ms: int) -> int | None:
        """The wall time since when an offset of that topic, committed at `committed_ms`, is of no use; None while it is.

        Without members that is since the last one went, where it is known who they were and when. With members only consumers
        whose topics are known, and who are not on the way to another generation, can do without an offset.
        """
        live = self.live
        if live.state is ClassicGroupState.EMPTY:
            return live.state_since_ms if live.protocol_type and live.state_since_ms >= 0 else committed_ms
        if (
            live.state is ClassicGroupState.STABLE
            and live.protocol_type == CONSUMER_PROTOCOL_TYPE
            and not self.subscribes_to(topic)
        ):
            return committed_ms
        return None

    def check_commit(self, claim: CommitClaim) -> None:
        """Refuses a commit that the claimant may not make.

        Errors, in this order: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, those of `check_generation`, REBALANCE_IN_PROGRESS.
        """
        live = self.live
        if claim.epoch < 0 and live.state is ClassicGroupState.EMPTY:
            return
        if claim.epoch >= 0 or claim.member_id or claim.instance_id is not None:
            self.checked_member(claim.member_id, claim.instance_id)
            self.check_generation(claim.epoch)
        elif live.state is not ClassicGroupState.EMPTY:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has members, so only they may commit.")
        if live.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise Refused(Code.REBALANCE_IN_PROGRESS)

    def check_fetch(self, claim: FetchClaim) -> None:
        """Nobody is refused: the classic protocol does not ask who reads offsets."""

    def check_offset_deletion(self) -> None:
        """Refuses to forget offsets of members whose topics nobody can know. Errors: NON_EMPTY_GROUP."""
        if not self.is_empty() and self.live.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(Code.NON_EMPTY_GROUP)

    def session_or_none(self, member_id: str) -> tuple[Key, int] | None:
        """The deadline that a commit of the member moves, and how many ms it is away then; None if a commit moves none."""
        member = self.live.members.get(member_id)
        return None if member is None else ((SESSION, self.group_id, member_id), member.session_timeout_ms)

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """The records after which the group, which has no members, is forgotten."""
        yield records.classic_group(self.group_id, None)

    def checked_member(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """The member that speaks. Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (its instance is another member now)."""
        if instance_id is not None:
            seated = self.live.instances.get(instance_id)
            if seated is None:
                raise Refused(Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no instance {instance_id!r}.")
            if seated != member_id:
                raise Refused(Code.FENCED_INSTANCE_ID, f"Instance {instance_id} is another member than {member_id!r} now.")
        member = self.live.members.get(member_id)
        if member is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id!r}.")
        return member

    def check_generation(self, generation: int) -> None:
        """Refuse a member that speaks of another generation; the caller has checked that it is a member.

        Errors: REBALANCE_IN_PROGRESS for a generation that a crash took before its assignment was saved, else ILLEGAL_GENERATION.
        """
        if self.live.is_restored and generation > self.live.generation:
            raise Refused(Code.REBALANCE_IN_PROGRESS, f"Generation {generation} had no assignment when the broker ended.")
        if generation != self.live.generation:
            raise Refused(Code.ILLEGAL_GENERATION, f"Group {self.group_id} is at generation {self.live.generation}.")

    def to_record(self) -> CoordinatorRecord:
        """The record that says what is live."""
        live = self.live
        value = GroupMetadataValue(
            protocol_type=live.protocol_type,
            generation=live.generation,
            protocol=live.protocol,
            leader=live.leader,
            current_state_timestamp=live.state_since_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(live.protocol),
                    assignment=member.assignment,
                )
                for member in live.members.values()
            ),
        )
        return records.classic_group(self.group_id, value)

    def restore(self) -> None:
        """What is live is what was saved, and nobody waits for anything."""
        saved = self.saved
        assert saved is not None, f"group {self.group_id} was never saved"
        live = self.live = ClassicGroupLiveState()
        live.generation, live.protocol, live.state_since_ms = saved.generation, saved.protocol, saved.current_state_timestamp
        for said in saved.members:
            member = ClassicGroupMember(
                said.member_id, said.group_instance_id, Caller(said.client_id, said.client_host), saved.protocol_type
            )
            member.session_timeout_ms = said.session_timeout
            member.rebalance_timeout_ms = said.session_timeout if said.rebalance_timeout < 0 else said.rebalance_timeout
            member.protocols = ((saved.protocol or "", bytes(said.subscription)),)
            member.assignment = bytes(said.assignment)
            live.add(member)
        live.protocol_type, live.leader = saved.protocol_type, saved.leader
        live.state = ClassicGroupState.STABLE if live.members else ClassicGroupState.EMPTY
        live.capture_metadata()

    def _topics_or_none(self) -> dict[str, None] | None:
        """Every topic that a member of this generation reads; None where a subscription is none, or nobody was asked yet."""
        if self.live.generation_metadata is None:
            return None
        try:
            subscriptions = [decode(ConsumerProtocolSubscription, said)[1] for said in self.live.generation_metadata]
        except DecodeError:
            return None
        return dict.fromkeys(topic for subscription in subscriptions for topic in subscription.topics)
