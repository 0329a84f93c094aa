"""CreatePartitions: raise the partition count of topics."""

from apportion.wire.fields import array, boolean, int16, int32, message, string


@message()
class CreatePartitionsAssignment:
    """The brokers of the replicas of one new partition."""

    broker_ids: tuple[int, ...] = array(int32())


@message()
class CreatePartitionsTopic:
    """One topic and its new partition count, old partitions included."""

    name: str = string()
    count: int = int32()
    assignments: tuple[CreatePartitionsAssignment, ...] | None = array(
        CreatePartitionsAssignment, nullable=0
    )


@message(key=37, versions=range(4), flexible=2, type="request")
class CreatePartitionsRequest:
    """Add partitions to these topics; with `validate_only` only check whether that is possible."""

    topics: tuple[CreatePartitionsTopic, ...] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@message()
class CreatePartitionsTopicResult:
    """The error of one topic, or none."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


@message(key=37, versions=range(4), flexible=2, type="response")
class CreatePartitionsResponse:
    """The results of all topics."""

    throttle_time_ms: int = int32()
    results: tuple[CreatePartitionsTopicResult, ...] = array(CreatePartitionsTopicResult)
