"""What the leader of a classic generation does: read what the members said, let an assignor share out, refuse nonsense.

Pure: the members' bytes and the cluster in, every member's bytes out. Nobody is left without bytes: a member that gets nothing
is told so, for a client may take no bytes at all for an error. An assignor that must know more than topics asks on the way.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from apportion.errors import Code, DecodeError, Refused, Unanswerable
from apportion.member.assignors.checks import check_cooperative, check_given, partitions_of
from apportion.member.assignors.interface import AssignmentQueries, Assignor, Cluster, Given, Subscription
from apportion.member.assignors.serde import decode_subscription, encode_assignment
from apportion.wire.messages.join_group import JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment

T = TypeVar("T")
TRUSTED = "cooperative-sticky"  # it never gives away what another still has, and knows better than the check whose word is stale


class GroupSubscription(NamedTuple):
    """What the members said. unreadable: why, of each member whose word is no subscription; it counts as one that wants nothing."""

    members: dict[str, Subscription]
    unreadable: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """All that somebody wants."""
        return tuple(sorted(dict.fromkeys(topic for said in self.members.values() for topic in said.topics)))


def decode_group_subscription(joined: Iterable[JoinGroupResponseMember]) -> GroupSubscription:
    """The subscriptions by member id."""
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
    """What every member gets. withholds: something is given to nobody until its owner, from which it was taken, joins again."""

    assignments: tuple[SyncGroupRequestAssignment, ...]
    has_pending_revocation: bool


class PendingAssignment:
    """A plan in the making, whose assignor asks the cluster first. question: what it asks now."""

    def __init__(self, assignor: Assignor, asking: AssignmentQueries, members: Mapping[str, Subscription], checks: bool) -> None:
        self.query: Any = None
        self._assignor = assignor
        self._queries = asking
        self._members = members
        self._checks = checks

    def resume(self, answer: Any, cluster: Cluster) -> EncodedAssignments | None:
        """The question, None at first, has this answer; the plan, or None and another question. Refused as by `share_out`."""
        return self._advance(lambda: self._queries.send(answer), cluster)

    def fail(self, error: Unanswerable | Refused, cluster: Cluster) -> EncodedAssignments | None:
        """The question has no answer now; or, where it is refused, none ever."""
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
    """The plan, or what it waits for. Refused where the assignor fails or gives what no group may get, naming partition and member.

    checks: whether members keep what they have while they join, so that it must not be given to others yet.
    """
    answer = call_assignor(assignor, lambda: assignor.assign(cluster, members))
    if isinstance(answer, Generator):
        inquiry = PendingAssignment(assignor, answer, members, checks)
        return inquiry.resume(None, cluster) or inquiry
    return _plan(assignor, cluster, members, answer, checks=checks)


def _plan(
    assignor: Assignor, cluster: Cluster, said: Mapping[str, Subscription], given: dict[str, Given], *, checks: bool
) -> EncodedAssignments:
    check_given(cluster, said, given)
    if checks and assignor.name != TRUSTED:
        check_cooperative(said, given)
    return EncodedAssignments(
        tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(given.get(member, Given())))
            for member in said
        ),
        has_pending_revocation=checks and has_pending_revocation(said, given),
    )


def has_pending_revocation(members: Mapping[str, Subscription], given: Mapping[str, Given]) -> bool:
    """Whether somebody says to own what nobody is given: it waits for its owner to let go of it."""
    taken = {pair: None for share in given.values() for pair in partitions_of(share.partitions)}
    return any(pair not in taken for said in members.values() for pair in partitions_of(said.owned))


def call_assignor(assignor: Assignor, question: Callable[[], T]) -> T:
    """What an assignor answers. Refused where it fails: it may be foreign code, and must not take the member's thread with it."""
    try:
        return question()
    except Exception as error:
        raise assignor_failure(assignor, error) from error


def assignor_failure(assignor: Assignor, error: Exception) -> Refused:
    """What an assignor's error means to its member; what it refuses is its own word."""
    if isinstance(error, Refused):
        return error
    return Refused(Code.INVALID_REQUEST, f"the assignor {assignor.name!r} failed: {type(error).__name__}: {error}")
