"""The state of a consumer group: `saved`, as the log says it, and `live`, which a crash may lose.

Only `replay.apply_*` writes `saved`, except that `client_assignor` keeps there what it has found,
which follows from the rest. Counters beside the members let a steady heartbeat finish without a
look at the other members.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from apportion.coord import records
from apportion.coord.consumer.client_assignors import (
    AgreedAssignor,
    Agreement,
    ChosenMember,
    ClientOffer,
    OfferingMember,
    agreed_or_none,
)
from apportion.coord.consumer.reconcile import CurrentAssignment, MemberState
from apportion.coord.consumer.units import (
    UnitNumbering,
    UnitOwners,
    no_assigned_units,
)
from apportion.coord.group import CONSUMER_PROTOCOL_TYPE, CommitClaim, FetchClaim
from apportion.coord.group_counts import GroupCounts
from apportion.coord.records import NO_ANSWER, CoordinatorRecord
from apportion.deadlines import Key
from apportion.errors import Code, Refused
from apportion.topics import Topics
from apportion.wire.group_states import GroupState
from apportion.wire.records.groups import ConsumerGroupMemberMetadataValue

if TYPE_CHECKING:
    from apportion.coord.consumer.target_computation import FailedTarget
    from apportion.coord.consumer.units import AssignedUnits, UnitArray
    from apportion.coord.heartbeat_budget import Booking
    from apportion.machine import Computation

# Kafka 4.3 and later: a new group is at epoch 1 before its first member's subscription counts.
FIRST_EPOCH = 1
NO_METADATA = ConsumerGroupMemberMetadataValue(
    instance_id=None, rack_id=None, subscribed_topic_regex="", server_assignor=None
)
"""The metadata of a member before its own record is read."""


class ConsumerGroupMember:
    """One member: its metadata, its current assignment and its target assignment.

    assigned, pending_revocation: the current assignment. target: None before the first one.
    target_answer: what came with the target.
    """

    __slots__ = (
        "assigned",
        "epoch",
        "member_id",
        "metadata",
        "pending_revocation",
        "previous_epoch",
        "state",
        "target",
        "target_answer",
    )

    def __init__(self, member_id: str) -> None:
        """Create a member without metadata or an assignment."""
        self.member_id = member_id
        self.metadata: ConsumerGroupMemberMetadataValue = NO_METADATA
        self.epoch = 0
        self.previous_epoch = -1
        self.state = MemberState.STABLE
        self.assigned: AssignedUnits = no_assigned_units()
        self.pending_revocation: AssignedUnits = no_assigned_units()
        self.target: UnitArray | None = None
        self.target_answer = NO_ANSWER

    @property
    def is_classic(self) -> bool:
        """True for a member of the classic protocol, whose generation is its epoch."""
        return self.metadata.classic_member_metadata is not None

    @property
    def name_in_log(self) -> str:
        """The member's id with its client and host, by which people find its process."""
        # Brokers keep Java's form of an address, with a slash before it.
        host = self.metadata.client_host.removeprefix("/")
        return f"{self.member_id} (client {self.metadata.client_id}, host {host})"

    @property
    def current(self) -> CurrentAssignment[int]:
        """The current assignment, as `reconcile` takes it."""
        return CurrentAssignment(
            self.epoch,
            self.previous_epoch,
            self.state,
            self.assigned.as_mapping(),
            self.pending_revocation.as_mapping(),
        )

    def units(self) -> list[int]:
        """Return all units that the member may be using, also those that it has yet to give up."""
        return [*self.assigned.units.tolist(), *self.pending_revocation.units.tolist()]


class ConsumerGroupSavedState:
    """State of a consumer group that is in the log.

    Only `replay.apply_*` writes here, except that `client_assignor` keeps what it has found.
    """

    __slots__ = (
        "agreement",
        "assignment_epoch",
        "assignor_votes",
        "classic_member_count",
        "client_metadata_bytes",
        "client_offers",
        "epoch",
        "expression_counts",
        "instances",
        "members",
        "metadata_hash",
        "owners",
        "protocol_counts",
        "resolutions",
        "stable_members_by_epoch",
        "subscriber_counts",
        "units",
    )

    def __init__(self) -> None:
        """Create the saved state of a new consumer group."""
        # of a new group; its first member's subscription makes it 2
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.instances: dict[str, str] = {}  # instance id -> member id
        self.units = UnitNumbering()
        self.owners = UnitOwners()
        # topic name -> how many members subscribe to it by name, plus how many expressions match it
        self.subscriber_counts: dict[str, int] = {}
        # expression (SubscribedTopicRegex) -> how many members subscribe to it
        self.expression_counts: dict[str, int] = {}
        # expression -> the topics that it matched when it was last resolved
        self.resolutions: dict[str, tuple[str, ...]] = {}
        # assignor -> how many members ask for it (ServerAssignor)
        self.assignor_votes: dict[str, int] = {}
        # client-side assignors with their versions -> how many members offer just these
        self.client_offers: dict[ClientOffer, int] = {}
        # what `client_assignor` found; None if that has to be found anew
        self.agreement: Agreement | None = None
        self.client_metadata_bytes = 0  # of the client-side assignors of all members
        self.protocol_counts: dict[str, int] = {}  # protocol -> how many classic members support it
        self.classic_member_count = 0  # how many members are classic
        # epoch -> how many members are STABLE there
        self.stable_members_by_epoch: dict[int, int] = {}

    @property
    def client_assignor(self) -> AgreedAssignor | None:
        """The client-side assignor on which all members agree; None if they agree on none."""
        # Found when it is asked for, and kept until `replay` changes what it follows from: the log
        # of a large group would else find it again and again, each time from all offers.
        if self.agreement is None:
            self.agreement = Agreement(agreed_or_none(self.client_offers, len(self.members)))
        return self.agreement.assignor

    def subscription(self, metadata: ConsumerGroupMemberMetadataValue) -> tuple[str, ...]:
        """Return the topics to which a member with that metadata subscribes, each once.

        They are those that it names, and those that its expression matches.
        """
        names = metadata.subscribed_topic_names
        matched = self.resolutions.get(metadata.subscribed_topic_regex or "", ())
        # Sorted as the names are: what is assigned depends on the topics, not on how they are met.
        return tuple(sorted(dict.fromkeys((*names, *matched)))) if matched else names


class ConsumerGroupLiveState:
    """State of a consumer group that need not survive a crash."""

    __slots__ = (
        "chosen",
        "counts",
        "failed_target",
        "next_heartbeats",
        "no_room_noted_ms",
        "offering_members",
        "renewing_member_id",
        "resolved_ms",
        "resolved_topics",
        "seen_topics",
        "target_computed_ms",
        "target_under_way",
        "unsaved_resolutions",
        "waiting_metadata_bytes",
    )

    def __init__(self) -> None:
        # the snapshot that the saved hash was last compared with
        self.seen_topics: Topics | None = None
        # when the target assignment was last computed (mono ms); None since the group was loaded
        self.target_computed_ms: int | None = None
        # what an assignor computes beside the shard, or the member that is asked by a client-side
        # one; and the last failure since the last good answer
        self.target_under_way: Computation | None = None
        self.chosen: ChosenMember | None = None
        self.failed_target: FailedTarget | None = None
        # by member id; only members of which there is something to know
        self.offering_members: dict[str, OfferingMember] = {}
        # the sum of their `waiting_bytes`, and when the log last said that there is no room for
        # more (mono ms)
        self.waiting_metadata_bytes = 0
        self.no_room_noted_ms: int | None = None
        # the snapshot for which the group's expressions were last resolved, and when (mono ms)
        self.resolved_topics: Topics | None = None
        self.resolved_ms: int | None = None
        # expressions and their topics, as they were found and are to be saved
        self.unsaved_resolutions: deque[tuple[str, tuple[str, ...]]] = deque()
        # member id -> its next heartbeat, as booked in the budget
        self.next_heartbeats: dict[str, Booking] = {}
        # whose heartbeat was last booked for the time at which the target may be renewed
        self.renewing_member_id: str | None = None
        self.counts = GroupCounts()


class ConsumerGroup:
    """One consumer group."""

    __slots__ = ("group_id", "live", "saved")

    type_name = "consumer"
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.saved = ConsumerGroupSavedState()
        self.live = ConsumerGroupLiveState()

    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.saved.members

    @property
    def member_count(self) -> int:
        """The number of members."""
        return len(self.saved.members)

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.saved.epoch

    @property
    def assignment_epoch_or_none(self) -> int | None:
        """The group epoch for which the target assignment was computed."""
        return self.saved.assignment_epoch

    def unowned_partitions_or_none(self, topics: Topics) -> int | None:
        """Return how many partitions of the subscribed topics no member has."""
        saved = self.saved
        known = [topic for name in saved.subscriber_counts if (topic := topics.named(name))]
        return sum(
            topic.partitions
            - saved.owners.owned_count(saved.units.number_or_none(topic.id), topic.partitions)
            for topic in known
        )

    def has_converged(self) -> bool:
        """Return whether every member has its target assignment of the group's epoch."""
        saved = self.saved
        # A counter, because every response asks. A static member that left temporarily is counted
        # at epoch -2, so the group has not converged without it, as in Kafka.
        at_target = saved.stable_members_by_epoch.get(saved.assignment_epoch, 0)
        return saved.epoch <= saved.assignment_epoch and at_target == len(saved.members)

    @property
    def state(self) -> GroupState:
        """The state: EMPTY, ASSIGNING, RECONCILING or STABLE."""
        if self.is_empty():
            return GroupState.EMPTY
        if self.saved.epoch > self.saved.assignment_epoch:
            return GroupState.ASSIGNING
        return GroupState.STABLE if self.has_converged() else GroupState.RECONCILING

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`."""
        # Of all members, also of those that have not been assigned a partition yet: they may be
        # about to read from the committed offset.
        return topic in self.saved.subscriber_counts

    def expirable_since_ms_or_none(self, topic: str, committed_ms: int) -> int | None:
        """Return since when an offset of `topic` may expire (wall ms): since its commit.

        None means never, while a member subscribes to the topic.
        """
        return None if self.subscribes_to(topic) else committed_ms

    def assignor(self, configured: tuple[str, ...]) -> str:
        """Return the client-side assignor of all members, or the server-side one of most.

        The first configured one (`group.consumer.assignors`) wins a tie, and is used if nobody
        asks.
        """
        if self.saved.client_assignor is not None:
            return self.saved.client_assignor.name
        votes = self.saved.assignor_votes
        # Kafka leaves a tie to a hash table; here the same members always get the same assignor.
        return max(configured, key=lambda name: (votes.get(name, 0), -configured.index(name)))

    def static_member_or_none(self, instance_id: str) -> ConsumerGroupMember | None:
        """Return the static member that has the group instance id; None if there is none."""
        member_id = self.saved.instances.get(instance_id)
        return None if member_id is None else self.saved.members.get(member_id)

    def check_commit(self, claim: CommitClaim) -> None:
        """Refuse an OffsetCommit that its sender may not make in this consumer group.

        Errors, in this order: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH. A classic
        member may use any version, and gets ILLEGAL_GENERATION for a stale epoch.
        """
        # A consumer without a subscription, or a tool that resets offsets.
        if claim.epoch < 0 and self.is_empty():
            return
        member = self.saved.members.get(claim.member_id)
        if member is None:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {claim.member_id!r}."
            )
        # KIP-848: version 9 is the first in which the field is a member epoch. A classic member's
        # is a generation in any version.
        if claim.version < 9 and not member.is_classic:
            raise Refused(
                Code.UNSUPPORTED_VERSION,
                "A member of a consumer group commits with version 9 or newer.",
            )
        units = (
            self.saved.units.unit(topic_id, partition) for topic_id, partition in claim.partitions
        )
        if not may_commit(member, claim.epoch, units):
            raise _stale_epoch_error(member, claim.epoch)

    def check_fetch(self, claim: FetchClaim) -> None:
        """Refuse an OffsetFetch that names another epoch than its sender's.

        Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, in any version.
        """
        # Tools and consumers without a subscription name neither.
        if claim.member_id is None and claim.epoch < 0:
            return
        member = self.saved.members.get(claim.member_id or "")
        if member is None:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {claim.member_id!r}."
            )
        if member.epoch != claim.epoch:
            raise _stale_epoch_error(member, claim.epoch)

    def check_offset_deletion(self) -> None:
        """Refuse nothing: the members' topics are known."""

    def session_or_none(self, _member_id: str) -> tuple[Key, int] | None:
        """Return None: a commit does not restart the session in a consumer group."""
        return None

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """Yield the records that delete the group, which must be empty."""
        # Copied: each record deletes what it names as soon as it is yielded.
        for expression in list(self.saved.resolutions):
            yield records.regular_expression(self.group_id, expression, None)
        yield from records.group_tombstones(self.group_id)


def may_commit(member: ConsumerGroupMember, claimed: int, units: Iterable[int]) -> bool:
    """Return whether the member may commit offsets of `units` at the epoch `claimed` (KIP-1251).

    It may at its own epoch, and at an older one if all of `units` were already assigned to it then.
    units: those of the OffsetCommit.
    """
    # A newer epoch than the member's own was never given to it, so it is refused like an old one.
    if claimed >= member.epoch:
        return claimed == member.epoch
    # Pending revocation counts: a member commits what it gives up before it confirms that.
    assigned_at = member.assigned.as_mapping() | member.pending_revocation.as_mapping()
    return all(unit in assigned_at and assigned_at[unit] <= claimed for unit in units)


def _stale_epoch_error(member: ConsumerGroupMember, claimed: int) -> Refused:
    """Return STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a classic member."""
    # Clients of the classic protocol do not know STALE_MEMBER_EPOCH.
    code = Code.ILLEGAL_GENERATION if member.is_classic else Code.STALE_MEMBER_EPOCH
    return Refused(code, f"Member {member.member_id} is at epoch {member.epoch}, not {claimed}.")
