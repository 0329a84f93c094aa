"""The records of a coordinator in `__consumer_offsets`: keys and values in Kafka's schemas.

A key's number is its record type. Kafka also reads type 0 as an offset commit; it writes 1, as we
do. Tags from 848 on are of KIP-848's client-side assignors, which no Kafka has; it reads over them.
"""

from apportion.wire.fields import (
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    octets,
    string,
    struct,
    uuid,
)


@message(key=1, type="key")
class OffsetCommitKey:
    """The committed offset of one partition in one group."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(key=1, versions=range(5), flexible=4, type="value")
class OffsetCommitValue:
    """A committed offset: the next offset to read.

    Only version 1 keeps `expire_timestamp`, only version 4 the topic's id.
    """

    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    # From OffsetCommit 2 to 4, which had a retention time before KIP-211.
    expire_timestamp: int = int64(since=1, until=1, default=-1, ignorable=True)
    # Since Kafka 4.1. A topic that was deleted and created again does not get the old one's offset.
    topic_id: bytes = uuid(since=4, tag=0, ignorable=True)


@message(key=2, type="key")
class GroupMetadataKey:
    """A classic group."""

    group: str = string()


@message()
class MemberMetadata:
    """One member of a classic group, with what it sent and what the leader assigned it."""

    member_id: str = string()
    # KIP-345: a static member has to be known again after a restart of the broker.
    group_instance_id: str | None = string(since=3, nullable=3, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    # -1, as in version 0: the session timeout counts.
    rebalance_timeout: int = int32(since=1, ignorable=True, default=-1)
    session_timeout: int = int32()
    subscription: bytes | memoryview = octets()
    assignment: bytes | memoryview = octets()


@message(key=2, versions=range(5), flexible=4, type="value")
class GroupMetadataValue:
    """A classic group as its last generation left it."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=0)
    leader: str | None = string(nullable=0)
    # KIP-211: the retention of an empty group's offsets counts from this time.
    current_state_timestamp: int = int64(since=2, default=-1, ignorable=True)
    members: tuple[MemberMetadata, ...] = array(MemberMetadata)


@message(key=3, type="key")
class ConsumerGroupMetadataKey:
    """A consumer group."""

    group_id: str = string()


@message(key=3, flexible=0, type="value")
class ConsumerGroupMetadataValue:
    """The group's epoch, and the hash of the topic metadata that it was computed from."""

    epoch: int = int32()
    # KIP-1101, since Kafka 4.1. Before that the topics were in record 4.
    metadata_hash: int = int64(tag=0)
    # KIP-1282, since Kafka 4.4.
    creation_time_ms: int = int64(tag=1, default=-1)


@message(key=4, type="key")
class ConsumerGroupPartitionMetadataKey:
    """The topics that a consumer group subscribes to.

    Written by Kafka 4.0 only; later ones write tombstones.
    """

    group_id: str = string()


@message()
class PartitionMetadata:
    """The racks of one partition."""

    partition: int = int32()
    racks: tuple[str, ...] = array(string())


@message()
class TopicMetadata:
    """One topic as the group last saw it."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: tuple[PartitionMetadata, ...] = array(PartitionMetadata)


@message(key=4, flexible=0, type="value")
class ConsumerGroupPartitionMetadataValue:
    """All topics that the group subscribes to."""

    topics: tuple[TopicMetadata, ...] = array(TopicMetadata)


@message(key=5, type="key")
class ConsumerGroupMemberMetadataKey:
    """One member of a consumer group."""

    group_id: str = string()
    member_id: str = string()


@message()
class ClassicProtocol:
    """One protocol that a classic member of a consumer group offers."""

    name: str = string()
    metadata: bytes | memoryview = octets()


@message()
class ClassicMemberMetadata:
    """Metadata that a classic member of a consumer group sent in its JoinGroup."""

    session_timeout_ms: int = int32()
    supported_protocols: tuple[ClassicProtocol, ...] = array(ClassicProtocol)


@message()
class RecordClientAssignor:
    """An assignor that a member can run (`ClientAssignor`), as its last heartbeat described it."""

    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    version: int = int16()
    metadata: bytes | memoryview = octets()


@message(key=5, flexible=0, type="value")
class ConsumerGroupMemberMetadataValue:
    """The metadata of a member: its subscription and what else its heartbeats said."""

    instance_id: str | None = string(nullable=0)
    rack_id: str | None = string(nullable=0)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(string())
    subscribed_topic_regex: str | None = string(nullable=0)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable=0)
    # Only of a classic member: what a downgrade needs to make a classic group again.
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable=0, default=None, tag=0
    )
    # The preferred first.
    client_assignors: tuple[RecordClientAssignor, ...] = array(RecordClientAssignor, tag=848)


@message(key=6, type="key")
class ConsumerGroupTargetAssignmentMetadataKey:
    """The target assignment of a consumer group as a whole."""

    group_id: str = string()


@message(key=6, flexible=0, type="value")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was computed for, and when."""

    assignment_epoch: int = int32()
    # KIP-1263, since Kafka 4.3, which computes targets no faster than its interval allows.
    assignment_timestamp: int = int64(tag=0)


@message(key=7, type="key")
class ConsumerGroupTargetAssignmentMemberKey:
    """The target assignment of one member."""

    group_id: str = string()
    member_id: str = string()


@message()
class RecordTopicPartitions:
    """Partitions of one topic.

    assignment_epochs: the epoch at which each was assigned; in a current assignment only.
    """

    topic_id: bytes = uuid()
    partitions: tuple[int, ...] = array(int32())
    # KIP-1251, since Kafka 4.3: a commit with an older epoch is accepted back to this one.
    assignment_epochs: tuple[int, ...] | None = array(int32(), nullable=0, default=None, tag=0)


@message(key=7, flexible=0, type="value")
class ConsumerGroupTargetAssignmentMemberValue:
    """The partitions of the target assignment, and what a client-side assignor said beside them."""

    topic_partitions: tuple[RecordTopicPartitions, ...] = array(RecordTopicPartitions)
    error: int = int8(tag=848)
    metadata_version: int = int16(tag=849)
    metadata: bytes | memoryview = octets(tag=850)


@message(key=8, type="key")
class ConsumerGroupCurrentMemberAssignmentKey:
    """The current assignment of one member."""

    group_id: str = string()
    member_id: str = string()


@message(key=8, flexible=0, type="value")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The member's epochs and state, the partitions it may use and those it has to give up."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    # By `MemberState`; a number of a newer coordinator is read as UNKNOWN.
    state: int = int8()
    assigned_partitions: tuple[RecordTopicPartitions, ...] = array(RecordTopicPartitions)
    partitions_pending_revocation: tuple[RecordTopicPartitions, ...] = array(RecordTopicPartitions)


@message(key=16, type="key")
class ConsumerGroupRegularExpressionKey:
    """One regular expression that members of a consumer group subscribe to."""

    group_id: str = string()
    regular_expression: str = string()


@message(key=16, flexible=0, type="value")
class ConsumerGroupRegularExpressionValue:
    """The topics that it matched, at which version of the metadata and when."""

    topics: tuple[str, ...] = array(string())
    version: int = int64()
    timestamp: int = int64()
