"""ConsumerGroupHeartbeat: the one request by which a member joins, stays, acknowledges and leaves.

Source: KIP-848. Apache Kafka never shipped its client-side assignors. Their fields are tagged here,
with numbers that no Kafka uses, so a peer without them reads over them (KIP-482).
"""

from apportion.wire.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    octets,
    string,
    struct,
    uuid,
)


@message()
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: tuple[int, ...] = array(int32())


@message()
class ClientAssignor:
    """An assignor that a member can run, with the member's metadata for it.

    minimum_version, maximum_version: those of the metadata that it understands. version: that of
    `metadata`. reason: why it asks for a new assignment; 0 for none, any other its assignor's own.
    """

    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    version: int = int16()
    metadata: bytes | memoryview = octets()


@message(key=68, versions=range(2), flexible=0, type="request")
class ConsumerGroupHeartbeatRequest:
    """A heartbeat of a member of a consumer group. Null: unchanged since its last heartbeat.

    member_epoch: 0 joins, -1 leaves, -2 lets a static member leave temporarily.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=0, default=None)
    rack_id: str | None = string(nullable=0, default=None)
    # -1: unchanged. A member that joins has to send it.
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: tuple[str, ...] | None = array(string(), nullable=0, default=None)
    # "" drops an expression, null leaves it as it is.
    subscribed_topic_regex: str | None = string(since=1, nullable=1, default=None)
    server_assignor: str | None = string(nullable=0, default=None)
    # The partitions that the member still uses. An empty list confirms that it uses none; null says
    # nothing.
    topic_partitions: tuple[TopicPartitions, ...] | None = array(
        TopicPartitions, nullable=0, default=None
    )
    # The preferred first. An empty list drops them all.
    client_assignors: tuple[ClientAssignor, ...] | None = array(
        ClientAssignor, nullable=0, default=None, tag=848
    )


@message()
class Assignment:
    """The partitions that the member may use from now on, and what its client-side assignor said.

    error: 0 for none; any other number is its assignor's own.
    """

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions)
    error: int = int8(tag=848)
    metadata_version: int = int16(tag=849)
    metadata: bytes | memoryview = octets(tag=850)


@message()
class AssignorVersion:
    """The client-side assignor of the group, and the version that all its members understand."""

    name: str = string()
    version: int = int16()


@message(key=68, versions=range(2), flexible=0, type="response")
class ConsumerGroupHeartbeatResponse:
    """The member's epoch and, where it changed, its assignment.

    The next heartbeat is due after `heartbeat_interval_ms`.
    should_compute_assignment: the member is chosen to compute the group's target assignment.
    requested_version: the member's metadata is of another version than the group's, and has to be
    sent again in this one; with an empty name if it need not.
    """

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    member_id: str | None = string(nullable=0, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    # Null: unchanged. Partitions pending revocation are never in it.
    assignment: Assignment | None = struct(Assignment, nullable=0, default=None)
    should_compute_assignment: bool = boolean(tag=848)
    requested_version: AssignorVersion = struct(AssignorVersion, tag=849)
