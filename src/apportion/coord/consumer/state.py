"""What an incremental group is: `saved`, which only `apply_*` writes, and `live`, which a crash may lose.

The counters beside the members answer the questions of a steady heartbeat without looking at the members.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from apportion.coord import records
from apportion.coord.consumer.reconcile import CurrentAssignment, MemberState
from apportion.coord.consumer.units import (
    NO_ASSIGNED_UNITS,
    AssignedUnits,
    UnitArray,
    UnitNumbering,
    UnitOwners,
    by_topic_with_epochs,
)
from apportion.coord.group import CONSUMER_PROTOCOL_TYPE, CommitClaim, FetchClaim
from apportion.coord.records import CoordinatorRecord
from apportion.deadlines import Key
from apportion.errors import Code, Refused
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    RecordTopicPartitions,
)

if TYPE_CHECKING:
    from apportion.topics import Topics

FIRST_EPOCH = 1
NO_METADATA = ConsumerGroupMemberMetadataValue(instance_id=None, rack_id=None, subscribed_topic_regex="", server_assignor=None)
"""What is known of a member before its own record is read."""


class ConsumerGroupMember:
    """One member: what it said, what it has (`assigned`, `revoking`) and what it shall have (`target`; None before the first)."""

    __slots__ = ("assigned", "epoch", "member_id", "metadata", "pending_revocation", "previous_epoch", "state", "target")

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.metadata: ConsumerGroupMemberMetadataValue = NO_METADATA
        self.epoch = 0
        self.previous_epoch = -1
        self.state = MemberState.STABLE
        self.assigned: AssignedUnits = NO_ASSIGNED_UNITS
        self.pending_revocation: AssignedUnits = NO_ASSIGNED_UNITS
        self.target: UnitArray | None = None

    @property
    def is_classic(self) -> bool:
        """True for a member that speaks the classic protocol: it joins and syncs, and its generation is its epoch."""
        return self.metadata.classic_member_metadata is not None

    @property
    def current(self) -> CurrentAssignment[int]:
        """What the member has, to be reckoned with."""
        return CurrentAssignment(
            self.epoch, self.previous_epoch, self.state, self.assigned.as_mapping(), self.pending_revocation.as_mapping()
        )

    def units(self) -> list[int]:
        """Every unit that nobody else may have because of this member."""
        return [*self.assigned.units.tolist(), *self.pending_revocation.units.tolist()]


class ConsumerGroupSavedState:
    """What the log says of a group. Only `replay.apply_*` writes here."""

    __slots__ = (
        "assignment_epoch",
        "assignor_votes",
        "classic_member_count",
        "epoch",
        "instances",
        "members",
        "metadata_hash",
        "owners",
        "protocol_counts",
        "stable_members_by_epoch",
        "subscriber_counts",
        "units",
    )

    def __init__(self) -> None:
        self.epoch = self.assignment_epoch = FIRST_EPOCH  # of a new group; the wishes of its first member make it 2
        self.metadata_hash = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.instances: dict[str, str] = {}  # instance id -> member id
        self.units = UnitNumbering()
        self.owners = UnitOwners()
        self.subscriber_counts: dict[str, int] = {}  # topic name -> how many members subscribe to it
        self.assignor_votes: dict[str, int] = {}  # assignor -> how many members ask for it
        self.protocol_counts: dict[str, int] = {}  # protocol -> how many classic members speak it
        self.classic_member_count = 0  # how many members are classic ones
        self.stable_members_by_epoch: dict[int, int] = {}  # epoch -> how many members are STABLE there


class ConsumerGroupLiveState:
    """What is only worth knowing while this process lives."""

    __slots__ = ("seen_topics",)

    def __init__(self) -> None:
        self.seen_topics: Topics | None = None  # the snapshot that the saved hash was last compared with


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
        """True where the group has no members."""
        return not self.saved.members

    def has_converged(self) -> bool:
        """True where every member has what it shall have, by the newest target."""
        saved = self.saved
        at_target = saved.stable_members_by_epoch.get(saved.assignment_epoch, 0)
        return saved.epoch <= saved.assignment_epoch and at_target == len(saved.members)

    def state_name(self) -> str:
        """Empty, Assigning, Reconciling or Stable."""
        if self.is_empty():
            return "Empty"
        if self.saved.epoch > self.saved.assignment_epoch:
            return "Assigning"
        return "Stable" if self.has_converged() else "Reconciling"

    def subscribes_to(self, topic: str) -> bool:
        """True where some member wants that topic."""
        return topic in self.saved.subscriber_counts

    def expirable_since_ms_or_none(self, topic: str, committed_ms: int) -> int | None:
        """The wall time since when an offset of that topic, committed at `committed_ms`, is of no use; None while it is."""
        return None if self.subscribes_to(topic) else committed_ms

    def assignor(self, configured: tuple[str, ...]) -> str:
        """The assignor that most members ask for; the one configured first among equals, and where nobody asks."""
        votes = self.saved.assignor_votes
        return max(configured, key=lambda name: (votes.get(name, 0), -configured.index(name)))

    def static_member_or_none(self, instance_id: str) -> ConsumerGroupMember | None:
        """The member that has the place of that instance."""
        member_id = self.saved.instances.get(instance_id)
        return None if member_id is None else self.saved.members.get(member_id)

    def check_commit(self, claim: CommitClaim) -> None:
        """Refuses a commit that the member may not make.

        Errors: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, in this order; a classic member may use any version,
        and its last one is ILLEGAL_GENERATION.
        """
        if claim.epoch < 0 and self.is_empty():
            return
        member = self.saved.members.get(claim.member_id)
        if member is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {claim.member_id!r}.")
        if claim.version < 9 and not member.is_classic:
            raise Refused(Code.UNSUPPORTED_VERSION, "A member of a consumer group commits with version 9 or newer.")
        units = (self.saved.units.unit(topic_id, partition) for topic_id, partition in claim.partitions)
        if not may_commit(member, claim.epoch, units):
            raise _stale_epoch_error(member, claim.epoch)

    def check_fetch(self, claim: FetchClaim) -> None:
        """Refuses to show offsets to a member of another epoch. Errors: as `check_commit`, in any version."""
        if claim.member_id is None and claim.epoch < 0:
            return
        member = self.saved.members.get(claim.member_id or "")
        if member is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {claim.member_id!r}.")
        if member.epoch != claim.epoch:
            raise _stale_epoch_error(member, claim.epoch)

    def check_offset_deletion(self) -> None:
        """Nothing is refused: it is known which topics the members read."""

    def session_or_none(self, member_id: str) -> tuple[Key, int] | None:
        """A commit is no heartbeat here."""
        return None

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """The records after which the group, which has no members, is forgotten."""
        yield from records.group_tombstones(self.group_id)


def may_commit(member: ConsumerGroupMember, claimed: int, units: Iterable[int]) -> bool:
    """The commit is by the epoch that the member has, or by an older one at which it had been given all of `units`.

    Source: KIP-1251.
    """
    if claimed >= member.epoch:
        return claimed == member.epoch
    given = member.assigned.as_mapping() | member.pending_revocation.as_mapping()
    return all(unit in given and given[unit] <= claimed for unit in units)


def _stale_epoch_error(member: ConsumerGroupMember, claimed: int) -> Refused:
    """The refusal of an epoch that is not the member's, in the words of its protocol."""
    code = Code.ILLEGAL_GENERATION if member.is_classic else Code.STALE_MEMBER_EPOCH
    return Refused(code, f"Member {member.member_id} is at epoch {member.epoch}, not {claimed}.")


def to_current_assignment_value(hold: CurrentAssignment[int], units: UnitNumbering) -> ConsumerGroupCurrentMemberAssignmentValue:
    """A hold as its record says it."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=hold.epoch,
        previous_member_epoch=hold.previous_epoch,
        state=int(hold.state),
        assigned_partitions=_with_epochs(hold.assigned, units),
        partitions_pending_revocation=_with_epochs(hold.pending_revocation, units),
    )


def _with_epochs(grants: Mapping[int, int], units: UnitNumbering) -> tuple[RecordTopicPartitions, ...]:
    return tuple(
        RecordTopicPartitions(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs)
        for topic_id, partitions, epochs in by_topic_with_epochs(grants, units)
    )
