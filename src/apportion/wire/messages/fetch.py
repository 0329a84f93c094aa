"""Fetch: read record batches from partitions."""

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
    """The broker of the replica that fetches; -1 for a consumer."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@message()
class FetchPartition:
    """The offset to read one partition from, and the most bytes of it."""

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
    """The partitions of one topic, which is named up to version 12, and has an id from 13 on."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: tuple[FetchPartition, ...] = array(FetchPartition)


@message()
class ForgottenTopic:
    """Partitions to remove from the fetch session."""

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
    # KIP-227. No session is ever opened here, so every request names all of its partitions.
    session_id: int = int32(since=7, ignorable=True)
    session_epoch: int = int32(since=7, default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...] = array(FetchTopic)
    forgotten_topics_data: tuple[ForgottenTopic, ...] = array(ForgottenTopic, since=7)
    # KIP-392: to read from a nearby follower. There are none here.
    rack_id: str = string(since=11, ignorable=True)


@message()
class EpochEndOffset:
    """Point at which the reader's log diverges from the leader's; -1 if it does not."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@message()
class LeaderIdAndEpoch:
    """The current leader of the partition; -1 if unknown."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@message()
class SnapshotId:
    """The snapshot to read instead; -1 for none."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@message()
class AbortedTransaction:
    """An aborted transaction, whose records the reader must skip."""

    producer_id: int = int64()
    first_offset: int = int64()


@message()
class PartitionData:
    """The batches read from one partition; the last one may be cut off."""

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
    """The results of one topic."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: tuple[PartitionData, ...] = array(PartitionData)


@message()
class NodeEndpoint:
    """The address of a broker that `current_leader` names."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=0, default=None)


@message(key=1, versions=range(4, 19), flexible=12, type="response")
class FetchResponse:
    """The batches of the requested partitions."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16(since=7, ignorable=True)
    session_id: int = int32(since=7)
    responses: tuple[FetchableTopicResponse, ...] = array(FetchableTopicResponse)
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, since=16, tag=0)
