"""The requests of a simulated application, as parts of its script, with their retries.

`member.reactions` says which error codes are retried. `client.cluster.Cluster` does the same over
sockets.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.offsets import (
    NO_MEMBER,
    Membership,
    OffsetCommitQuery,
    OffsetFetchQuery,
)
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.member.cluster_queries.topics import (
    NO_LEADER_EPOCH,
    ListOffsetsQuery,
    MetadataQuery,
)
from apportion.member.reactions import Reaction, reaction
from apportion.sim.kernel.client import SendRequest, Sleep
from apportion.sim.kernel.clock import Script
from apportion.sim.kernel.observer import PartitionOwner
from apportion.topics import TopicId, TopicIdPartition, Topics

VERSIONS = {  # of the requests that applications use
    "OffsetCommit": 10,
    "OffsetFetch": 10,
    "FindCoordinator": 4,
    "Metadata": 12,
    "Produce": 12,
    "Fetch": 17,
    "ListOffsets": 9,
    "ConsumerGroupDescribe": 1,
    "DescribeGroups": 6,
    "CreateTopics": 7,
    "CreatePartitions": 3,
    "DeleteTopics": 6,
}
RETRY_MS = 100
TIMEOUT_MS = 5_000
EPOCH_WAIT_MS = 1_000  # how long to wait for the member's next epoch before committing again


class AwaitMember(NamedTuple):
    """Effect: wait until the condition holds of the member, with False at the timeout."""

    timeout_ms: int
    condition: Callable[[Any], bool]


class Clocked(Protocol):
    """Anything with a monotonic clock."""

    def mono_ms(self) -> int:
        """Return the clock's milliseconds."""
        ...


def sending(query: BrokerQuery[Any]) -> SendRequest:
    """Return the effect that sends the query once, for a script."""
    return SendRequest(query.request(), VERSIONS[query.api])


def send_until_accepted(process: Clocked, query: BrokerQuery[Any], until_ms: int) -> Script:
    """Send a process's query until a response without an error comes; return the result.

    `member.reactions` says which error codes are retried. Raises Refused for any other code, or
    Unanswerable at `until_ms` of the process's clock.
    """
    request = sending(query)
    while True:
        answer = yield request
        failure: Exception
        # Lost on the way there or back: every request of these scripts may be sent twice without
        # harm.
        if answer is None:
            failure = Unanswerable(query.api)
        else:
            try:
                return query.parse(answer)
            except Refused as refused:
                # Scripts write the error into the trace, whose wording is fixed.
                failure = Refused(refused.code, query.api)
                if reaction(query.api, refused.code) not in (
                    Reaction.RETRY,
                    Reaction.FIND_COORDINATOR,
                    Reaction.REFRESH_METADATA,
                ):
                    raise failure from None
        if process.mono_ms() >= until_ms:
            raise failure
        yield Sleep(RETRY_MS)


def ask(process: Clocked, query: BrokerQuery[Any]) -> Script:
    """Send a process's query until a response without an error comes, for TIMEOUT_MS at most."""
    return (yield from send_until_accepted(process, query, process.mono_ms() + TIMEOUT_MS))


def as_member(
    application: PartitionOwner, incarnation: int, send: Callable[[Membership, int], Script]
) -> Script:
    """Send a member's request with its id and epoch; again if the epoch changes.

    incarnation: of the member that may send it. 0 sends it without a member, as tools do.
    """
    until_ms = application.mono_ms() + TIMEOUT_MS
    if incarnation == 0:
        return (yield from send(NO_MEMBER, until_ms))
    while True:
        view = application.member.view()
        # As in `GroupMembership`: what was owned in an earlier incarnation must not be committed in
        # a later one.
        if view.epoch <= 0 or view.incarnation != incarnation:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID, f"{application.name} has no place in the group now"
            )
        try:
            return (
                yield from send(
                    Membership(view.member_id, view.epoch, application.instance_id), until_ms
                )
            )
        except Refused as refused:
            if (
                reaction("OffsetCommit", refused.code) is not Reaction.RETRY_WITH_NEW_EPOCH
                or application.mono_ms() >= until_ms
            ):
                raise
        # KIP-848: a stale epoch is no loss; the next heartbeat's answer has the new one.
        yield AwaitMember(EPOCH_WAIT_MS, _has_another_epoch(view.epoch))


def _has_another_epoch(epoch: int) -> Callable[[Any], bool]:
    return lambda member: member.view().epoch != epoch


def commit(
    application: PartitionOwner,
    offsets: Mapping[TopicIdPartition, int],
    incarnation: int,
    metadata: str = "",
) -> Script:
    """Commit offsets with OffsetCommit, for a simulated application."""

    def send(membership: Membership, until_ms: int) -> Script:
        """Send OffsetCommit with this member's id and epoch."""
        query = OffsetCommitQuery(application.group, offsets, membership, metadata)
        return send_until_accepted(application, query, until_ms)

    if offsets:
        yield from as_member(application, incarnation, send)


def committed_with_metadata(
    application: PartitionOwner, partitions: Iterable[TopicIdPartition], incarnation: int
) -> Script:
    """Fetch the committed offsets with their metadata, for a simulated application."""
    requested = tuple(partitions)

    def send(membership: Membership, until_ms: int) -> Script:
        """Send OffsetFetch with this member's id and epoch."""
        query = OffsetFetchQuery(application.group, requested, membership)
        return send_until_accepted(application, query, until_ms)

    return (yield from as_member(application, incarnation, send)) if requested else {}


def list_offsets(process: Clocked, partitions: Iterable[TopicIdPartition], when: int) -> Script:
    """Fetch the start (EARLIEST) or end offsets (LATEST) of partitions, for a simulated process."""
    query = ListOffsetsQuery(when, dict.fromkeys(partitions, NO_LEADER_EPOCH))
    return (yield from ask(process, query)) if query.leader_epochs else {}


def fetch_topics(process: Clocked, names_or_ids: Iterable[str | TopicId]) -> Script:
    """Fetch the topics that exist of these names or ids, for a simulated process."""
    query = MetadataQuery(tuple(names_or_ids))
    return (yield from ask(process, query)).topics if query.names_or_ids else Topics()
