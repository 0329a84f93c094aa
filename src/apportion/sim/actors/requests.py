"""The requests of a simulated application, as parts of its script, with their retries.

`member.reactions` says which error codes are retried. `client.cluster.Cluster` does the same over
sockets.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from apportion.errors import Refused, Unanswerable
from apportion.member import offset_requests
from apportion.member.cluster_queries.groups import FindCoordinatorQuery
from apportion.member.cluster_queries.query import BrokerQuery, GroupQuery
from apportion.member.cluster_queries.topics import (
    NO_LEADER_EPOCH,
    ListOffsetsQuery,
    MetadataQuery,
)
from apportion.member.membership import MemberAssignment
from apportion.member.offset_requests import AwaitNewEpoch, PauseBeforeRetry
from apportion.member.queries import (
    AskCoordinator,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ReadMembership,
)
from apportion.member.reactions import Reaction, retry_or_raise
from apportion.member.topic_cache import TopicCache
from apportion.rules import rule_script
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
    "ListGroups": 5,
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
        # Lost on the way there or back: every request of these scripts may be sent twice without
        # harm.
        failure: Exception = Unanswerable(query.api)
        if answer is not None:
            try:
                return query.parse(answer)
            except Refused as refused:
                # Scripts write the error into the trace, whose wording is fixed.
                failure = named = Refused(refused.code, query.api)
                reaction = retry_or_raise(query.api, named)
                # The search is what makes a broker create the offsets topic.
                if reaction is Reaction.FIND_COORDINATOR and isinstance(query, GroupQuery):
                    yield sending(FindCoordinatorQuery(query.group_id))
        if process.mono_ms() >= until_ms:
            raise failure
        yield Sleep(RETRY_MS)


def ask(process: Clocked, query: BrokerQuery[Any]) -> Script:
    """Send a process's query until a response without an error comes, for TIMEOUT_MS at most."""
    return (yield from send_until_accepted(process, query, process.mono_ms() + TIMEOUT_MS))


def request_offsets(application: PartitionOwner, request: CommitOffsets | FetchCommitted) -> Script:
    """Commit or fetch offsets as a member, by the rule of `member.offset_requests`."""
    until_ms = application.mono_ms() + TIMEOUT_MS

    def answer(query: Any) -> Script:
        match query:
            case ReadMembership():
                return application.snapshot()
            case AskCoordinator(asked):
                return (yield from send_until_accepted(application, asked, until_ms))
            case ExistingTopics(names):
                return (yield from fetch_topics(application, names))
        assert isinstance(query, (AwaitNewEpoch, PauseBeforeRetry))
        if application.mono_ms() >= until_ms:
            raise query.error
        if isinstance(query, PauseBeforeRetry):
            yield Sleep(RETRY_MS)
            return
        # KIP-848: a stale epoch is no loss; the next heartbeat's answer has the new one.
        yield AwaitMember(EPOCH_WAIT_MS, lambda member: member.view().epoch != query.epoch)

    rule = offset_requests.request_offsets(request, application.group, application.instance_id)
    return rule_script(rule, answer)


def list_offsets(process: Clocked, partitions: Iterable[TopicIdPartition], when: int) -> Script:
    """Fetch the start (EARLIEST) or end offsets (LATEST) of partitions, for a simulated process."""
    query = ListOffsetsQuery(when, dict.fromkeys(partitions, NO_LEADER_EPOCH))
    return (yield from ask(process, query)) if query.leader_epochs else {}


def fetch_topics(process: Clocked, names_or_ids: Iterable[str | TopicId]) -> Script:
    """Fetch the topics that exist of these names or ids, for a simulated process."""
    query = MetadataQuery(tuple(names_or_ids))
    return (yield from ask(process, query)).topics if query.names_or_ids else Topics()


def cached_topics(
    process: Clocked, cache: TopicCache, names: Iterable[str], *, fresh: bool = False
) -> Script:
    """Return those of the named topics that exist, fetched if one is unknown or if `fresh`."""
    requested = tuple(dict.fromkeys(names))
    if fresh or not cache.has(requested):
        yield from _fill_cache(process, cache, requested)
    return cache.named(requested)


def resolve_names(process: Clocked, cache: TopicCache, partitions: MemberAssignment) -> Script:
    """Return the partitions with topic names, those of deleted topics left out."""
    yield from _fill_cache(process, cache, cache.unknown_ids(partitions))
    return cache.resolve(partitions)


def _fill_cache(process: Clocked, cache: TopicCache, requested: Sequence[str | TopicId]) -> Script:
    topics = yield from fetch_topics(process, requested)
    cache.add(topics)
    cache.forget_missing(requested, topics)
