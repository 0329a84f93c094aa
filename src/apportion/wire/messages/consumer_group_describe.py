"""ConsumerGroupDescribe: consumer groups with their members, epochs and assignments (KIP-848)."""

from apportion.wire.fields import array, boolean, int8, int16, int32, message, string, struct, uuid


@message(key=69, versions=range(2), flexible=0, type="request")
class ConsumerGroupDescribeRequest:
    """Request the descriptions of some consumer groups."""

    group_ids: tuple[str, ...] = array(string())
    include_authorized_operations: bool = boolean()


@message()
class TopicPartitions:
    """Partitions of one topic, by its id and its name."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: tuple[int, ...] = array(int32())


@message()
class Assignment:
    """The partitions of a member's current or target assignment."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions)


@message()
class Member:
    """One member of a consumer group, with its current and its target assignment."""

    member_id: str = string()
    instance_id: str | None = string(nullable=0, default=None)
    rack_id: str | None = string(nullable=0, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(string())
    subscribed_topic_regex: str | None = string(nullable=0, default=None)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8(since=1, default=-1, ignorable=True)  # 0 classic, 1 consumer


@message()
class DescribedGroup:
    """One consumer group with all its members, or the error why it cannot be described."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: tuple[Member, ...] = array(Member)
    authorized_operations: int = int32(default=-(2**31))


@message(key=69, versions=range(2), flexible=0, type="response")
class ConsumerGroupDescribeResponse:
    """The descriptions of the requested groups."""

    throttle_time_ms: int = int32()
    groups: tuple[DescribedGroup, ...] = array(DescribedGroup)
