"""ConsumerGroupInstallAssignment: the target assignment that a member has computed.

Source: KIP-848. Apache Kafka never shipped this API, so its key here is one that no Kafka uses.
"""

from apportion.wire.fields import array, int8, int16, int32, message, octets, string, uuid


@message()
class InstalledPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: tuple[int, ...] = array(int32())


@message()
class InstalledMember:
    """The target assignment of one member, and the assignor's bytes for it."""

    member_id: str = string()
    topic_partitions: tuple[InstalledPartitions, ...] = array(InstalledPartitions)
    metadata_version: int = int16()
    metadata: bytes | memoryview = octets()


@message(key=20849, flexible=0, type="request")
class ConsumerGroupInstallAssignmentRequest:
    """Install the target assignment that was computed for `group_epoch`.

    error: 0, or the assignor's own number of an error, which every member is told.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    group_epoch: int = int32()
    error: int = int8()
    members: tuple[InstalledMember, ...] = array(InstalledMember)


@message(key=20849, flexible=0, type="response")
class ConsumerGroupInstallAssignmentResponse:
    """The outcome: no error if the assignment was installed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
