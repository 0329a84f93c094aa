"""The requests of a simulated application, as parts of its script.

The rules that send them are those of `client.network_client`, which runs them over sockets.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from apportion.errors import Refused, Unanswerable
from apportion.member import offset_requests
from apportion.member.cluster_queries.groups import FindCoordinatorQuery
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.member.cluster_queries.retries import (
    RecordInterruption,
    Send,
    send_until_accepted,
)
from apportion.member.cluster_queries.topics import NO_LEADER_EPOCH, ListOffsetsQuery
from apportion.member.metadata_cache import MetadataCache
from apportion.member.offset_requests import AwaitOtherEpoch, request_offsets_within
from apportion.member.partition_leaders import SendToLeader
from apportion.member.queries import CommitOffsets, FetchCommitted, ReadMembership
from apportion.member.time_limits import Pause, ReadClock, within
from apportion.rules import Rule, rule_script
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, SendRequest, Sleep
from apportion.sim.kernel.clock import Script
from apportion.sim.kernel.observer import PartitionOwner
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import LATEST

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
    "DescribeConfigs": 4,
    "CreateTopics": 7,
    "IncrementalAlterConfigs": 1,
    "CreatePartitions": 3,
    "DeleteTopics": 6,
}


class AwaitMember(NamedTuple):
    """Effect: wait until the condition holds of the member, with False at the timeout."""

    timeout_ms: int
    condition: Callable[[Any], bool]


class Requester(Protocol):
    """A process that sends requests: its monotonic clock, and its interruptions.

    interruptions: see `MembershipSnapshot`.
    """

    interruptions: int

    def mono_ms(self) -> int:
        """Return the clock's milliseconds."""
        ...


class OffsetRequester(PartitionOwner, Protocol):
    """An application that commits and fetches offsets, with what its client knows of topics."""

    metadata: MetadataCache


def sending(query: BrokerQuery[Any], timeout_ms: int = REQUEST_TIMEOUT_MS) -> SendRequest:
    """Return the effect that sends the query once, for a script."""
    return SendRequest(query.request(), VERSIONS[query.api], timeout_ms)


def run_requests(process: Requester, rule: Rule[Any]) -> Script:
    """Run a rule that sends queries, with retries for REQUEST_TIMEOUT_MS, as a client does."""
    return rule_script(
        within(rule, REQUEST_TIMEOUT_MS), lambda query: answer_request(process, query)
    )


def answer_request(
    process: Requester, query: Send | SendToLeader | ReadClock | Pause | RecordInterruption
) -> Script:
    """Answer one query of a rule that has its time from `member/time_limits.py`."""
    match query:
        case ReadClock():
            return process.mono_ms()
        case Pause(pause_ms):
            yield Sleep(pause_ms)
            return None
        case RecordInterruption(group_id, has_moved):
            process.interruptions += 1
            if has_moved:
                # The search is what makes a broker create the offsets topic.
                yield sending(FindCoordinatorQuery(group_id))
            return None
    # The one broker is every leader, the coordinator, and any that a client may ask.
    sent, timeout_ms = query.query, query.timeout_ms
    assert timeout_ms is not None
    answer = yield sending(sent, timeout_ms)
    if answer is None:
        process.interruptions += 1
        raise Unanswerable(sent.api)
    if isinstance(query, SendToLeader):
        return query.query.results(answer)
    try:
        return query.query.parse(answer)
    except Refused as refused:
        # Scripts write the error into the trace, whose wording is fixed.
        raise Refused(refused.code, sent.api) from None


def ask(process: Requester, query: BrokerQuery[Any]) -> Script:
    """Send a process's query until a response without an error comes, as `run_requests` does."""
    return run_requests(process, send_until_accepted(query))


def request_offsets(
    application: OffsetRequester, request: CommitOffsets | FetchCommitted
) -> Script:
    """Commit or fetch offsets as a member, by the rule of `member.offset_requests`."""
    limit_ms = REQUEST_TIMEOUT_MS
    if isinstance(request, CommitOffsets) and request.timeout_ms is not None:
        limit_ms = request.timeout_ms

    def answer(query: Any) -> Script:
        match query:
            case ReadMembership():
                return application.snapshot()
            case AwaitOtherEpoch(epoch, wait_ms):
                return (yield AwaitMember(wait_ms, lambda member: member.view().epoch != epoch))
        return (yield from answer_request(application, query))

    rule = offset_requests.request_offsets(request, application.group, application.instance_id)
    return rule_script(request_offsets_within(rule, application.metadata, limit_ms), answer)


def fetch_topics(process: Requester, names: tuple[str, ...]) -> Script:
    """Fetch the topics that exist of these names, for a simulated process without a cache."""
    return (yield from run_requests(process, MetadataCache().fetch(names))).topics


def list_ends(process: Requester, partitions: Iterable[TopicIdPartition]) -> Script:
    """Fetch the end offsets of partitions, for a simulated process without a cache."""
    query = ListOffsetsQuery(LATEST, dict.fromkeys(partitions, NO_LEADER_EPOCH))
    return (yield from ask(process, query)) if query.leader_epochs else {}
