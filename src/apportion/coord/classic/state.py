"""The state of a classic group: `saved`, its last generation with an assignment, and `live`.

`states.py` explains the cycle of a group. A generation without an assignment is never saved, as in
Kafka: after a crash the group is in the state of its last assignment. Members may then name a
generation that is gone. Nobody was assigned anything in it: such a member still owns what the saved
generation gave it, and gets REBALANCE_IN_PROGRESS. Kafka, once it has loaded its groups, answers
ILLEGAL_GENERATION, upon which clients give up their partitions without a commit. They seldom get
that answer there, because a broker that has just started is not their coordinator yet
(NOT_COORDINATOR), so they rejoin by themselves; this broker coordinates as soon as it listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from apportion.coord import records
from apportion.coord.classic.election import select_protocol
from apportion.coord.classic.states import NEXT, ClassicGroupState
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
"""Deadline of a session timeout: that of a member, or of a member id that was given out and not
used yet.
"""

NOT_DECODED: dict[str, None] = {}
"""Placeholder for the topics of a generation that were not decoded yet."""

Protocols: TypeAlias = "tuple[tuple[str, bytes], ...]"
"""The protocols (assignors) that a member supports, best first: name and metadata of each."""


class ClassicGroupMember:
    """One member: what it joined with, what it was assigned, and the tickets of its parked
    requests.

    is_new: it is in no generation yet, so its session runs although it is parked.
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

    def __init__(
        self, member_id: str, instance_id: str | None, caller: Caller, protocol_type: str
    ) -> None:
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
        """True while a request of the member is parked: it cannot heartbeat then."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for `protocol`; b"" if it does not support it."""
        return next((said for name, said in self.protocols if name == protocol), b"")


class ClassicGroupLiveState:
    """What the members of a group do now. The methods keep its counters right; the rules are
    elsewhere.
    """

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
        self.is_restored = False  # from the log; later generations may have been lost in a crash
        self.logged_upgrade_blocker = ""  # why a consumer could not join, as it was last logged
        self.protocol_type = ""  # "" before the first member
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}  # in the order in which they joined
        self.instances: dict[str, str] = {}  # instance id -> member id
        # member ids given out and not used yet, oldest first
        self.pending_joins: dict[str, None] = {}
        # members of this generation that have not sent SyncGroup
        self.pending_syncs: dict[str, None] = {}
        self.protocol_counts: dict[str, int] = {}  # protocol -> how many members support it
        self.waiting_join_count = 0  # how many members have a parked JoinGroup
        self.has_newcomers = False  # members joined since the initial delay was last extended
        self.initial_delay_left_ms = 0  # by how much the initial delay may still be extended
        # None before the first generation
        self.generation_metadata: tuple[bytes, ...] | None = None
        # None where it cannot be known
        self.subscribed_topics: dict[str, None] | None = NOT_DECODED

    def transition_to(self, state: ClassicGroupState, wall_ms: int) -> None:
        """Move to `state` at wall clock `wall_ms`; NEXT says which moves there are."""
        assert state in NEXT[self.state], f"a classic group cannot go from {self.state} to {state}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, wall_ms

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member. The first one sets the protocol type, and leads."""
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
        """Remove a member without parked requests. If it led, the member that joined first
        leads.
        """
        assert not member.is_waiting, f"{member.member_id} has a parked request"
        del self.members[member.member_id]
        self._count(member, -1)
        if (
            member.instance_id is not None
            and self.instances.get(member.instance_id) == member.member_id
        ):
            del self.instances[member.instance_id]
        self.pending_syncs.pop(member.member_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """Put `new` in the place of `old`, with its leadership and its pending SyncGroup."""
        led, owed_sync = self.leader == old.member_id, old.member_id in self.pending_syncs
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new.member_id
        if owed_sync:
            self.pending_syncs[new.member_id] = None

    def update_protocols(self, member: ClassicGroupMember, protocols: Protocols) -> None:
        """Set the protocols that the member supports."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def park_join(self, member: ClassicGroupMember, ticket: Ticket) -> Ticket | None:
        """Park the member's JoinGroup, and return the ticket of an earlier one that it replaces."""
        before, member.join_ticket = member.join_ticket, ticket
        self.waiting_join_count += before is None
        return before

    def unpark_join(self, member: ClassicGroupMember) -> Ticket | None:
        """Unpark the member's JoinGroup, and return its ticket; None if there is none."""
        ticket, member.join_ticket = member.join_ticket, None
        self.waiting_join_count -= ticket is not None
        return ticket

    def start_generation(self) -> None:
        """Begin the next generation of the present members, in the chosen protocol."""
        self.generation += 1
        self.is_restored = False
        self.capture_metadata()

    def capture_metadata(self) -> None:
        """Keep the members' metadata as of the start of the generation, whatever they send
        later.
        """
        self.generation_metadata = tuple(
            member.metadata(self.protocol) for member in self.members.values()
        )
        self.subscribed_topics = NOT_DECODED

    def all_joined(self) -> bool:
        """Return whether every member has a parked JoinGroup, and no member id is pending."""
        return self.waiting_join_count == len(self.members) and not self.pending_joins

    def select_protocol(self) -> str:
        """Return the protocol that the members would choose now."""
        return select_protocol(
            [name for name, _ in member.protocols] for member in self.members.values()
        )

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members; 0 without any."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _count(self, member: ClassicGroupMember, step: int) -> None:
        for name, _ in member.protocols:
            count = self.protocol_counts.get(name, 0) + step
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]


class ClassicGroup:
    """One classic group. Only `replay.apply_classic_group` writes `saved`."""

    __slots__ = ("group_id", "live", "saved")

    type_name = "classic"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.saved: GroupMetadataValue | None = None
        self.live = ClassicGroupLiveState()

    @property
    def protocol_type(self) -> str:
        """The protocol type: consumer, connect...; "" before the first member."""
        return self.live.protocol_type

    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return self.live.state is ClassicGroupState.EMPTY

    def state_name(self) -> str:
        """Return the state as Kafka's tools name it."""
        return self.live.state.value

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member of the generation subscribed to `topic` when it began.

        True as well if a subscription cannot be decoded, since it may name the topic.
        """
        live = self.live
        if live.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        if live.subscribed_topics is NOT_DECODED:
            live.subscribed_topics = self._topics_or_none()
        return live.subscribed_topics is None or topic in live.subscribed_topics

    def expirable_since_ms_or_none(self, topic: str, committed_ms: int) -> int | None:
        """Return since when an offset of `topic`, committed at `committed_ms`, may expire (wall
        ms); None while the group needs it.

        Without members that is since the group became empty, or since the commit where that time is
        unknown. With members it is the commit, if they are consumers, the group is stable and
        nobody subscribes to the topic.
        """
        live = self.live
        if live.state is ClassicGroupState.EMPTY:
            return (
                live.state_since_ms
                if live.protocol_type and live.state_since_ms >= 0
                else committed_ms
            )
        if (
            live.state is ClassicGroupState.STABLE
            and live.protocol_type == CONSUMER_PROTOCOL_TYPE
            and not self.subscribes_to(topic)
        ):
            return committed_ms
        return None

    def check_commit(self, claim: CommitClaim) -> None:
        """Refuse an offset commit that the sender may not make.

        Errors, in this order: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, those of `check_generation`,
        REBALANCE_IN_PROGRESS.
        """
        live = self.live
        if claim.epoch < 0 and live.state is ClassicGroupState.EMPTY:
            return
        if claim.epoch >= 0 or claim.member_id or claim.instance_id is not None:
            self.checked_member(claim.member_id, claim.instance_id)
            self.check_generation(claim.epoch)
        elif live.state is not ClassicGroupState.EMPTY:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID,
                f"Group {self.group_id} has members, so only they may commit.",
            )
        if live.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise Refused(Code.REBALANCE_IN_PROGRESS)

    def check_fetch(self, claim: FetchClaim) -> None:
        """Refuse nothing: the classic protocol lets everybody fetch offsets."""

    def check_offset_deletion(self) -> None:
        """Refuse to delete offsets while the topics of the members are unknown. Errors:
        NON_EMPTY_GROUP.
        """
        if not self.is_empty() and self.live.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(Code.NON_EMPTY_GROUP)

    def session_or_none(self, member_id: str) -> tuple[Key, int] | None:
        """Return the deadline that a member's commit restarts and its timeout (ms); None for no
        member.
        """
        member = self.live.members.get(member_id)
        return (
            None
            if member is None
            else ((SESSION, self.group_id, member_id), member.session_timeout_ms)
        )

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """Yield the records that delete the group, which must be empty."""
        yield records.classic_group(self.group_id, None)

    def checked_member(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """Return the member with that id, and with that group instance id if one is given.

        Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (another member has the instance id now).
        """
        if instance_id is not None:
            current_id = self.live.instances.get(instance_id)
            if current_id is None:
                raise Refused(
                    Code.UNKNOWN_MEMBER_ID,
                    f"Group {self.group_id} has no instance {instance_id!r}.",
                )
            if current_id != member_id:
                raise Refused(
                    Code.FENCED_INSTANCE_ID,
                    f"Instance {instance_id} is another member than {member_id!r} now.",
                )
        member = self.live.members.get(member_id)
        if member is None:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id!r}."
            )
        return member

    def check_generation(self, generation: int) -> None:
        """Refuse a member of another generation.

        Errors: REBALANCE_IN_PROGRESS for a generation that was lost in a crash (see the module),
        else ILLEGAL_GENERATION.
        """
        if self.live.is_restored and generation > self.live.generation:
            raise Refused(
                Code.REBALANCE_IN_PROGRESS,
                f"Generation {generation} had no assignment when the broker ended.",
            )
        if generation != self.live.generation:
            raise Refused(
                Code.ILLEGAL_GENERATION,
                f"Group {self.group_id} is at generation {self.live.generation}.",
            )

    def to_record(self) -> CoordinatorRecord:
        """Return the record of the live state."""
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
        """Make the live state from the saved record, without any parked request."""
        saved = self.saved
        assert saved is not None, f"group {self.group_id} was never saved"
        live = self.live = ClassicGroupLiveState()
        live.generation, live.protocol, live.state_since_ms = (
            saved.generation,
            saved.protocol,
            saved.current_state_timestamp,
        )
        for said in saved.members:
            member = ClassicGroupMember(
                said.member_id,
                said.group_instance_id,
                Caller(said.client_id, said.client_host),
                saved.protocol_type,
            )
            member.session_timeout_ms = said.session_timeout
            member.rebalance_timeout_ms = (
                said.session_timeout if said.rebalance_timeout < 0 else said.rebalance_timeout
            )
            member.protocols = ((saved.protocol or "", bytes(said.subscription)),)
            member.assignment = bytes(said.assignment)
            live.add(member)
        live.protocol_type, live.leader = saved.protocol_type, saved.leader
        live.state = ClassicGroupState.STABLE if live.members else ClassicGroupState.EMPTY
        live.capture_metadata()

    def _topics_or_none(self) -> dict[str, None] | None:
        """Return the topics of all subscriptions of the generation; None if one is missing or
        cannot be decoded.
        """
        if self.live.generation_metadata is None:
            return None
        try:
            subscriptions = [
                decode(ConsumerProtocolSubscription, said)[1]
                for said in self.live.generation_metadata
            ]
        except DecodeError:
            return None
        return dict.fromkeys(
            topic for subscription in subscriptions for topic in subscription.topics
        )
