"""One request of ours for every API and version that we speak: the answers are the real Kafka's, in
every version.
"""

import importlib
import pkgutil
import socket
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import apportion.wire.messages as messages
from apportion.wire.batch import encode_batch
from apportion.wire.codec import read, write
from apportion.wire.messages import (
    alter_configs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)

if TYPE_CHECKING:
    from tests.kafka.golden.proxy import exactly
    from tests.kafka.golden.security import SECURITY_BODIES
else:  # a script: its own directory is on the path
    from proxy import exactly

    from security import SECURITY_BODIES

NAME, GROUP, PARTITION = "birds", "sweep", 0


def produced(version: int, topic: bytes) -> Any:
    """One good record, and one for a partition that is not there."""
    batch = encode_batch([(b"k", b"v", (("h", b"x"),))], timestamp_ms=1_700_000_000_000)
    parts = tuple(
        produce.PartitionProduceData(index=index, records=batch) for index in (PARTITION, 99)
    )
    return produce.ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=(produce.TopicProduceData(name=NAME, topic_id=topic, partition_data=parts),),
    )


def fetched(version: int, topic: bytes) -> Any:
    """From the start of one partition, and from far behind the end of another."""
    parts = tuple(
        fetch.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=500)
        for index, offset in ((0, 0), (1, 10**6))
    )
    wanted = (fetch.FetchTopic(topic=NAME, topic_id=topic, partitions=parts),)
    return fetch.FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=2000, topics=wanted)


def listed_offsets(version: int, topic: bytes) -> Any:
    """The end, the start and a time."""
    parts = tuple(
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=at)
        for index, at in ((0, -1), (1, -2), (2, 5), (99, -1))
    )
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=(list_offsets.ListOffsetsTopic(name=NAME, partitions=parts),)
    )


def committed(version: int, topic: bytes) -> Any:
    """From outside any generation, into a group that is empty."""
    parts = tuple(
        offset_commit.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=7 + index, committed_metadata=metadata
        )
        for index, metadata in ((0, "said"), (1, None), (99, ""))
    )
    wanted = (offset_commit.OffsetCommitRequestTopic(name=NAME, topic_id=topic, partitions=parts),)
    return offset_commit.OffsetCommitRequest(group_id=GROUP, topics=wanted)


def fetched_offsets(version: int, topic: bytes) -> Any:
    """What was committed, of one group or of two."""
    if version < 8:
        asked: Any = (offset_fetch.OffsetFetchRequestTopic(name=NAME, partition_indexes=(0, 1)),)
        return offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=asked)
    asked = (
        offset_fetch.OffsetFetchRequestTopic(name=NAME, topic_id=topic, partition_indexes=(0, 1)),
    )
    groups = tuple(
        offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=asked)
        for group in (GROUP, "nobody")
    )
    return offset_fetch.OffsetFetchRequest(groups=groups)


def beat(version: int, topic: bytes) -> Any:
    """A first heartbeat; version 0 leaves the id to the coordinator."""
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=f"beaten-{version}",
        member_id="" if version == 0 else "AAAAAAAAAAAAAAAAAAAAAQ",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=(NAME,),
        topic_partitions=(),
    )


def created(version: int, topic: bytes) -> Any:
    """A topic of its own for each version, and one that is there already."""
    config = (create_topics.CreatableTopicConfig(name="retention.ms", value="100000"),)
    return create_topics.CreateTopicsRequest(
        topics=tuple(
            create_topics.CreatableTopic(
                name=name, num_partitions=2, replication_factor=1, configs=config
            )
            for name in (f"made-{version}", NAME)
        )
    )


def deleted(version: int, topic: bytes) -> Any:
    """What `created` made in the version after this one, and nothing."""
    names = (f"made-{version + 1}", "nothing")
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=5000)
    states = tuple(delete_topics.DeleteTopicState(name=name) for name in names)
    return delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=5000)


def described_configs(version: int, topic: bytes) -> Any:
    """Two settings of a topic with their synonyms, and a topic that is not there."""
    keys = ("retention.ms", "cleanup.policy")
    resources = tuple(
        describe_configs.DescribeConfigsResource(
            resource_type=2, resource_name=name, configuration_keys=keys
        )
        for name in (NAME, "nothing")
    )
    return describe_configs.DescribeConfigsRequest(resources=resources, include_synonyms=True)


def changed_configs(version: int, topic: bytes) -> Any:
    """A setting of a topic and one of a group, and one that is unknown."""
    resources = tuple(
        incremental_alter_configs.IncrementalAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=(
                incremental_alter_configs.IncrementalAlterableConfig(
                    name=key, config_operation=0, value="6000"
                ),
            ),
        )
        for kind, name, key in (
            (2, NAME, "segment.ms"),
            (32, GROUP, "consumer.session.timeout.ms"),
            (32, "other", "nothing"),
        )
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)


def replaced_configs(version: int, topic: bytes) -> Any:
    """All settings of a group, and of a topic that is not there; only tried."""
    resources = tuple(
        alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=(alter_configs.AlterableConfig(name=key, value="7000"),),
        )
        for kind, name, key in (
            (32, GROUP, "consumer.session.timeout.ms"),
            (2, "nothing", "segment.ms"),
        )
    )
    return alter_configs.AlterConfigsRequest(resources=resources, validate_only=True)


def asked_metadata(version: int, topic: bytes) -> Any:
    """A topic that is there, and one that shall not be created."""
    names = (NAME, "nothing") if version >= 4 else (NAME,)
    topics = tuple(metadata.MetadataRequestTopic(name=name) for name in names)
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)


def find_coordinators(version: int, topic: bytes) -> Any:
    """The coordinator of one group, or of two."""
    if version < 4:
        return find_coordinator.FindCoordinatorRequest(key=GROUP)
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=(GROUP, "other"))


def forgotten(version: int, topic: bytes) -> Any:
    """One committed offset."""
    parts = (offset_delete.OffsetDeleteRequestPartition(partition_index=0),)
    return offset_delete.OffsetDeleteRequest(
        group_id=GROUP,
        topics=(offset_delete.OffsetDeleteRequestTopic(name=NAME, partitions=parts),),
    )


def epochs(version: int, topic: bytes) -> Any:
    """Where the first leader's epoch ended, and one that never was."""
    parts = tuple(
        offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        for epoch in (0, 99)
    )
    asked = (offset_for_leader_epoch.OffsetForLeaderTopic(topic=NAME, partitions=parts),)
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=asked)


def grown(version: int, topic: bytes) -> Any:
    """More partitions for a topic, only tried; and fewer, which is refused."""
    wanted = tuple(
        create_partitions.CreatePartitionsTopic(name=NAME, count=count, assignments=None)
        for count in ((5,) if version % 2 else (1,))
    )
    return create_partitions.CreatePartitionsRequest(
        topics=wanted, timeout_ms=5000, validate_only=True
    )


def trimmed(version: int, topic: bytes) -> Any:
    """One record gone in each version, and one of a partition that is not there."""
    parts = tuple(
        delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in ((0, version + 1), (99, 1))
    )
    asked = (delete_records.DeleteRecordsTopic(name=NAME, partitions=parts),)
    return delete_records.DeleteRecordsRequest(topics=asked, timeout_ms=5000)


Body = Callable[[int, bytes], Any]
BODIES: list[Body] = [  # in this order: later ones see what earlier ones left
    lambda version, topic: api_versions.ApiVersionsRequest(
        client_software_name="apportion", client_software_version="0"
    ),
    asked_metadata,
    created,
    produced,
    fetched,
    listed_offsets,
    find_coordinators,
    committed,
    fetched_offsets,
    forgotten,
    lambda version, topic: init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000
    ),
    grown,
    changed_configs,
    replaced_configs,
    described_configs,
    lambda version, topic: list_config_resources.ListConfigResourcesRequest(
        resource_types=(2, 4, 32) if version else ()
    ),
    lambda version, topic: describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=True
    ),
    beat,
    lambda version, topic: consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=("beaten-0", "beaten-1", "nobody")
    ),
    lambda version, topic: list_groups.ListGroupsRequest(),
    lambda version, topic: delete_groups.DeleteGroupsRequest(groups_names=(GROUP, "nobody")),
    epochs,
    trimmed,
    deleted,
    *SECURITY_BODIES,
]


def requests_and_responses() -> dict[int, dict[str, Any]]:
    """API key -> {"request": class, "response": class}, from every message module there is."""
    table: dict[int, dict[str, Any]] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        for each in vars(importlib.import_module(f"{messages.__name__}.{module.name}")).values():
            if getattr(each, "__type__", "") in ("request", "response"):
                table.setdefault(each.__key__, {})[each.__type__] = each
    return table


def sweep(bootstrap: str) -> Iterator[str]:
    """Each request in each version has been sent and answered; yields what the broker would not
    answer.
    """
    host, port = bootstrap.split(":")
    table, topic = requests_and_responses(), topic_id(bootstrap)
    for body in BODIES:
        versions = body(0, topic).__versions__
        for version in sorted(versions, reverse=body is deleted):
            request = body(version, topic)
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                try:
                    ask(connection, request, version)
                except (EOFError, OSError) as error:
                    yield f"{type(request).__name__} v{version}: {error!r}"
    assert {body(0, topic).__key__ for body in BODIES} <= set(table)


def ask(connection: socket.socket, request: Any, version: int) -> bytes:
    """The response frame to one request."""
    cls = type(request)
    header = (
        struct.pack(">hhih", cls.__key__, version, 7, 5)
        + b"sweep"
        + (b"\0" if version >= cls.__flexible__ else b"")
    )
    frame = header + write(request, version)
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    return exactly(connection, struct.unpack(">i", exactly(connection, 4))[0])


def topic_id(bootstrap: str) -> bytes:
    """The id of the topic NAME."""
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        frame = ask(connection, asked_metadata(12, b""), 12)
    return bytes(read(metadata.MetadataResponse, 12, frame, 5)[0].topics[0].topic_id)
