"""The leader's part of a classic rebalance: decode subscriptions, assign, check and encode.

Pure: subscriptions and topic metadata in, one encoded assignment for every member out. A member
without partitions is sent an empty assignment, as some clients take missing bytes for an error. An
assignor that has to ask the cluster first stays pending between its queries (`assignors/runs.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.assign.checks import check_given
from apportion.errors import DecodeError
from apportion.member.assignors.checks import check_cooperative
from apportion.member.assignors.interface import Assignor
from apportion.member.assignors.runs import (
    AssignorOutcome,
    PausedAssignor,
    call_assignor,
    has_pending_revocation,
    run_assignor,
)
from apportion.member.assignors.serde import decode_subscription, encode_assignment
from apportion.wire.messages.join_group import JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment

TRUSTED = "cooperative-sticky"
"""The assignor whose assignments are not checked: it knows by generations whose claim is stale, and
never assigns what another member still owns.
"""


class GroupSubscription(NamedTuple):
    """The decoded subscriptions of all members of a classic group, by member id, at its leader.

    unreadable: one sentence for each subscription that cannot be decoded; its member has no topics.
    """

    members: dict[str, Subscription]
    unreadable: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics to which members of the classic group subscribe, in order of name.

        The leader requests their metadata before it assigns.
        """
        return tuple(
            sorted(
                dict.fromkeys(topic for member in self.members.values() for topic in member.topics)
            )
        )


def decode_group_subscription(joined: Iterable[JoinGroupResponseMember]) -> GroupSubscription:
    """Decode all members' subscriptions, which the leader's JoinGroup response has."""
    members: dict[str, Subscription] = {}
    unreadable = []
    for member in joined:
        try:
            members[member.member_id] = decode_subscription(
                member.metadata, member.group_instance_id
            )
        except DecodeError as error:
            # One broken member must not stop the rebalance of the others.
            members[member.member_id] = Subscription((), instance_id=member.group_instance_id)
            unreadable.append(f"the subscription of {member.member_id!r} cannot be read: {error}")
    return GroupSubscription(members, tuple(unreadable))


class EncodedAssignments(NamedTuple):
    """Every member's assignment, encoded for SyncGroup.

    has_pending_revocation: some partitions stay unassigned until their previous owner rejoins
    (KIP-429).
    """

    assignments: tuple[SyncGroupRequestAssignment, ...]
    has_pending_revocation: bool


@dataclass(frozen=True, slots=True)
class PendingAssignment:
    """An assignor that is paused at a query, with the group whose partitions it assigns."""

    paused: PausedAssignor
    members: Mapping[str, Subscription]
    checks: bool

    @property
    def query(self) -> Any:
        """The query that the assignor waits for."""
        return self.paused.query

    def resume(self, answer: Any, cluster: ClusterTopics) -> "AssignmentOutcome":
        """Resume the assignor, as `PausedAssignor.resume` does; check what it answers then.

        Raises Refused as `assign_partitions` does.
        """
        outcome = self.paused.resume(answer)
        assignor = self.paused.assignor
        return _checked_outcome(assignor, outcome, cluster, self.members, checks=self.checks)


AssignmentOutcome = EncodedAssignments | PendingAssignment
"""Assignments for SyncGroup, or the assignor that needs an answer first."""


def assign_partitions(
    assignor: Assignor, cluster: ClusterTopics, members: Mapping[str, Subscription], *, checks: bool
) -> AssignmentOutcome:
    """Run the leader's assignor; return its assignments for SyncGroup, or what is pending.

    checks: under the cooperative protocol members keep their partitions while they rejoin, so none
    may be assigned to another member yet (KIP-429).
    Raises Refused, naming partition and member, if the assignor fails or breaks its contract.
    """
    outcome = run_assignor(assignor, cluster, members)
    return _checked_outcome(assignor, outcome, cluster, members, checks=checks)


def _checked_outcome(
    assignor: Assignor,
    outcome: AssignorOutcome,
    cluster: ClusterTopics,
    members: Mapping[str, Subscription],
    *,
    checks: bool,
) -> AssignmentOutcome:
    """Return what an assignor has answered, checked and encoded, or what is pending."""
    if isinstance(outcome, PausedAssignor):
        return PendingAssignment(outcome, members, checks)
    # Reading the answer runs foreign code, too.
    return call_assignor(
        assignor, lambda: _check_and_encode(assignor, cluster, members, outcome, checks=checks)
    )


def _check_and_encode(
    assignor: Assignor,
    cluster: ClusterTopics,
    members: Mapping[str, Subscription],
    given: Mapping[str, Given],
    *,
    checks: bool,
) -> EncodedAssignments:
    """Check the leader's assignments against the assignor's contract; encode them for SyncGroup."""
    check_given(cluster, members, given)
    # Two members may claim a partition; only the assignor knows which claim is stale (KIP-792).
    if checks and assignor.name != TRUSTED:
        check_cooperative(members, given)
    return EncodedAssignments(
        tuple(
            SyncGroupRequestAssignment(
                member_id=member, assignment=encode_assignment(given.get(member, Given()))
            )
            # Every member, also those that the assignor forgot: the Java client takes an assignment
            # shorter than its version field for an illegal state.
            for member in members
        ),
        has_pending_revocation=checks and has_pending_revocation(members, given),
    )
