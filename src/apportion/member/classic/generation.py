"""One generation of a classic group, as one of its members knows it: from JoinGroup to the next.

JoinGroup gives its number, its assignor and its leader. The leader decides all assignments, and
SyncGroup gives each member its own.
"""

from dataclasses import dataclass

from apportion.assign.by_name import Given, TopicShape
from apportion.member.classic.leader import GroupSubscription
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Generation:
    """A classic member's present generation: assignor, subscriptions and assignments.

    number: the generation id. protocol: the name of the chosen assignor. topics: all whose metadata
    is watched.
    group_subscription: the members' subscriptions, if this member leads; else None.
    assignments: what SyncGroup sends; () unless this member leads, None until its assignor has
    decided.
    unresolved: this member's assignment while the metadata of its topics is fetched; else None.
    is_settled: the assignment is known and is the owner's target.
    topic_shapes: the topics that a leader assigned, to compare later metadata with; None until
    metadata came.
    has_unassigned_partitions: this leader left partitions unassigned until their previous owner
    rejoins (KIP-429).
    """

    number: int = NO_GENERATION
    protocol: str = ""
    topics: tuple[str, ...] = ()
    group_subscription: GroupSubscription | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] | None = ()
    unresolved: Given | None = None
    is_settled: bool = False
    topic_shapes: dict[str, TopicShape] | None = None
    has_unassigned_partitions: bool = False

    @property
    def is_leader(self) -> bool:
        """Return whether this member leads: only the leader gets the subscriptions."""
        return self.group_subscription is not None

    @property
    def may_sync(self) -> bool:
        """Return whether SyncGroup can be sent: assignments are decided and none was received."""
        return not self.is_settled and self.assignments is not None and self.unresolved is None

    @property
    def awaits_topic_metadata(self) -> bool:
        """Return whether this leader skips the assignment (KIP-814) and has no topic metadata yet.

        The leader accepts its own assignment only with that metadata, to notice every later change.
        """
        return self.is_leader and self.assignments is not None and self.topic_shapes is None

    @property
    def has_pending_revocation(self) -> bool:
        """Return whether this leader still has to assign partitions that were revoked (KIP-429).

        The previous owner may be gone without having rejoined, so the leader checks again after a
        rebalance timeout.
        """
        return self.is_settled and self.has_unassigned_partitions
