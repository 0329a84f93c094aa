"""The rules of Fetch: what is asked of which leader, and what an error says about the others.

`fetch_records` is one round for the poll of a consumer: each leader is asked once, and the next
poll is the retry. `fetch_from_leader` is one request, of which a round has one for each leader.
`batch/range_reader.py` is the other reader.
"""

from collections.abc import Mapping
from typing import TypeVar

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.records import (
    FetchPosition,
    FetchQuery,
    PartitionFetch,
)
from apportion.member.metadata_cache import MetadataCache
from apportion.member.partition_leaders import Leaders, SendToLeader, find_leaders
from apportion.member.reactions import Reaction, reaction
from apportion.member.time_limits import within
from apportion.rules import Rule
from apportion.topics import TopicIdPartition

Fetched = dict[TopicIdPartition, PartitionFetch]
Value = TypeVar("Value")


def fetch_records(
    cache: MetadataCache,
    positions: Mapping[TopicIdPartition, int],
    *,
    max_wait_ms: int,
    timeout_ms: int,
    turn: int = 0,
) -> Rule[Fetched]:
    """Fetch from these positions on; wait up to `max_wait_ms` while there is nothing to read.

    An error of one partition, or of its leader's whole response, is in the partition's part, so
    that nothing holds back what others have. A partition whose leader did not answer, or whose
    topic was deleted, is left out; that error is raised if nothing came at all.

    timeout_ms: for the metadata of all partitions, and for the response of each leader. turn: in
    each one another of a leader's partitions comes first.
    """
    by_node, errors = yield from within(find_leaders(cache, positions), timeout_ms)
    fetched = {
        partition: _failed(positions[partition], error)
        for partition, error in errors.items()
        if isinstance(error, Refused) and error.code is not Code.UNKNOWN_TOPIC_ID
    }
    for node_id, leaders in by_node.items():
        # One leader after the other: the waits add up, so they share `max_wait_ms`, and nobody
        # waits any more once there is something to return.
        is_waiting = not any(fetch.batches for fetch in fetched.values())
        wait_ms = max_wait_ms // len(by_node) if is_waiting else 0
        # Brokers fill a Fetch response in the request's order up to its size. A rotation of all
        # partitions would not do: behind those of other leaders, it is mostly the same one of this
        # leader that comes first.
        requested = fetch_positions(positions, rotated(leaders, turn))
        query = FetchQuery(requested, wait_ms, node_id=node_id)
        try:
            fetched |= yield from fetch_from_leader(cache, query, timeout_ms)
        except Refused as refused:
            fetched |= {each: _failed(positions[each], refused) for each in leaders}
        except Unanswerable as error:
            errors.update(dict.fromkeys(leaders, error))
    if errors and not fetched:
        raise [*errors.values()][-1]
    return fetched


def fetch_from_leader(cache: MetadataCache, query: FetchQuery, timeout_ms: int) -> Rule[Fetched]:
    """Send one Fetch request to its leader; forget the leaders that have moved or do not answer.

    Raises Refused for an error of the whole response, Unanswerable without one.
    """
    assert query.node_id is not None
    try:
        # The broker may hold the response for that long (fetch.max.wait.ms), so the wait comes on
        # top of the timeout.
        fetched: Fetched = yield SendToLeader(query.node_id, query, query.max_wait_ms + timeout_ms)
    except Unanswerable:
        # The leader may have moved to another broker when this one went down.
        for partition in query.positions:
            cache.forget_leader(partition)
        raise
    for partition, fetch in fetched.items():
        # Mostly none has an error, and the look-up of a reaction is dear.
        has_failed = fetch.code is not Code.NONE
        if has_failed and reaction(query.api, fetch.code) is Reaction.REFRESH_METADATA:
            cache.forget_leader(partition)
    return fetched


def fetch_positions(
    positions: Mapping[TopicIdPartition, int], leaders: Leaders
) -> dict[TopicIdPartition, FetchPosition]:
    """Return the positions of one leader's partitions, with the epochs in which it leads them."""
    return {
        partition: FetchPosition(positions[partition], leader.epoch)
        for partition, leader in leaders.items()
    }


def rotated(
    by_partition: Mapping[TopicIdPartition, Value], turn: int
) -> dict[TopicIdPartition, Value]:
    """Return the same, with another partition first in each turn."""
    order = sorted(by_partition)
    first = turn % len(order)
    return {partition: by_partition[partition] for partition in order[first:] + order[:first]}


def _failed(position: int, refused: Refused) -> PartitionFetch:
    """Return the part of a partition that could not be fetched."""
    return PartitionFetch((), position, refused.code, refused.why)
