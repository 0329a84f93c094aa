"""ConsumerGroupHeartbeat: the one request by which a member joins, stays, acknowledges and leaves.

Source: KIP-848.
"""

from apportion.wire.fields import array, int16, int32, message, string, struct, uuid


@message()
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: tuple[int, ...] = array(int32())


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


@message()
class Assignment:
    """The partitions that the member may use from now on."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions)


@message(key=68, versions=range(2), flexible=0, type="response")
class ConsumerGroupHeartbeatResponse:
    """The member's epoch and, where it changed, its assignment.

    The next heartbeat is due after `heartbeat_interval_ms`.
    """

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    member_id: str | None = string(nullable=0, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    # Null: unchanged. Partitions pending revocation are never in it.
    assignment: Assignment | None = struct(Assignment, nullable=0, default=None)
