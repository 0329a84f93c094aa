"""CreateTopics: create topics with partition counts and settings."""

from apportion.wire.fields import array, boolean, int8, int16, int32, message, string, uuid


@message()
class CreatableReplicaAssignment:
    """The brokers of the replicas of one partition."""

    partition_index: int = int32()
    broker_ids: tuple[int, ...] = array(int32())


@message()
class CreatableTopicConfig:
    """One setting of the new topic."""

    name: str = string()
    value: str | None = string(nullable=0)


@message()
class CreatableTopic:
    """One topic to create; a count of -1 stands for the broker's default."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: tuple[CreatableReplicaAssignment, ...] = array(CreatableReplicaAssignment)
    configs: tuple[CreatableTopicConfig, ...] = array(CreatableTopicConfig)


@message(key=19, versions=range(2, 8), flexible=5, type="request")
class CreateTopicsRequest:
    """Create these topics; with `validate_only` only check whether that is possible."""

    topics: tuple[CreatableTopic, ...] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


@message()
class CreatableTopicConfigs:
    """One setting of the created topic."""

    name: str = string()
    value: str | None = string(nullable=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()


@message()
class CreatableTopicResult:
    """The created topic, or the error why it was not created."""

    name: str = string()
    topic_id: bytes = uuid(since=7, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=0, ignorable=True)
    topic_config_error_code: int = int16(since=5, tag=0, ignorable=True)
    num_partitions: int = int32(since=5, default=-1, ignorable=True)
    replication_factor: int = int16(since=5, default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = array(
        CreatableTopicConfigs, since=5, nullable=5, ignorable=True
    )


@message(key=19, versions=range(2, 8), flexible=5, type="response")
class CreateTopicsResponse:
    """The results of all topics."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: tuple[CreatableTopicResult, ...] = array(CreatableTopicResult)
