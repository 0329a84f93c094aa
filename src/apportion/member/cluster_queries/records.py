"""Queries about records: Fetch and Produce, each for the partitions of one leader.

Requests name every topic by name and id; the version in use decides which one is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.query import LeaderQuery, OffsetQuery, result_key
from apportion.member.cluster_queries.visible import visible
from apportion.member.permissions import denial_or_none
from apportion.topics import TopicIdPartition, values_by_topic
from apportion.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from apportion.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

FETCH_BYTES = 8 << 20
ALL_REPLICAS = -1
"""The acks of a client to which an acknowledged record must survive the loss of the leader."""


class FetchPosition(NamedTuple):
    """The offset to fetch, and the leader epoch as the client knows it; -1: it knows none."""

    offset: int
    leader_epoch: int = -1


class PartitionFetch(NamedTuple):
    """One partition's part of a Fetch response.

    batches: visible data; the first may begin below the requested position. next_offset: the
    position to fetch next.
    code: the partition's error; NONE if there is none. why: the error in words, where there are
    more of them than the code's own.
    """

    batches: tuple[memoryview, ...]
    next_offset: int
    code: Code
    why: str = ""


@dataclass(frozen=True, slots=True)
class FetchQuery(LeaderQuery[dict[TopicIdPartition, PartitionFetch]]):
    """Fetch records from these positions on, at one leader.

    max_wait_ms: how long the leader may hold the response while there is nothing. end: batches that
    start at or after it are left out of the result. node_id: of the leader, for the texts of errors
    of the whole response.
    """

    api: ClassVar[str] = "Fetch"

    positions: Mapping[TopicIdPartition, FetchPosition]
    max_wait_ms: int
    max_bytes: int = FETCH_BYTES
    end: int | None = None
    node_id: int | None = None

    @property
    def subject(self) -> str:
        """The query's name in the texts of its errors."""
        return self.api if self.node_id is None else f"fetch from broker {self.node_id}"

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
            for (topic, topic_id), partitions in values_by_topic(self.positions).items()
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
            by_key[result_key(topic.topic, topic.topic_id, data.partition_index)]: data
            for topic in response.responses
            for data in topic.partitions
        }
        # In the order of the response: what came first is delivered first.
        return {
            partition: _partition_fetch(data, self.positions[partition].offset, self.end)
            for partition, data in parts.items()
        }


def refusals(fetched: Mapping[TopicIdPartition, PartitionFetch]) -> dict[TopicIdPartition, Refused]:
    """Return the errors of partitions, without OFFSET_OUT_OF_RANGE.

    The caller decides about that one: a consumer by auto.offset.reset.
    """
    return {
        partition: Refused(fetch.code, fetch.why or _explanation(partition, fetch.code))
        for partition, fetch in fetched.items()
        if fetch.code not in (Code.NONE, Code.OFFSET_OUT_OF_RANGE)
    }


def _explanation(partition: TopicIdPartition, code: Code) -> str:
    why = denial_or_none(FetchQuery.api, code, (partition.topic,)) or code.sentence
    return f"{FetchQuery.api} of {partition}: {why}"


def _partition_fetch(data: PartitionData, position: int, end: int | None) -> PartitionFetch:
    seen = visible(data.records or b"", data.aborted_transactions or (), position, end)
    return PartitionFetch(
        seen.batches,
        seen.next_offset,
        Code.of(data.error_code),
    )


@dataclass(frozen=True, slots=True)
class ProduceQuery(OffsetQuery):
    """Append one batch to each of these partitions, with acks=all.

    Its results are the offsets of the batches' first records.

    timeout_ms: how long the leader may wait for the other replicas.
    """

    api: ClassVar[str] = "Produce"

    batches: Mapping[TopicIdPartition, bytes]
    timeout_ms: int

    def request(self) -> ProduceRequest:
        """Return the request to append the batches, to the leader of all these partitions."""
        topics = tuple(
            TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=tuple(
                    PartitionProduceData(index=number, records=batch)
                    for number, batch in partitions
                ),
            )
            for (topic, topic_id), partitions in values_by_topic(self.batches).items()
        )
        return ProduceRequest(acks=ALL_REPLICAS, timeout_ms=self.timeout_ms, topic_data=topics)

    def results(self, response: ProduceResponse) -> dict[TopicIdPartition, int | Refused]:
        """Return the offset or the error of each partition of the query."""
        answers = {
            result_key(topic.name, topic.topic_id, result.index): (
                result.error_code,
                result.base_offset,
            )
            for topic in response.responses
            for result in topic.partition_responses
        }
        return self.read_results(answers, self.batches)
