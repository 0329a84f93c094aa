"""Produce as a query: batches of records for the partitions of one leader."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from apportion.member.cluster_queries.query import BrokerQuery, by_partition
from apportion.topics import TopicIdPartition, by_topic
from apportion.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ALL_REPLICAS = -1
"""The acks of a client to which an acknowledged record must survive the loss of the leader."""


@dataclass(frozen=True, slots=True)
class ProduceQuery(BrokerQuery[dict[TopicIdPartition, int]]):
    """Append one batch to each of these partitions, with acks=all.

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
            for (topic, topic_id), partitions in by_topic(self.batches).items()
        )
        return ProduceRequest(acks=ALL_REPLICAS, timeout_ms=self.timeout_ms, topic_data=topics)

    def results(
        self, response: ProduceResponse
    ) -> dict[TopicIdPartition, PartitionProduceResponse]:
        """Return each partition's result, as far as the response has them."""
        results = {
            (topic.name or bytes(topic.topic_id), result.index): result
            for topic in response.responses
            for result in topic.partition_responses
        }
        return by_partition(results, self.batches)

    def parse(self, response: ProduceResponse) -> dict[TopicIdPartition, int]:
        """Return the offset of each batch's first record; raise Refused if any has an error."""
        results = self.results(response)
        self.refuse_errors(result.error_code for result in results.values())
        return {partition: result.base_offset for partition, result in results.items()}
