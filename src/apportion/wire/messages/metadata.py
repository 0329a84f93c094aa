"""Metadata: brokers, topics and the leader of every partition."""

from apportion.wire.fields import array, boolean, int16, int32, message, string, uuid


@message()
class MetadataRequestTopic:
    """One requested topic, by name or (from version 10 on) by id."""

    topic_id: bytes = uuid(since=10, ignorable=True)
    name: str | None = string(nullable=10)


@message(key=3, versions=range(14), flexible=9, type="request")
class MetadataRequest:
    """Request these topics; all if `topics` is null, or empty in version 0."""

    topics: tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, nullable=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    # DescribeCluster took its place (KIP-700).
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


@message()
class MetadataResponseBroker:
    """The address of one broker."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=1, default=None, ignorable=True)


@message()
class MetadataResponsePartition:
    """Leader and replicas of one partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1, ignorable=True)
    replica_nodes: tuple[int, ...] = array(int32())
    isr_nodes: tuple[int, ...] = array(int32())
    offline_replicas: tuple[int, ...] = array(int32(), since=5, ignorable=True)


@message()
class MetadataResponseTopic:
    """One topic with all its partitions, or its error."""

    error_code: int = int16()
    name: str | None = string(nullable=12)
    topic_id: bytes = uuid(since=10, ignorable=True)
    is_internal: bool = boolean(since=1, ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-(2**31))


@message(key=3, versions=range(14), flexible=9, type="response")
class MetadataResponse:
    """Brokers and topics of the cluster."""

    throttle_time_ms: int = int32(since=3, ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable=2, default=None, ignorable=True)
    controller_id: int = int32(since=1, default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-(2**31))
    error_code: int = int16(since=13, ignorable=True)
