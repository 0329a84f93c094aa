"""Fetch: the request for some positions, and what a response has of each partition.

Pure translation both ways, for every client that reads logs. Requests name every topic by name and
id; the version in use decides which one is sent (ids since version 13, KIP-516).
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.errors import Code
from apportion.member.records.visible import visible
from apportion.topics import TopicIdPartition, by_topic
from apportion.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FETCH_BYTES = 8 << 20


class FetchPosition(NamedTuple):
    """The offset to fetch, and the leader epoch as the client knows it; -1: it knows none."""

    offset: int
    leader_epoch: int = -1


class PartitionFetch(NamedTuple):
    """One partition's part of a Fetch response.

    batches: visible data; the first may begin below the requested position. next_offset: the
    position to fetch next.
    log_start, stable_end: the bounds of what can be read now.
    code: the partition's error; NONE if there is none.
    """

    batches: tuple[memoryview, ...]
    next_offset: int
    log_start: int
    stable_end: int
    code: Code


def fetch_request(
    positions: Mapping[TopicIdPartition, FetchPosition],
    max_wait_ms: int,
    max_bytes: int = FETCH_BYTES,
) -> FetchRequest:
    """Return the Fetch request for these positions, at one leader."""
    topics = tuple(
        FetchTopic(
            topic=topic,
            topic_id=topic_id,
            partitions=tuple(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    partition_max_bytes=max_bytes,
                )
                for number, position in partitions
            ),
        )
        for (topic, topic_id), partitions in by_topic(positions).items()
    )
    # min_bytes 1: answered as soon as there is anything; read_committed: with the aborted
    # transactions.
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=1, topics=topics
    )


def parse_fetch_response(
    response: FetchResponse,
    positions: Mapping[TopicIdPartition, FetchPosition],
    end: int | None = None,
) -> dict[TopicIdPartition, PartitionFetch]:
    """Return each partition's part of the response.

    end: batches that start at or after it are left out.
    """
    by_name = {(each.topic, each.partition): each for each in positions}
    by_id = {(each.topic_id, each.partition): each for each in positions}
    fetched = {}
    for topic in response.responses:
        for data in topic.partitions:
            number = data.partition_index
            partition = (
                by_name[topic.topic, number]
                if topic.topic
                else by_id[bytes(topic.topic_id), number]
            )
            fetched[partition] = _partition_fetch(data, positions[partition].offset, end)
    return fetched


def _partition_fetch(data: PartitionData, position: int, end: int | None) -> PartitionFetch:
    seen = visible(data.records or b"", data.aborted_transactions or (), position, end)
    return PartitionFetch(
        seen.batches,
        seen.next_offset,
        data.log_start_offset,
        data.last_stable_offset,
        Code.of(data.error_code),
    )
