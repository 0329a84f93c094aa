"""Produce: append record batches to partitions.

Versions 0 to 2 are decoded only to be refused.
"""

from apportion.wire.fields import array, int16, int32, int64, message, records, string, struct, uuid
from apportion.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint


@message()
class PartitionProduceData:
    """The batches for one partition, in the form of the log."""

    index: int = int32()
    records: bytes | memoryview | None = records(nullable=0)


@message()
class TopicProduceData:
    """The batches for one topic, which is named up to version 12, and has an id from 13 on."""

    name: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = array(PartitionProduceData)


@message(key=0, versions=range(14), flexible=9, type="request")
class ProduceRequest:
    """Append record batches.

    acks: 0 for no response, 1 for the leader, -1 for all in-sync replicas.
    """

    transactional_id: str | None = string(since=3, nullable=3, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: tuple[TopicProduceData, ...] = array(TopicProduceData)


@message()
class BatchIndexAndErrorMessage:
    """A refused record of a batch: its index and the reason (KIP-467)."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable=0, default=None)


@message()
class PartitionProduceResponse:
    """The base offset of the appended batch, or the error."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(since=2, default=-1, ignorable=True)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = array(
        BatchIndexAndErrorMessage, since=8, ignorable=True
    )
    error_message: str | None = string(since=8, nullable=8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=10, tag=0)


@message()
class TopicProduceResponse:
    """The results of one topic."""

    name: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = array(PartitionProduceResponse)


@message(key=0, versions=range(14), flexible=9, type="response")
class ProduceResponse:
    """The results of all partitions."""

    responses: tuple[TopicProduceResponse, ...] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(since=1, ignorable=True)
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, since=10, tag=0)
