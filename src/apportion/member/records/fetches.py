"""Fetch as a query: records from some positions on, and what a response has of each partition.

Requests name every topic by name and
id; the version in use decides which one is sent (ids since version 13, KIP-516).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from apportion.errors import Code
from apportion.member.cluster_queries.query import BrokerQuery
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


@dataclass(frozen=True, slots=True)
class FetchQuery(BrokerQuery[dict[TopicIdPartition, PartitionFetch]]):
    """Fetch records from these positions on, at one leader.

    max_wait_ms: how long the leader may hold the response while there is nothing. end: batches that
    start at or after it are left out of the result.
    """

    api: ClassVar[str] = "Fetch"

    positions: Mapping[TopicIdPartition, FetchPosition]
    max_wait_ms: int
    max_bytes: int = FETCH_BYTES
    end: int | None = None

    def request(self) -> FetchRequest:
        """Return the request for the records, to the leader of all these partitions."""
        topics = tuple(
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=tuple(
                    FetchPartition(
                        partition=number,
                        current_leader_epoch=position.leader_epoch,
                        fetch_offset=position.offset,
                        partition_max_bytes=self.max_bytes,
                    )
                    for number, position in partitions
                ),
            )
            for (topic, topic_id), partitions in by_topic(self.positions).items()
        )
        # min_bytes 1: answered as soon as there is anything; read_committed: with the aborted
        # transactions.
        return FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=1,
            max_bytes=self.max_bytes,
            isolation_level=1,
            topics=topics,
        )

    def parse(self, response: FetchResponse) -> dict[TopicIdPartition, PartitionFetch]:
        """Return each partition's part of the response, in the order of the response.

        Raises Refused for an error of the whole response. That of a partition is in its part.
        """
        self.refuse_errors([response.error_code])
        by_key: dict[tuple[str | bytes, int], TopicIdPartition] = {}
        for partition in self.positions:
            for topic in (partition.topic, partition.topic_id):
                by_key[topic, partition.partition] = partition
        parts = {
            by_key[topic.topic or bytes(topic.topic_id), data.partition_index]: data
            for topic in response.responses
            for data in topic.partitions
        }
        # In the order of the response: what came first is delivered first.
        return {
            partition: _partition_fetch(data, self.positions[partition].offset, self.end)
            for partition, data in parts.items()
        }


def _partition_fetch(data: PartitionData, position: int, end: int | None) -> PartitionFetch:
    seen = visible(data.records or b"", data.aborted_transactions or (), position, end)
    return PartitionFetch(
        seen.batches,
        seen.next_offset,
        data.log_start_offset,
        data.last_stable_offset,
        Code.of(data.error_code),
    )
