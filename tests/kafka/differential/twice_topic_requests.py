"""Requests about topics, partitions and their records, each with several elements in its lists."""

from collections.abc import Callable
from typing import Any

from apportion.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from apportion.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kafka.differential.wrong import NO_TOPIC, WAIT_MS, ZERO_ID, batch

Make = Callable[[bytes, str], Any]
TWICE = "twice"


def produce(twice: bytes, group: str) -> Any:
    """Two batches."""
    wanted = tuple(PartitionProduceData(index=index, records=batch(index + 1)) for index in (0, 1))
    topics = (TopicProduceData(name=TWICE, topic_id=twice, partition_data=wanted),)
    return ProduceRequest(acks=-1, timeout_ms=WAIT_MS, topic_data=topics)


def ends(twice: bytes, group: str) -> Any:
    """Where the partitions end."""
    wanted = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(3))
    return ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=TWICE, partitions=wanted),)
    )


def fetch(start: int, min_bytes: int = 1, **facts: Any) -> Make:
    """Two partitions from their start, or (far behind it) from their end."""

    def request(twice: bytes, group: str) -> Any:
        wanted = tuple(
            FetchPartition(partition=index, fetch_offset=start, partition_max_bytes=1_000_000)
            for index in (0, 1)
        )
        topics: Any = (FetchTopic(topic=TWICE, topic_id=twice, partitions=wanted),)
        return FetchRequest(
            **{"max_wait_ms": 300, "min_bytes": min_bytes, "topics": topics} | facts
        )

    return request


def forget_partitions(twice: bytes, group: str) -> Any:
    """A fetch that forgets partitions of a session that there never was."""
    gone = (ForgottenTopic(topic=TWICE, topic_id=twice, partitions=(0, 1)),)
    return FetchRequest(max_wait_ms=10, min_bytes=1, forgotten_topics_data=gone)


def epochs(twice: bytes, group: str) -> Any:
    """Ends of the epoch."""
    wanted = tuple(OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in (0, 1))
    topics = tuple(
        OffsetForLeaderTopic(topic=name, partitions=wanted) for name in (TWICE, NO_TOPIC)
    )
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def metadata(twice: bytes, group: str) -> Any:
    """Topics that are there and that are not."""
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in (TWICE, NO_TOPIC)),
        allow_auto_topic_creation=False,
    )


def metadata_by_id(twice: bytes, group: str) -> Any:
    """One topic by its id."""
    return MetadataRequest(
        topics=(MetadataRequestTopic(name=None, topic_id=twice),), allow_auto_topic_creation=False
    )


def metadata_by_both(twice: bytes, group: str) -> Any:
    """One topic by its name and by its id."""
    named, by_id = MetadataRequestTopic(name=TWICE), MetadataRequestTopic(name=None, topic_id=twice)
    return MetadataRequest(topics=(named, by_id), allow_auto_topic_creation=False)


def create(twice: bytes, group: str) -> Any:
    """Two topics."""
    settings = tuple(
        CreatableTopicConfig(name=name, value=value)
        for name, value in (("cleanup.policy", "delete"), ("retention.ms", "1"))
    )
    topics = tuple(
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)
        for name in ("x1", "x2")
    )
    return CreateTopicsRequest(topics=topics, timeout_ms=WAIT_MS, validate_only=True)


def create_by_assignment(twice: bytes, group: str) -> Any:
    """A topic whose partitions are placed."""
    here = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in (0, 1)
    )
    topic = CreatableTopic(name="x1", num_partitions=-1, replication_factor=-1, assignments=here)
    return CreateTopicsRequest(topics=(topic,), timeout_ms=WAIT_MS, validate_only=True)


def delete_topics(twice: bytes, group: str) -> Any:
    """Topics that are not there."""
    names = (DeleteTopicState(name=name, topic_id=ZERO_ID) for name in (NO_TOPIC, "x2"))
    ids = (DeleteTopicState(name=None, topic_id=each) for each in (b"no topic at all!", ZERO_ID))
    return DeleteTopicsRequest(topics=(*names, *ids), timeout_ms=WAIT_MS)


def delete_named_topics(twice: bytes, group: str) -> Any:
    """Likewise, before version 6."""
    return DeleteTopicsRequest(topic_names=(NO_TOPIC, "x2"), timeout_ms=WAIT_MS)


def grow(twice: bytes, group: str) -> Any:
    """Topics that shall have more partitions, which are placed."""
    here = tuple(CreatePartitionsAssignment(broker_ids=(1,)) for _ in range(2))
    topics = tuple(
        CreatePartitionsTopic(name=name, count=5, assignments=here) for name in (TWICE, NO_TOPIC)
    )
    return CreatePartitionsRequest(topics=topics, timeout_ms=WAIT_MS, validate_only=True)


def trim(twice: bytes, group: str) -> Any:
    """Records to delete."""
    wanted = tuple(DeleteRecordsPartition(partition_index=index, offset=0) for index in (0, 1))
    topics = tuple(DeleteRecordsTopic(name=name, partitions=wanted) for name in (TWICE, NO_TOPIC))
    return DeleteRecordsRequest(topics=topics, timeout_ms=WAIT_MS)


def configs(twice: bytes, group: str) -> Any:
    """Two settings of two topics."""
    resources = tuple(
        DescribeConfigsResource(
            resource_type=2,
            resource_name=name,
            configuration_keys=("cleanup.policy", "retention.ms"),
        )
        for name in (TWICE, NO_TOPIC)
    )
    return DescribeConfigsRequest(resources=resources)
