"""ConsumerGroupPrepareAssignment: what a member needs to compute its group's target assignment.

Source: KIP-848. Apache Kafka never shipped this API, so its key here is one that no Kafka uses.
"""

from apportion.wire.fields import array, int8, int16, int32, message, octets, string, struct, uuid


@message(key=20848, flexible=0, type="request")
class ConsumerGroupPrepareAssignmentRequest:
    """Request the group's state, as the member that a heartbeat response has chosen."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()


@message()
class TargetPartitions:
    """Partitions of one topic in a member's older target assignment."""

    topic_id: bytes = uuid()
    partitions: tuple[int, ...] = array(int32())


@message()
class AssignorMetadata:
    """A member's metadata for the assignor, its version, and why it asks for a new assignment."""

    version: int = int16()
    reason: int = int8()
    metadata: bytes | memoryview = octets()


@message()
class AssignableMember:
    """One member of the group. subscribed_topic_ids: only of topics that exist."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=0, default=None)
    rack_id: str | None = string(nullable=0, default=None)
    subscribed_topic_ids: tuple[bytes, ...] = array(uuid())
    assignor: AssignorMetadata = struct(AssignorMetadata)
    topic_partitions: tuple[TargetPartitions, ...] = array(TargetPartitions)


@message()
class AssignablePartition:
    """One partition, with the racks of its replicas as far as they are known."""

    partition: int = int32()
    racks: tuple[str, ...] = array(string())


@message()
class AssignableTopic:
    """One topic to which members of the group subscribe."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: tuple[AssignablePartition, ...] = array(AssignablePartition)


@message(key=20848, flexible=0, type="response")
class ConsumerGroupPrepareAssignmentResponse:
    """The group at its epoch, for the assignor and the version on which all members agree."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    group_epoch: int = int32()
    assignor_name: str = string()
    assignor_version: int = int16()
    members: tuple[AssignableMember, ...] = array(AssignableMember)
    topics: tuple[AssignableTopic, ...] = array(AssignableTopic)
