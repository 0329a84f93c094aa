"""ListOffsets and OffsetForLeaderEpoch: where a log starts, ends, and was at some time.

ListOffsets by version: 1-6 times, latest, earliest; 7 the largest timestamp; 8 earliest local; 9
latest tiered; 11 earliest not yet tiered. Nothing is tiered here. There is one leader epoch for
ever, 0, because there is one broker.
"""

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.partitions import LEADER_EPOCH, Partition
from apportion.topics import grouped
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from apportion.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -4, -5, -6
FIRST_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
FIRST_EPOCH_VERSION = 4
NO_OFFSET = (-1, -1, -1)  # offset, timestamp, leader epoch


def list_offsets(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle ListOffsets: look the offset of a timestamp up for each partition.

    Only records below the high watermark count.
    """
    request: ListOffsetsRequest = arrived.request
    mentions_of_each = grouped(
        ((topic.name, partition.partition_index), partition)
        for topic in request.topics
        for partition in topic.partitions
    )
    results = grouped(
        (name, _list_partition(broker, name, mentions, arrived.version))
        for (name, _), mentions in mentions_of_each.items()
    )
    topics = (ListOffsetsTopicResponse(name=name, partitions=own) for name, own in results.items())
    return Answer(ListOffsetsResponse(topics=tuple(topics)))


def _list_partition(
    broker: BrokerContext, topic: str, mentions: tuple[ListOffsetsPartition, ...], version: int
) -> ListOffsetsPartitionResponse:
    """Return the result of one partition for ListOffsets.

    A partition that the request names twice gets INVALID_REQUEST once.
    """
    requested = mentions[0]
    try:
        if len(mentions) > 1:
            raise Refused(Code.INVALID_REQUEST, "the request names this partition twice")
        partition = broker.partition(
            topic, requested.partition_index, leader_epoch=requested.current_leader_epoch
        )
        offset, timestamp_ms, epoch = _offset(partition, requested.timestamp, version)
    except Refused as refused:
        return ListOffsetsPartitionResponse(
            partition_index=requested.partition_index,
            error_code=refused.code,
            timestamp=-1,
            offset=-1,
            leader_epoch=-1,
        )
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=epoch if version >= FIRST_EPOCH_VERSION else -1,
    )


def _offset(partition: Partition, timestamp_ms: int, version: int) -> tuple[int, int, int]:
    """Return offset, timestamp and leader epoch for a ListOffsets timestamp.

    timestamp_ms: negative ones ask for LATEST, EARLIEST and so on. NO_OFFSET if no record is that
        young.
    """
    if version < FIRST_VERSIONS.get(timestamp_ms, 0) or timestamp_ms < EARLIEST_PENDING:
        raise Refused(
            Code.UNSUPPORTED_VERSION, f"version {version} has no timestamp {timestamp_ms}"
        )
    if timestamp_ms == LATEST:
        # Not the end of the log: records that are not on the disk yet may be cut back.
        return partition.high_watermark, -1, LEADER_EPOCH
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return partition.start_offset, -1, LEADER_EPOCH
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING):
        return NO_OFFSET
    if timestamp_ms == MAX_TIMESTAMP:
        offset_and_time = partition.max_timestamp_or_none()
    else:
        offset_and_time = partition.log.offset_at_time(timestamp_ms, partition.high_watermark)
    return NO_OFFSET if offset_and_time is None else (*offset_and_time, LEADER_EPOCH)


def offset_for_leader_epoch(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle OffsetForLeaderEpoch: return the end of each partition for the one epoch there is.

    Any other epoch is undefined (-1).
    """
    request: OffsetForLeaderEpochRequest = arrived.request
    return Answer(
        OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=tuple(
                        _epoch_end(broker, topic.topic, requested) for requested in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
    )


def _epoch_end(
    broker: BrokerContext, topic: str, requested: OffsetForLeaderPartition
) -> EpochEndOffset:
    """Return the end of a leader epoch in one partition, for OffsetForLeaderEpoch."""
    try:
        partition = broker.partition(
            topic, requested.partition, leader_epoch=requested.current_leader_epoch
        )
    except Refused as refused:
        return EpochEndOffset(
            partition=requested.partition, error_code=refused.code, leader_epoch=-1, end_offset=-1
        )
    is_known = requested.leader_epoch == LEADER_EPOCH
    return EpochEndOffset(
        partition=requested.partition,
        leader_epoch=LEADER_EPOCH if is_known else -1,
        end_offset=partition.high_watermark if is_known else -1,
    )


HANDLERS: dict[type, BrokerHandler] = {
    ListOffsetsRequest: list_offsets,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch,
}
