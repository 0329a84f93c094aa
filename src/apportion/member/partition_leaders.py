"""The rule of queries to the leaders of partitions, such as ListOffsets: find, send, send again.

A query is split by leader, and only partitions without an answer are asked for again: of the leader
that fresh metadata names where the old one has moved or does not answer. How long it is sent again
the driver decides, which answers `SendToLeader`, and `Send` and `PauseBeforeRetry` of `retries.py`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.query import LeaderQuery, OffsetQuery
from apportion.member.cluster_queries.retries import PauseBeforeRetry
from apportion.member.cluster_queries.topics import Leader, ListOffsetsQuery
from apportion.member.metadata_cache import MetadataCache, no_leader
from apportion.member.reactions import Reaction, is_permanent, retry_or_raise
from apportion.rules import Rule, RuleQuery
from apportion.topics import TopicId, TopicIdPartition

Leaders = dict[TopicIdPartition, Leader]


@dataclass(frozen=True, slots=True)
class SendToLeader(RuleQuery):
    """Send the query once, to the leader with this node id. Answer: its `results`.

    timeout_ms: None: what the operation has left (`member/time_limits.py`).
    """

    node_id: int
    query: LeaderQuery[Any]
    timeout_ms: int | None = None


class LeaderSearch(NamedTuple):
    """The leaders of partitions by node, and the errors of those that cannot be looked up."""

    by_node: dict[int, Leaders]
    errors: dict[TopicIdPartition, Exception]


def find_leaders(
    cache: MetadataCache, partitions: Iterable[TopicIdPartition]
) -> Rule[LeaderSearch]:
    """Look up the leaders of these partitions, by Metadata where they are unknown.

    A topic is looked up once, whatever comes of it, and none any more once no broker has answered.
    """
    search = LeaderSearch({}, {})
    failed: dict[TopicId, Refused] = {}  # of the topics that were looked up
    unanswered: Unanswerable | None = None
    for partition in partitions:
        # Mostly all are known: a rule for each partition would cost more than the look.
        leader = cache.leader(partition)
        error = unanswered or failed.get(partition.topic_id)
        if leader is None and error is None:
            try:
                leader = yield from cache.find_leader(partition)
            except Refused as refused:
                error = failed[partition.topic_id] = refused
            except Unanswerable as unanswerable:
                error = unanswered = unanswerable
        elif isinstance(error, Refused) and error.code is Code.LEADER_NOT_AVAILABLE:
            error = no_leader(partition)
        if leader is not None:
            search.by_node.setdefault(leader.node_id, {})[partition] = leader
        elif error is not None:
            search.errors[partition] = error
    return search


def ask_leaders(
    cache: MetadataCache,
    partitions: Iterable[TopicIdPartition],
    query_of: Callable[[Leaders], OffsetQuery],
) -> Rule[dict[TopicIdPartition, int]]:
    """Send a query to the leaders of these partitions; return the offset of each partition.

    query_of: returns the query for the partitions of one leader. Raises the error of a partition
    that no retry mends.
    """
    found: dict[TopicIdPartition, int] = {}
    # Only what is still missing is asked for again: a partition that has answered keeps its answer.
    missing = tuple(partitions)
    while True:
        by_node, errors = yield from find_leaders(cache, missing)
        for error in errors.values():
            raise_unless_retriable(error)
        for node_id, leaders in by_node.items():
            query = query_of(leaders)
            try:
                results: dict[TopicIdPartition, int | Refused] = yield SendToLeader(node_id, query)
            except Unanswerable as unanswerable:
                # The leader may have moved to another broker when this one went down.
                for partition in leaders:
                    cache.forget_leader(partition)
                errors.update(dict.fromkeys(leaders, unanswerable))
                continue
            for partition, result in results.items():
                if not isinstance(result, Refused):
                    found[partition] = result
                    continue
                errors[partition] = result
                # Forgotten, so that the retry asks for the new leader instead of the same broker.
                if retry_or_raise(query.api, result) is Reaction.REFRESH_METADATA:
                    cache.forget_leader(partition)
        if not errors:
            return found
        yield PauseBeforeRetry([*errors.values()][-1])
        missing = tuple(errors)


def list_offsets(
    cache: MetadataCache,
    partitions: Iterable[TopicIdPartition],
    timestamp: int,
    *,
    read_uncommitted: bool = False,
) -> Rule[dict[TopicIdPartition, int]]:
    """Return the offset of each partition at `timestamp`, as of a `ListOffsetsQuery`."""

    def query_of(leaders: Leaders) -> ListOffsetsQuery:
        epochs = {each: leader.epoch for each, leader in leaders.items()}
        return ListOffsetsQuery(timestamp, epochs, read_uncommitted)

    return (yield from ask_leaders(cache, partitions, query_of))


def raise_unless_retriable(error: Exception) -> None:
    """Raise the error of a look-up or a read unless a retry may mend it."""
    # UNKNOWN_TOPIC_ID is retriable in Kafka, but no topic gets a deleted one's id.
    if is_permanent(error) or (isinstance(error, Refused) and error.code is Code.UNKNOWN_TOPIC_ID):
        raise error
