"""Live state of a classic group and its members: all that is not in the log.

A member with what it joined with; and the live state of a group: state, generation, leader, members
and parked requests, with the counters that answer a single JoinGroup without a look at every
member. A crash loses it; `ClassicGroup.restore` makes it again from the last saved generation. The
methods keep the counters right; the rules are in the handlers, but for the vote of the members for
the protocol (assignor) of their generation.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from apportion.coord.classic.states import NEXT
from apportion.coord.group import Protocols
from apportion.coord.group_counts import GroupCounts
from apportion.errors import DecodeError
from apportion.machine import Caller, Instant, Ticket
from apportion.wire.group_states import GroupState
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import decode


class ClassicGroupMember:
    """One member: what it joined with, and its assignment.

    is_new: it is in no generation yet, so its session runs although its JoinGroup is parked.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self, member_id: str, instance_id: str | None, caller: Caller, protocol_type: str
    ) -> None:
        """Create a member from the sender of its JoinGroup."""
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

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for `protocol`; b"" if it does not support that."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class GenerationSubscriptions:
    """The encoded subscriptions with which a generation began; decoded when first asked for."""

    def __init__(self, metadata: list[bytes]) -> None:
        self._metadata = metadata

    @cached_property
    def topics_or_none(self) -> dict[str, None] | None:
        """The topics of all subscriptions; None if one of these cannot be decoded."""
        try:
            subscriptions = [
                decode(ConsumerProtocolSubscription, metadata)[1] for metadata in self._metadata
            ]
        except DecodeError:
            return None
        return dict.fromkeys(
            topic for subscription in subscriptions for topic in subscription.topics
        )


class ClassicGroupLiveState:
    """Live state of a classic group; the methods keep its counters right."""

    __slots__ = (
        "counts",
        "generation",
        "generation_subscriptions",
        "has_newcomers",
        "initial_delay_left_ms",
        "instances",
        "is_restored",
        "leader",
        "logged_upgrade_blocker",
        "members",
        "parked",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_counts",
        "protocol_type",
        "state",
        "state_since_ms",
    )

    def __init__(self) -> None:
        """Create the state of an empty classic group that need not survive a crash."""
        self.state = GroupState.EMPTY
        self.counts = GroupCounts()
        # Dead at birth, as in Kafka: EMPTY would mean that the initial delay owns the rebalance.
        self.previous_state = GroupState.DEAD
        self.state_since_ms = -1  # the wall time of the last change of state
        self.generation = 0
        self.is_restored = False  # from the log; later generations may have been lost in a crash
        self.logged_upgrade_blocker = ""  # why a consumer could not join, as it was last logged
        self.protocol_type = ""  # "" before the first member
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}  # in the order in which they joined
        self.instances: dict[str, str] = {}  # instance id -> member id
        # Member id -> its parked request: a JoinGroup in PreparingRebalance, a SyncGroup in
        # CompletingRebalance. A member with one cannot heartbeat.
        self.parked: dict[str, Ticket] = {}
        # member ids given out and not used yet, oldest first
        self.pending_joins: dict[str, None] = {}
        # members of this generation that have not sent SyncGroup
        self.pending_syncs: dict[str, None] = {}
        self.protocol_counts: dict[str, int] = {}  # protocol -> how many members support it
        self.has_newcomers = False  # members joined since the initial delay was last extended
        self.initial_delay_left_ms = 0  # by how much the initial delay may still be extended
        # None before the first generation
        self.generation_subscriptions: GenerationSubscriptions | None = None

    def transition_to(self, state: GroupState, now: Instant) -> None:
        """Move the group to `state`, which NEXT must allow."""
        assert state in NEXT[self.state], f"a classic group cannot go from {self.state} to {state}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, now.wall_ms
        self.counts.enter(state, now.mono_ms)

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member to the group. The first one sets the protocol type, and leads."""
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
        """Remove a member without a parked request; if it led, the oldest one left leads."""
        assert member.member_id not in self.parked, f"{member.member_id} has a parked request"
        del self.members[member.member_id]
        self._count(member, -1)
        if (
            member.instance_id is not None
            and self.instances.get(member.instance_id) == member.member_id
        ):
            del self.instances[member.instance_id]
        self.pending_syncs.pop(member.member_id, None)
        # Kafka takes any member, by the order of a hash table. The oldest makes every run
        # repeatable.
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """Replace a static member by its restarted successor.

        The successor gets the assignment, the leadership and the pending SyncGroup.
        """
        new.assignment = old.assignment
        was_leader = self.leader == old.member_id
        has_pending_sync = old.member_id in self.pending_syncs
        self.remove(old)
        self.add(new)
        if was_leader:
            self.leader = new.member_id
        # The successor has to sync. In Kafka the old id stays pending, and costs a rebalance when
        # it has not synced in time.
        if has_pending_sync:
            self.pending_syncs[new.member_id] = None

    def update_protocols(self, member: ClassicGroupMember, protocols: Protocols) -> None:
        """Set the assignors that a member supports."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def start_generation(self, leader: str | None, now: Instant) -> None:
        """Begin the group's next generation with its members; without a leader it is empty.

        The members choose the protocol, and have yet to send SyncGroup.
        """
        self.leader = leader
        self.protocol = None if leader is None else self.select_protocol()
        self.generation += 1
        self.counts.count_rebalance()
        self.is_restored = False
        self.capture_metadata()
        self.pending_syncs = dict.fromkeys(self.members)
        self.transition_to(
            GroupState.EMPTY if leader is None else GroupState.COMPLETING_REBALANCE,
            now,
        )

    def capture_metadata(self) -> None:
        """Keep the subscriptions with which the generation began."""
        # OffsetDelete and the expiry of offsets ask for the topics of the generation, not for those
        # of a member that has sent its next JoinGroup already.
        self.generation_subscriptions = GenerationSubscriptions(
            [member.metadata(self.protocol) for member in self.members.values()]
        )

    def select_protocol(self) -> str:
        """Return the assignor that the group's members would choose now."""
        return select_protocol(
            [name for name, _ in member.protocols] for member in self.members.values()
        )

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members; 0 without any."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _count(self, member: ClassicGroupMember, step: int) -> None:
        """Count a classic member's assignors in (`step` 1) or out (-1)."""
        for name, _ in member.protocols:
            count = self.protocol_counts.get(name, 0) + step
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]


def select_protocol(ballots: Iterable[Sequence[str]]) -> str:
    """Return the assignor that most members of a classic group prefer of those all support.

    Kafka calls the assignor the group's protocol. Each member votes for its first protocol that all
    support. Of several with equally many votes the first by name wins.
    ballots: for each member the names of its protocols, best first, none twice. At least one name
        must be on every ballot.
    """
    ballots = list(ballots)
    supporters: dict[str, int] = {}
    for ballot in ballots:
        for name in ballot:
            supporters[name] = supporters.get(name, 0) + 1
    votes: dict[str, int] = {}
    for ballot in ballots:
        # Never without a result: JoinGroup admits no member that shares no protocol with all
        # others.
        favourite = next(name for name in ballot if supporters[name] == len(ballots))
        votes[favourite] = votes.get(favourite, 0) + 1
    # Kafka leaves a tie to a hash table. By name, the same members always choose the same protocol.
    return min(votes, key=lambda name: (-votes[name], name))
