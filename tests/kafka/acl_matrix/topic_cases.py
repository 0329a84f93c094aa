"""Requests about topics and their records, in the versions where something changes."""

from typing import Any

from apportion.wire.batch import encode_batch
from tests.kafka.acl_matrix.values import (
    ALTER,
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
    Id,
    Make,
    Need,
    cases,
    made,
    on_cluster,
    topics,
)

WAIT_MS = 5_000
RECORD = encode_batch([(b"k", b"v", ())], timestamp_ms=1)
IDS = (HERE, OTHER, "of a strange id")
NEW, VICTIM, FOREIGN = "new-{token}", "victim-{token}", "foreign-{token}"


def produce(acks: int, *names: str) -> Make:
    """A batch for each topic, by name or by id."""
    batches = [{"index": 0, "records": RECORD}]
    data = [
        {"name": name, "topic_id": Id(name), "partition_data": batches} for name in names or TOPICS
    ]
    return made("Produce", acks=acks, timeout_ms=WAIT_MS, topic_data=data)


def fetch(*names: str, partition: int = 1, **facts: Any) -> Make:
    """From the start of an empty partition of each topic, by name or by id."""
    start = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
    wanted = [
        {"topic": name, "topic_id": Id(name), "partitions": [start]} for name in names or TOPICS
    ]
    return made("Fetch", max_wait_ms=0, min_bytes=0, topics=wanted, **facts)


def of_each(api: str, key: str, partition: dict[str, int], **facts: Any) -> Make:
    """The same about a partition of each topic, of which `key` is the name."""
    return made(api, topics=[{key: name, "partitions": [partition]} for name in TOPICS], **facts)


def metadata(*names: str, **facts: Any) -> Make:
    """Topics by names."""
    wanted: dict[str, Any] = {
        "topics": [{"name": name} for name in names],
        "allow_auto_topic_creation": False,
    }
    return made("Metadata", **wanted | facts)


def metadata_cases() -> list[Case]:
    """Metadata: by names, by ids, of everything, with operations, and of topics to be made."""
    needs = topics(DESCRIBE)
    creating = metadata(NEW, allow_auto_topic_creation=True)
    with_topics = {"include_topic_authorized_operations": True}
    with_all: Any = with_topics | {"include_cluster_authorized_operations": True}
    by_id = [{"name": None, "topic_id": Id(name)} for name in IDS]
    # Older versions create what is not there.
    old: Any = {"allow_auto_topic_creation": True}
    return [
        *cases("Metadata of all", 0, metadata(**old), *needs),
        *cases("Metadata of all", 1, metadata(topics=None, **old), *needs),
        *cases("Metadata of all", (4, 9, 10, 12, 13), metadata(topics=None), *needs),
        *cases("Metadata", (0, 1), metadata(HERE, OTHER, **old), *needs),
        *cases("Metadata", (4, 9, 10, 12, 13), metadata(*TOPICS), *needs),
        *cases("Metadata with operations", (8, 10), metadata(*TOPICS, **with_all), *needs),
        *cases("Metadata with operations", (11, 13), metadata(*TOPICS, **with_topics), *needs),
        *cases("Metadata by id", (10, 11, 12, 13), metadata(topics=by_id, **with_topics), *needs),
        *cases("Metadata of bad names", 12, metadata("bad name", ""), *needs),
        *cases(
            *("Metadata that creates", (4, 13), creating),
            *(Need(TOPIC, NEW, CREATE), Need(TOPIC, NEW, DESCRIBE)),
        ),
        *cases(
            *("Metadata that creates by the cluster", (4, 13), creating),
            *(on_cluster(CREATE), Need(TOPIC, NEW, DESCRIBE)),
        ),
    ]


def record_cases() -> list[Case]:
    """Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""
    writes, reads = topics(WRITE), topics(READ)
    as_replica = fetch(partition=9, replica_id=1)
    ends = of_each("ListOffsets", "name", {"partition_index": 1, "timestamp": -1}, replica_id=-1)
    epochs = of_each(
        "OffsetForLeaderEpoch", "topic", {"partition": 1, "leader_epoch": 0}, replica_id=-1
    )
    nothing = of_each(
        "DeleteRecords", "name", {"partition_index": 1, "offset": 0}, timeout_ms=WAIT_MS
    )
    producer_id = made("InitProducerId", transactional_id=None, transaction_timeout_ms=1_000)
    return [
        *cases("Produce", (3, 8, 9, 12), produce(-1), *writes),
        *cases("Produce", 13, produce(-1, *IDS), *writes),
        *cases("Produce with wrong acks", 12, produce(5, HERE, OTHER), *writes),
        *cases("Produce to one's own", 12, produce(1, HERE), *writes),
        *cases("Fetch", (4, 7, 11, 12), fetch(), *reads),
        *cases("Fetch", (13, 18), fetch(*IDS), *reads),
        *cases("Fetch an unknown partition", 12, fetch(partition=9), *reads),
        *cases("Fetch as a replica", 12, as_replica, *reads),
        *cases("Fetch as a replica by the cluster", 12, as_replica, on_cluster(CLUSTER_ACTION)),
        *cases("ListOffsets", (1, 4, 6, 11), ends, *topics(DESCRIBE)),
        *cases("OffsetForLeaderEpoch", (2, 4), epochs, *topics(DESCRIBE)),
        *cases("OffsetForLeaderEpoch by the cluster", (2, 4), epochs, on_cluster(CLUSTER_ACTION)),
        *cases("DeleteRecords", (0, 2), nothing, *topics(DELETE)),
        *cases(
            "InitProducerId by the cluster", (0, 2, 5), producer_id, on_cluster(IDEMPOTENT_WRITE)
        ),
        *cases("InitProducerId by a topic", (0, 2, 5), producer_id, *topics(WRITE, HERE)),
    ]


def create(*names: str, partitions: int = 1, validate_only: bool = True) -> Make:
    """Topics to be created, mostly only tried."""
    sizes = {"num_partitions": partitions, "replication_factor": 1}
    wanted = [{"name": name} | sizes for name in names]
    return made("CreateTopics", topics=wanted, timeout_ms=WAIT_MS, validate_only=validate_only)


def delete(**wanted: Any) -> Make:
    return made("DeleteTopics", timeout_ms=WAIT_MS, **wanted)


def topic_cases() -> list[Case]:
    """CreateTopics, DeleteTopics and CreatePartitions."""
    creates, indeed = topics(CREATE), "made-{token}"
    doomed = (VICTIM, FOREIGN, GONE, OTHER_GONE)
    deletes = (Need(TOPIC, VICTIM, DELETE), Need(TOPIC, GONE, DELETE))
    by_name = delete(topics=[{"name": name, "topic_id": NO_ID} for name in doomed])
    by_id = delete(
        topics=[
            {"name": None, "topic_id": Id(name)} for name in (VICTIM, FOREIGN, "of a strange id")
        ]
    )
    both: Any = {"topics": (VICTIM, FOREIGN)}
    more = [{"name": name, "count": 5, "assignments": None} for name in TOPICS]
    grow = made("CreatePartitions", topics=more, timeout_ms=WAIT_MS, validate_only=True)
    return [
        *cases("CreateTopics", (2, 4, 5, 7), create(*TOPICS), *creates),
        *cases("CreateTopics by the cluster", 7, create(*TOPICS), on_cluster(CREATE)),
        *cases("CreateTopics of bad names", 7, create("bad name", ""), on_cluster(CREATE)),
        *cases("CreateTopics of bad sizes", 7, create(GONE, partitions=0), *creates),
        *cases(
            *("CreateTopics indeed", (4, 5, 7), create(indeed, validate_only=False)),
            *(Need(TOPIC, indeed, CREATE), Need(TOPIC, indeed, DESCRIBE_CONFIGS)),
        ),
        *cases("DeleteTopics", (1, 4, 5), delete(topic_names=doomed), *deletes, **both),
        *cases("DeleteTopics", 6, by_name, *deletes, **both),
        *cases("DeleteTopics by id", 6, by_id, deletes[0], **both),
        *cases("CreatePartitions", (0, 3), grow, *topics(ALTER)),
    ]


TOPIC_CASES = [*metadata_cases(), *record_cases(), *topic_cases()]
