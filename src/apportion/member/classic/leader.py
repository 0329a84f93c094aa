"""The leader's part of a classic rebalance: decode subscriptions, assign, check and encode.

Pure: subscriptions and topic metadata in, one encoded assignment for every member out. A member
without partitions is sent an empty assignment, as some clients take missing bytes for an error. An
assignor that has to ask the cluster first is a generator, and stays pending between its queries.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.assign.checks import check_given
from apportion.errors import Code, DecodeError, Refused, Unanswerable
from apportion.member.assignors.checks import check_cooperative, partitions_of
from apportion.member.assignors.interface import Assignor
from apportion.member.assignors.serde import decode_subscription, encode_assignment
from apportion.rules import RunningRule
from apportion.wire.messages.join_group import JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment

T = TypeVar("T")
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
    """An assignor's generator, paused at a query, which the cluster has to answer."""

    assignor: Assignor
    running: RunningRule[dict[str, Given]]
    members: Mapping[str, Subscription]
    checks: bool

    @property
    def query(self) -> Any:
        """The query that the assignor waits for."""
        return self.running.query

    def resume(self, answer: Any, cluster: ClusterTopics) -> "AssignmentOutcome":
        """Send the cluster's answer to the assignor's query, or throw an error into the assignor.

        answer: Unanswerable if the query cannot be answered now, Refused if it never can.
        Raises Refused as `assign_partitions` does.
        """
        is_error = isinstance(answer, Unanswerable | Refused)
        proceed = self.running.fail if is_error else self.running.resume
        call_assignor(self.assignor, lambda: proceed(answer))
        return self.outcome(cluster)

    def outcome(self, cluster: ClusterTopics) -> "AssignmentOutcome":
        """Return the checked assignments of an assignor that has ended; itself before."""
        if not self.running.is_finished:
            return self
        given = self.running.result
        return _check_and_encode(self.assignor, cluster, self.members, given, checks=self.checks)


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
    answer = call_assignor(assignor, lambda: assignor.assign(cluster, members))
    if isinstance(answer, Generator):
        running = call_assignor(assignor, lambda: RunningRule(answer))
        return PendingAssignment(assignor, running, members, checks).outcome(cluster)
    return _check_and_encode(assignor, cluster, members, answer, checks=checks)


def _check_and_encode(
    assignor: Assignor,
    cluster: ClusterTopics,
    members: Mapping[str, Subscription],
    given: dict[str, Given],
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


def has_pending_revocation(members: Mapping[str, Subscription], given: Mapping[str, Given]) -> bool:
    """Return whether a partition that a member owns is assigned to no member (KIP-429).

    A cooperative assignor leaves it out until its owner has revoked it and rejoined.
    """
    assigned = {pair: None for own in given.values() for pair in partitions_of(own.partitions)}
    return any(
        pair not in assigned for member in members.values() for pair in partitions_of(member.owned)
    )


def call_assignor(assignor: Assignor, call: Callable[[], T]) -> T:
    """Call a method of the leader's assignor; raise Refused for any exception.

    The assignor may be the user's code.
    """
    try:
        return call()
    except Exception as error:
        raise assignor_failure(assignor, error) from error


def assignor_failure(assignor: Assignor, error: Exception) -> Refused:
    """Return an assignor's exception as Refused, which ends the membership."""
    if isinstance(error, Refused):
        return error
    # Retrying would call the same code with the same input; the application has to hear of it.
    return Refused(
        Code.INVALID_REQUEST,
        f"the assignor {assignor.name!r} failed: {type(error).__name__}: {error}",
    )
