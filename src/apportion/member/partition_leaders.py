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
from apportion.member.metadata_cache import MetadataCache
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
    """Look up the leaders of these partitions, by Metadata where they are unknown."""
    search = LeaderSearch({}, {})
    without_leader: set[TopicId] = set()  # topics that were looked up just now
    for partition in partitions:
        leader = cache.leader(partition)
        try:
            if partition.topic_id in without_leader:
                leader = cache.known_leader(partition)
            # Mostly all are known: a rule for each partition would cost more than the look.
            elif leader is None:
                leader = yield from cache.find_leader(partition)
            search.by_node.setdefault(leader.node_id, {})[partition] = leader
        except (Refused, Unanswerable) as error:
            search.errors[partition] = error
            if isinstance(error, Refused) and error.code is Code.LEADER_NOT_AVAILABLE:
                without_leader.add(partition.topic_id)
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
    cache: MetadataCache, partitions: Iterable[TopicIdPartition], timestamp: int
) -> Rule[dict[TopicIdPartition, int]]:
    """Return the offset of each partition at `timestamp`: EARLIEST, LATEST or a time in ms."""

    def query_of(leaders: Leaders) -> ListOffsetsQuery:
        return ListOffsetsQuery(timestamp, {each: leader.epoch for each, leader in leaders.items()})

    return (yield from ask_leaders(cache, partitions, query_of))


def raise_unless_retriable(error: Exception) -> None:
    """Raise the error of a look-up or a read unless a retry may mend it."""
    # UNKNOWN_TOPIC_ID is retriable in Kafka, but no topic gets a deleted one's id.
    if is_permanent(error) or (isinstance(error, Refused) and error.code is Code.UNKNOWN_TOPIC_ID):
        raise error
