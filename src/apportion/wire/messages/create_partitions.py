"""Give topics more partitions."""

from apportion.wire.fields import array, boolean, int16, int32, message, string


@message()
class CreatePartitionsAssignment:
    """Which brokers shall hold one new partition."""

    broker_ids: tuple[int, ...] = array(int32())


@message()
class CreatePartitionsTopic:
    """The number of partitions that one topic shall have in all."""

    name: str = string()
    count: int = int32()
    assignments: tuple[CreatePartitionsAssignment, ...] | None = array(
        CreatePartitionsAssignment, nullable=0
    )


@message(key=37, versions=range(4), flexible=2, type="request")
class CreatePartitionsRequest:
    """Grow these topics, or only check whether it could be done."""

    topics: tuple[CreatePartitionsTopic, ...] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@message()
class CreatePartitionsTopicResult:
    """Whether one topic has grown."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


@message(key=37, versions=range(4), flexible=2, type="response")
class CreatePartitionsResponse:
    """What became of every topic."""

    throttle_time_ms: int = int32()
    results: tuple[CreatePartitionsTopicResult, ...] = array(CreatePartitionsTopicResult)
