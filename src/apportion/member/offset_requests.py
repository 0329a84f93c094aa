"""The rule of a member's requests about offsets: as which member, and when they are sent again.

A commit or fetch carries the member's id and epoch, so the coordinator refuses an owner that has
been replaced. `client.group_membership` and the simulator's applications run this rule, with the
time limit of `request_offsets_within`.
"""

from dataclasses import dataclass
from typing import Any

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.offsets import (
    NO_MEMBER,
    Membership,
    OffsetCommitQuery,
    OffsetFetchQuery,
)
from apportion.member.cluster_queries.retries import PauseBeforeRetry, send_until_accepted
from apportion.member.deleted_topics import deleted_partitions
from apportion.member.membership import View
from apportion.member.metadata_cache import MetadataCache
from apportion.member.queries import (
    NO_MEMBER_INCARNATION,
    AskCoordinator,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    MembershipSnapshot,
    ReadMembership,
)
from apportion.member.reactions import Reaction, reaction
from apportion.member.time_limits import ReadClock, RetryDeadline, within
from apportion.rules import Rule, RuleQuery, rule_script

EPOCH_WAIT_MS = 1_000  # how long a member's next heartbeat is waited for before another try


@dataclass(frozen=True, slots=True)
class AwaitNewEpoch(RuleQuery):
    """Wait a moment for the member to have another epoch. Answer: None.

    Raises `error` if the request has no time left.
    """

    epoch: int
    error: Refused


@dataclass(frozen=True, slots=True)
class AwaitOtherEpoch(RuleQuery):
    """Wait until the member has another epoch. Answer: False at the timeout."""

    epoch: int
    timeout_ms: int


def request_offsets_within(
    request_rule: Rule[Any], cache: MetadataCache, limit_ms: int
) -> Rule[Any]:
    """Run a rule of `request_offsets` for `limit_ms` at most; return its result.

    cache: of the client, for the topics that exist.
    """
    started_ms: int = yield ReadClock()
    deadline = RetryDeadline(started_ms, limit_ms)

    def answer(query: Any) -> Rule[Any]:
        now_ms: int = yield ReadClock()
        left_ms = deadline.left_ms(now_ms)
        match query:
            case AskCoordinator(asked):
                return (yield from within(send_until_accepted(asked), left_ms))
            case ExistingTopics(names):
                return (yield from within(cache.topics(names, fresh=True), left_ms))
            case AwaitNewEpoch(epoch, error):
                if not (yield AwaitOtherEpoch(epoch, min(left_ms, EPOCH_WAIT_MS))):
                    yield from deadline.pause(error)
                return None
            case PauseBeforeRetry(error):
                return (yield from deadline.pause(error))
        return (yield query)

    return (yield from rule_script(request_rule, answer))


def request_offsets(
    request: CommitOffsets | FetchCommitted,
    group_id: str,
    instance_id: str | None,
) -> Rule[Any]:
    """Commit or fetch offsets as the member that the request names.

    Return the committed offsets for `FetchCommitted`, None for `CommitOffsets`. Raises Refused for
    a member that has lost the request's incarnation.

    If the coordinator answers that the epoch is stale, wait for the next heartbeat to bring the new
    one, and send it again: the member still owns its partitions (KIP-848, commits). If it does not
    know a topic, send the request again as long as the topic exists.
    """
    # An empty OffsetCommit would still be checked against the epoch, and could fail over nothing.
    if isinstance(request, CommitOffsets) and not request.offsets:
        return None
    if isinstance(request, FetchCommitted) and not request.partitions:
        return {}
    # The coordinator accepts a request that names no member while the group is empty.
    membership = NO_MEMBER
    while True:
        if request.incarnation != NO_MEMBER_INCARNATION:
            snapshot: MembershipSnapshot = yield ReadMembership()
            view = snapshot.view
            # Epochs below 1 are not those of an admitted member (KIP-848), so the coordinator would
            # refuse the request anyway, or, in an empty group, accept a commit that nobody may
            # make. Another incarnation: after a loss of the membership nothing is committed as the
            # member that joined since.
            if view.epoch <= 0 or view.incarnation != request.incarnation:
                raise not_in_group(group_id, view)
            membership = Membership(view.member_id, view.epoch, instance_id)
        query = _offset_query(request, group_id, membership)
        try:
            return (yield AskCoordinator(query))
        except Refused as error:
            refused = error
        yield from _await_retry(query, refused)


def not_in_group(group_id: str, view: View) -> Refused:
    """Return the error of a request whose member is not, or no longer, in its group."""
    # With an epoch it is in the group, but not as the member that had the request's partitions.
    why = (
        f"this member has joined group {group_id!r} since its last poll; its partitions of before "
        "are lost, and the next poll says what it owns now"
        if view.epoch > 0
        else f"this member is not in group {group_id!r} now ({view.state.value})"
    )
    return Refused(Code.UNKNOWN_MEMBER_ID, why)


def _offset_query(
    request: CommitOffsets | FetchCommitted, group_id: str, membership: Membership
) -> OffsetCommitQuery | OffsetFetchQuery:
    if isinstance(request, CommitOffsets):
        return OffsetCommitQuery(group_id, request.offsets, membership, request.metadata)
    return OffsetFetchQuery(group_id, request.partitions, membership)


def _await_retry(query: OffsetCommitQuery | OffsetFetchQuery, refused: Refused) -> Rule[None]:
    """Wait until a refused request may be sent again; raise the error if that cannot help."""
    needed = reaction(query.api, refused.code)
    if needed is Reaction.RETRY_WITH_NEW_EPOCH and query.membership is not NO_MEMBER:
        yield AwaitNewEpoch(query.membership.epoch, refused)
        return
    if needed is Reaction.RETRY_UNLESS_DELETED and isinstance(query, OffsetCommitQuery):
        deleted = yield from deleted_partitions(query.offsets)
        if not deleted:
            yield PauseBeforeRetry(refused)
            return
    raise refused
