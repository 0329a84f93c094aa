"""Requests about topics and their records, in the versions where something changes."""

from collections.abc import Iterator
from typing import Any

from apportion.security.acls import CLUSTER_NAME, AclOperation
from apportion.wire.batch import encode_batch
from apportion.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.init_producer_id import InitProducerIdRequest
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
from tests.kafka.acl_matrix.values import (
    ALTER,
    CLUSTER,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GONE,
    HERE,
    IDEMPOTENT_WRITE,
    NO_ID,
    OTHER,
    OTHER_GONE,
    READ,
    TOPIC,
    TOPICS,
    WRITE,
    Case,
    Make,
    Need,
    Scene,
    constant,
)

WAIT_MS = 5_000
RECORD = encode_batch([(b"k", b"v", ())], timestamp_ms=1)
IDS = (HERE, OTHER, "of a strange id")


def on_mine(operation: AclOperation) -> tuple[Need, ...]:
    """The operation on the user's topics, those that are there and those that are not."""
    return Need(TOPIC, HERE, operation), Need(TOPIC, GONE, operation)


def produce(acks: int, names: tuple[str, ...] = TOPICS, **facts: Any) -> Make:
    """A batch for each topic."""

    def request(scene: Scene) -> Any:
        data = tuple(
            TopicProduceData(
                name=name,
                topic_id=scene.topic_id(name),
                partition_data=(PartitionProduceData(index=0, records=RECORD),),
            )
            for name in names
        )
        return ProduceRequest(acks=acks, timeout_ms=WAIT_MS, topic_data=data, **facts)

    return request


def fetch(names: tuple[str, ...] = TOPICS, partition: int = 1, **facts: Any) -> Make:
    """From the start of an empty partition of each topic."""

    def request(scene: Scene) -> Any:
        wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000_000)
        topics = tuple(
            FetchTopic(topic=name, topic_id=scene.topic_id(name), partitions=(wanted,))
            for name in names
        )
        return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, **facts)

    return request


def offsets(scene: Scene) -> Any:
    """The end of an empty partition of each topic."""
    wanted = ListOffsetsPartition(partition_index=1, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1,
        topics=tuple(ListOffsetsTopic(name=name, partitions=(wanted,)) for name in TOPICS),
    )


def epochs(scene: Scene) -> Any:
    """The end of an epoch of each topic."""
    wanted = OffsetForLeaderPartition(partition=1, leader_epoch=0)
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=tuple(OffsetForLeaderTopic(topic=name, partitions=(wanted,)) for name in TOPICS),
    )


def trim(scene: Scene) -> Any:
    """Nothing deleted from each topic."""
    wanted = DeleteRecordsPartition(partition_index=1, offset=0)
    return DeleteRecordsRequest(
        topics=tuple(DeleteRecordsTopic(name=name, partitions=(wanted,)) for name in TOPICS),
        timeout_ms=WAIT_MS,
    )


def metadata(names: tuple[str, ...] | None, **facts: Any) -> Make:
    """Topics by names; None for all."""

    facts.setdefault("allow_auto_topic_creation", False)

    def request(scene: Scene) -> Any:
        topics = (
            None
            if names is None
            else tuple(MetadataRequestTopic(name=name.format(token=scene.token)) for name in names)
        )
        return MetadataRequest(topics=topics, **facts)

    return request


def metadata_by_id(scene: Scene) -> Any:
    """Topics by their ids."""
    return MetadataRequest(
        topics=tuple(
            MetadataRequestTopic(name=None, topic_id=scene.topic_id(name)) for name in IDS
        ),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )


def metadata_cases() -> Iterator[Case]:
    """Metadata: by names, by ids, of everything, with operations, and of topics to be made."""
    needs = on_mine(DESCRIBE)
    for version in (0, 1, 4, 9, 10, 12, 13):
        yield Case(
            "Metadata of all",
            version,
            metadata(None if version else (), allow_auto_topic_creation=version < 4),
            needs,
        )
        # Older versions create what is not there.
        names = TOPICS if version >= 4 else (HERE, OTHER)
        yield Case(
            "Metadata", version, metadata(names, allow_auto_topic_creation=version < 4), needs
        )
    for version in (8, 10, 11, 13):
        asked: Any = {"include_topic_authorized_operations": True}
        if version < 11:
            asked["include_cluster_authorized_operations"] = True
        yield Case("Metadata with operations", version, metadata(TOPICS, **asked), needs)
    for version in (10, 11, 12, 13):
        yield Case("Metadata by id", version, metadata_by_id, needs)
    yield Case("Metadata of bad names", 12, metadata(("bad name", "")), needs)
    new = "new-{token}"
    for version in (4, 13):
        named = metadata((new,), allow_auto_topic_creation=True)
        yield Case(
            "Metadata that creates",
            version,
            named,
            (Need(TOPIC, new, CREATE), Need(TOPIC, new, DESCRIBE)),
        )
        yield Case(
            "Metadata that creates by the cluster",
            version,
            named,
            (Need(CLUSTER, CLUSTER_NAME, CREATE), Need(TOPIC, new, DESCRIBE)),
        )


def record_cases() -> Iterator[Case]:
    """Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""
    for version in (3, 8, 9, 12):
        yield Case("Produce", version, produce(-1), on_mine(WRITE))
    yield Case("Produce", 13, produce(-1, IDS), on_mine(WRITE))
    yield Case("Produce with wrong acks", 12, produce(5, (HERE, OTHER)), on_mine(WRITE))
    yield Case("Produce to one's own", 12, produce(1, (HERE,)), on_mine(WRITE))
    for version in (4, 7, 11, 12):
        yield Case("Fetch", version, fetch(), on_mine(READ))
    for version in (13, 18):
        yield Case("Fetch", version, fetch(IDS), on_mine(READ))
    yield Case("Fetch an unknown partition", 12, fetch(partition=9), on_mine(READ))
    as_replica = fetch(partition=9, replica_id=1)
    yield Case("Fetch as a replica", 12, as_replica, on_mine(READ))
    yield Case(
        "Fetch as a replica by the cluster",
        12,
        as_replica,
        (Need(CLUSTER, CLUSTER_NAME, CLUSTER_ACTION),),
    )
    for version in (1, 4, 6, 11):
        yield Case("ListOffsets", version, offsets, on_mine(DESCRIBE))
    for version in (2, 4):
        yield Case("OffsetForLeaderEpoch", version, epochs, on_mine(DESCRIBE))
        yield Case(
            "OffsetForLeaderEpoch by the cluster",
            version,
            epochs,
            (Need(CLUSTER, CLUSTER_NAME, CLUSTER_ACTION),),
        )
    for version in (0, 2):
        yield Case("DeleteRecords", version, trim, on_mine(DELETE))
    for version in (0, 2, 5):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        for name, need in (
            ("by the cluster", Need(CLUSTER, CLUSTER_NAME, IDEMPOTENT_WRITE)),
            ("by a topic", Need(TOPIC, HERE, WRITE)),
        ):
            yield Case(f"InitProducerId {name}", version, constant(request), (need,))


def create(*names: str, partitions: int = 1, is_real: bool = False) -> Make:
    """Topics to be created, mostly only tried."""

    def request(scene: Scene) -> Any:
        topics = tuple(
            CreatableTopic(
                name=name.format(token=scene.token),
                num_partitions=partitions,
                replication_factor=1,
            )
            for name in names
        )
        return CreateTopicsRequest(topics=topics, timeout_ms=WAIT_MS, validate_only=not is_real)

    return request


def delete(*names: str, by_id: bool = False, version: int = 6) -> Make:
    """Topics to be deleted, by name or by id."""

    def request(scene: Scene) -> Any:
        filled = [name.format(token=scene.token) for name in names]
        if version < 6:
            return DeleteTopicsRequest(topic_names=tuple(filled), timeout_ms=WAIT_MS)
        topics = (
            DeleteTopicState(name=None, topic_id=scene.topic_id(name))
            if by_id
            else DeleteTopicState(name=name, topic_id=NO_ID)
            for name in filled
        )
        return DeleteTopicsRequest(topics=tuple(topics), timeout_ms=WAIT_MS)

    return request


def grow(scene: Scene) -> Any:
    """Each topic is to have more partitions, only tried."""
    topics = tuple(CreatePartitionsTopic(name=name, count=5, assignments=None) for name in TOPICS)
    return CreatePartitionsRequest(topics=topics, timeout_ms=WAIT_MS, validate_only=True)


def topic_cases() -> Iterator[Case]:
    """CreateTopics, DeleteTopics and CreatePartitions."""
    by_cluster = Need(CLUSTER, CLUSTER_NAME, CREATE)
    for version in (2, 4, 5, 7):
        yield Case("CreateTopics", version, create(*TOPICS), on_mine(CREATE))
    yield Case("CreateTopics by the cluster", 7, create(*TOPICS), (by_cluster,))
    yield Case("CreateTopics of bad names", 7, create("bad name", ""), (by_cluster,))
    yield Case("CreateTopics of bad sizes", 7, create(GONE, partitions=0), on_mine(CREATE))
    new = "made-{token}"
    needs = (Need(TOPIC, new, CREATE), Need(TOPIC, new, DESCRIBE_CONFIGS))
    for version in (4, 5, 7):
        yield Case("CreateTopics indeed", version, create(new, is_real=True), needs)
    victim, foreign = "victim-{token}", "foreign-{token}"
    for version in (1, 4, 5, 6):
        yield Case(
            "DeleteTopics",
            version,
            delete(victim, foreign, GONE, OTHER_GONE, version=version),
            (Need(TOPIC, victim, DELETE), Need(TOPIC, GONE, DELETE)),
            (victim, foreign),
        )
    yield Case(
        "DeleteTopics by id",
        6,
        delete(victim, foreign, "of a strange id", by_id=True),
        (Need(TOPIC, victim, DELETE),),
        (victim, foreign),
    )
    for version in (0, 3):
        yield Case("CreatePartitions", version, grow, on_mine(ALTER))


TOPIC_CASES = [*metadata_cases(), *record_cases(), *topic_cases()]
