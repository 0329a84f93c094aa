"""The leader's part of a classic rebalance: decode subscriptions, run the assignor, check and
encode its answer.

Pure: subscriptions and topic metadata in, one encoded assignment for every member out. A member
that gets nothing is sent an empty assignment, as some clients take missing bytes for an error. An
assignor that has to ask the cluster first is a generator, and stays pending between its queries.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from apportion.errors import Code, DecodeError, Refused, Unanswerable
from apportion.member.assignors.checks import check_cooperative, check_given, partitions_of
from apportion.member.assignors.interface import (
    AssignmentQueries,
    Assignor,
    Cluster,
    Given,
    Subscription,
)
from apportion.member.assignors.serde import decode_subscription, encode_assignment
from apportion.wire.messages.join_group import JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment

T = TypeVar("T")
# it never gives away what another still has, and knows better than the check whose word is stale
TRUSTED = "cooperative-sticky"


class GroupSubscription(NamedTuple):
    """The decoded subscriptions of all members, by member id.

    unreadable: one sentence for each subscription that cannot be decoded; its member counts as
    subscribed to nothing.
    """

    members: dict[str, Subscription]
    unreadable: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """All subscribed topics, in order of name."""
        return tuple(
            sorted(dict.fromkeys(topic for said in self.members.values() for topic in said.topics))
        )


def decode_group_subscription(joined: Iterable[JoinGroupResponseMember]) -> GroupSubscription:
    """Decode the subscriptions in a leader's JoinGroup response."""
    members: dict[str, Subscription] = {}
    unreadable = []
    for one in joined:
        try:
            members[one.member_id] = decode_subscription(one.metadata, one.group_instance_id)
        except DecodeError as error:
            members[one.member_id] = Subscription((), instance_id=one.group_instance_id)
            unreadable.append(f"the subscription of {one.member_id!r} cannot be read: {error}")
    return GroupSubscription(members, tuple(unreadable))


class EncodedAssignments(NamedTuple):
    """Every member's assignment, encoded for SyncGroup.

    has_pending_revocation: some partitions stay unassigned until their previous owner rejoins
    (KIP-429).
    """

    assignments: tuple[SyncGroupRequestAssignment, ...]
    has_pending_revocation: bool


class PendingAssignment:
    """An assignor's generator, paused at a query to the cluster. query: what it asks now."""

    def __init__(
        self,
        assignor: Assignor,
        asking: AssignmentQueries,
        members: Mapping[str, Subscription],
        checks: bool,
    ) -> None:
        self.query: Any = None
        self._assignor = assignor
        self._queries = asking
        self._members = members
        self._checks = checks

    def resume(self, answer: Any, cluster: Cluster) -> EncodedAssignments | None:
        """Send the answer (None at first).

        Return the assignments, or None if there is another query.

        Raises Refused as `assign_partitions` does.
        """
        return self._advance(lambda: self._queries.send(answer), cluster)

    def fail(self, error: Unanswerable | Refused, cluster: Cluster) -> EncodedAssignments | None:
        """Tell the assignor that the query has no answer: Unanswerable for now, Refused for
        good.
        """
        return self._advance(lambda: self._queries.throw(error), cluster)

    def _advance(self, step: Callable[[], Any], cluster: Cluster) -> EncodedAssignments | None:
        try:
            self.query = step()
        except StopIteration as end:
            return _plan(self._assignor, cluster, self._members, end.value, checks=self._checks)
        except Exception as error:
            raise assignor_failure(self._assignor, error) from error
        return None


def assign_partitions(
    assignor: Assignor, cluster: Cluster, members: Mapping[str, Subscription], *, checks: bool
) -> EncodedAssignments | PendingAssignment:
    """Run the assignor; return its checked, encoded assignments, or what is pending.

    checks: members keep their partitions while they rejoin, so none may be assigned to another
    member yet.
    Raises Refused, naming partition and member, where the assignor fails or breaks the contract.
    """
    answer = call_assignor(assignor, lambda: assignor.assign(cluster, members))
    if isinstance(answer, Generator):
        inquiry = PendingAssignment(assignor, answer, members, checks)
        return inquiry.resume(None, cluster) or inquiry
    return _plan(assignor, cluster, members, answer, checks=checks)


def _plan(
    assignor: Assignor,
    cluster: Cluster,
    said: Mapping[str, Subscription],
    given: dict[str, Given],
    *,
    checks: bool,
) -> EncodedAssignments:
    check_given(cluster, said, given)
    if checks and assignor.name != TRUSTED:
        check_cooperative(said, given)
    return EncodedAssignments(
        tuple(
            SyncGroupRequestAssignment(
                member_id=member, assignment=encode_assignment(given.get(member, Given()))
            )
            for member in said
        ),
        has_pending_revocation=checks and has_pending_revocation(said, given),
    )


def has_pending_revocation(members: Mapping[str, Subscription], given: Mapping[str, Given]) -> bool:
    """Return whether a partition that a member owns is assigned to nobody, until that member
    revokes it.
    """
    taken = {pair: None for share in given.values() for pair in partitions_of(share.partitions)}
    return any(pair not in taken for said in members.values() for pair in partitions_of(said.owned))


def call_assignor(assignor: Assignor, question: Callable[[], T]) -> T:
    """Call an assignor, turning whatever it raises into Refused: it may be foreign code."""
    try:
        return question()
    except Exception as error:
        raise assignor_failure(assignor, error) from error


def assignor_failure(assignor: Assignor, error: Exception) -> Refused:
    """Return an assignor's exception as Refused; one that it raised as Refused stays as it is."""
    if isinstance(error, Refused):
        return error
    return Refused(
        Code.INVALID_REQUEST,
        f"the assignor {assignor.name!r} failed: {type(error).__name__}: {error}",
    )
