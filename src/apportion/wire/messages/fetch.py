"""Read record batches from partitions."""

from apportion.wire.fields import (
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    uuid,
)


@message()
class ReplicaState:
    """Which broker follows; -1 for a consumer."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@message()
class FetchPartition:
    """From where, and how much at most, to read of one partition."""

    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(since=17, tag=0, ignorable=True)
    high_watermark: int = int64(since=18, default=2**63 - 1, tag=1, ignorable=True)


@message()
class FetchTopic:
    """What to read of one topic, named up to version 12 and identified from 13."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: tuple[FetchPartition, ...] = array(FetchPartition)


@message()
class ForgottenTopic:
    """Partitions that leave the fetch session."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: tuple[int, ...] = array(int32())


@message(key=1, versions=range(4, 19), flexible=12, type="request")
class FetchRequest:
    """Read these partitions; wait up to `max_wait_ms` for `min_bytes`."""

    cluster_id: str | None = string(since=12, nullable=12, default=None, tag=0, ignorable=True)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState = struct(ReplicaState, since=15, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1, ignorable=True)
    isolation_level: int = int8(ignorable=True)
    session_id: int = int32(since=7, ignorable=True)
    session_epoch: int = int32(since=7, default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...] = array(FetchTopic)
    forgotten_topics_data: tuple[ForgottenTopic, ...] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11, ignorable=True)


@message()
class EpochEndOffset:
    """Where the leader's log parts from the reader's; -1 where it does not."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@message()
class LeaderIdAndEpoch:
    """Who leads the partition now; -1 where it is not said."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@message()
class SnapshotId:
    """The snapshot to read instead; -1 where there is none."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@message()
class AbortedTransaction:
    """A transaction whose records must be skipped."""

    producer_id: int = int64()
    first_offset: int = int64()


@message()
class PartitionData:
    """What was read of one partition: whole batches, the last one perhaps cut."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, since=12, tag=2)
    aborted_transactions: tuple[AbortedTransaction, ...] | None = array(
        AbortedTransaction, nullable=0, ignorable=True
    )
    preferred_read_replica: int = int32(since=11, default=-1)
    records: bytes | memoryview | None = records(nullable=0)


@message()
class FetchableTopicResponse:
    """What was read of one topic."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: tuple[PartitionData, ...] = array(PartitionData)


@message()
class NodeEndpoint:
    """Where a broker that `current_leader` names listens."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=0, default=None)


@message(key=1, versions=range(4, 19), flexible=12, type="response")
class FetchResponse:
    """What was read."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16(since=7, ignorable=True)
    session_id: int = int32(since=7)
    responses: tuple[FetchableTopicResponse, ...] = array(FetchableTopicResponse)
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, since=16, tag=0)
