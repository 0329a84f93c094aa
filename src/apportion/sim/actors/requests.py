"""The requests of a simulated application, as parts of its script, with their retries.

The rules that send them are those of `client.network_client`, which runs them over sockets.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from apportion.errors import Refused, Unanswerable
from apportion.member import offset_requests
from apportion.member.cluster_queries.groups import FindCoordinatorQuery
from apportion.member.cluster_queries.query import BrokerQuery, GroupQuery
from apportion.member.cluster_queries.retries import (
    PauseBeforeRetry,
    RecordInterruption,
    Send,
    send_until_accepted,
)
from apportion.member.cluster_queries.topics import NO_LEADER_EPOCH, ListOffsetsQuery
from apportion.member.metadata_cache import MetadataCache
from apportion.member.offset_requests import EPOCH_WAIT_MS, AwaitNewEpoch
from apportion.member.partition_leaders import SendToLeader
from apportion.member.queries import (
    AskCoordinator,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ReadMembership,
)
from apportion.member.time_limits import Pause, ReadClock
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
RETRY_MS = 100
TIMEOUT_MS = 5_000


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


def sending(query: BrokerQuery[Any], timeout_ms: int | None = None) -> SendRequest:
    """Return the effect that sends the query once, for a script.

    timeout_ms: how long it waits for an answer, if that is less than for any request.
    """
    if timeout_ms is None or timeout_ms > REQUEST_TIMEOUT_MS:
        timeout_ms = REQUEST_TIMEOUT_MS
    return SendRequest(query.request(), VERSIONS[query.api], timeout_ms)


def run_requests(process: Requester, rule: Rule[Any]) -> Script:
    """Run a rule that sends queries, with retries for TIMEOUT_MS, for a simulated process."""
    until_ms = process.mono_ms() + TIMEOUT_MS
    return (yield from rule_script(rule, lambda query: answer_request(process, query, until_ms)))


def answer_request(
    process: Requester,
    query: Send | SendToLeader | PauseBeforeRetry | ReadClock | Pause | RecordInterruption,
    until_ms: int,
) -> Script:
    """Answer one query of such a rule. until_ms: by the process's clock."""
    match query:
        case PauseBeforeRetry(error):
            if process.mono_ms() >= until_ms:
                raise error
            yield Sleep(RETRY_MS)
            return None
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
        case SendToLeader(_, asked, timeout_ms):
            answer = yield sending(asked, timeout_ms)
            if answer is None:
                process.interruptions += 1
                raise Unanswerable(asked.api)
            return asked.results(answer)
    sent = query.query
    if query.timeout_ms is not None:
        until_ms = min(until_ms, process.mono_ms() + query.timeout_ms)
    answer = yield sending(sent, query.timeout_ms)
    while answer is None:
        # The one broker here stands for all those that a client tries one after the other, and is
        # the coordinator, too.
        process.interruptions += 1
        if isinstance(sent, GroupQuery) or process.mono_ms() >= until_ms:
            raise Unanswerable(sent.api)
        yield Sleep(RETRY_MS)
        answer = yield sending(sent, query.timeout_ms)
    try:
        return sent.parse(answer)
    except Refused as refused:
        # Scripts write the error into the trace, whose wording is fixed.
        raise Refused(refused.code, sent.api) from None


def ask(process: Requester, query: BrokerQuery[Any]) -> Script:
    """Send a process's query until a response without an error comes, for TIMEOUT_MS at most."""
    return (yield from run_requests(process, send_until_accepted(query)))


def request_offsets(application: PartitionOwner, request: CommitOffsets | FetchCommitted) -> Script:
    """Commit or fetch offsets as a member, by the rule of `member.offset_requests`."""
    until_ms = application.mono_ms() + TIMEOUT_MS

    def answer(query: Any) -> Script:
        match query:
            case ReadMembership():
                return application.snapshot()
            case AskCoordinator(asked):
                return (yield from rule_script(send_until_accepted(asked), answer))
            case ExistingTopics(names):
                return (yield from fetch_topics(application, names))
            case AwaitNewEpoch(epoch, error):
                if application.mono_ms() >= until_ms:
                    raise error
                # KIP-848: a stale epoch is no loss; the next heartbeat's answer has the new one.
                yield AwaitMember(EPOCH_WAIT_MS, lambda member: member.view().epoch != epoch)
                return None
        return (yield from answer_request(application, query, until_ms))

    rule = offset_requests.request_offsets(request, application.group, application.instance_id)
    return rule_script(rule, answer)


def fetch_topics(process: Requester, names: tuple[str, ...]) -> Script:
    """Fetch the topics that exist of these names, for a simulated process without a cache."""
    return (yield from run_requests(process, MetadataCache().fetch(names))).topics


def list_ends(process: Requester, partitions: Iterable[TopicIdPartition]) -> Script:
    """Fetch the end offsets of partitions, for a simulated process without a cache."""
    query = ListOffsetsQuery(LATEST, dict.fromkeys(partitions, NO_LEADER_EPOCH))
    return (yield from ask(process, query)) if query.leader_epochs else {}
