"""One request of ours for every API and version that we speak: the answers are the real Kafka's, in
every version.
"""

import importlib
import pkgutil
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import apportion.wire.messages as messages
from apportion.wire.batch import encode_batch
from apportion.wire.codec import read, write
from apportion.wire.messages.metadata import MetadataResponse
from tests.kafka.golden.proxy import exactly
from tests.kafka.golden.security import SECURITY_BODIES
from tests.messages import request

NAME, GROUP = "birds", "sweep"
Body = Callable[[int, bytes], Any]
GROUP_KIND, TOPIC_KIND = 32, 2


def fixed(api: str, **fields: Any) -> Body:
    """The same request in every version."""
    return lambda version, topic: request(api, **fields)


def produced(version: int, topic: bytes) -> Any:
    """One good record, and one for a partition that is not there."""
    batch = encode_batch([(b"k", b"v", (("h", b"x"),))], timestamp_ms=1_700_000_000_000)
    parts = [{"index": index, "records": batch} for index in (0, 99)]
    data = [{"name": NAME, "topic_id": topic, "partition_data": parts}]
    return request("Produce", acks=-1, timeout_ms=5000, topic_data=data)


def fetched(version: int, topic: bytes) -> Any:
    """From the start of one partition, and from far behind the end of another."""
    parts = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": 500}
        for index, offset in ((0, 0), (1, 10**6))
    ]
    wanted = [{"topic": NAME, "topic_id": topic, "partitions": parts}]
    return request("Fetch", max_wait_ms=10, min_bytes=1, max_bytes=2000, topics=wanted)


def committed(version: int, topic: bytes) -> Any:
    """From outside any generation, into a group that is empty."""
    parts = [
        {"partition_index": index, "committed_offset": 7 + index, "committed_metadata": note}
        for index, note in ((0, "said"), (1, None), (99, ""))
    ]
    topics = [{"name": NAME, "topic_id": topic, "partitions": parts}]
    return request("OffsetCommit", group_id=GROUP, topics=topics)


def fetched_offsets(version: int, topic: bytes) -> Any:
    """What was committed, of one group or of two."""
    wanted: dict[str, Any] = {"name": NAME, "partition_indexes": (0, 1)}
    if version < 8:
        return request("OffsetFetch", group_id=GROUP, topics=[wanted])
    topics = [wanted | {"topic_id": topic}]
    groups = [{"group_id": group, "topics": topics} for group in (GROUP, "nobody")]
    return request("OffsetFetch", groups=groups)


def beat(version: int, topic: bytes) -> Any:
    """A first heartbeat; version 0 leaves the id to the coordinator."""
    return request(
        "ConsumerGroupHeartbeat",
        group_id=f"beaten-{version}",
        member_id="" if version == 0 else "AAAAAAAAAAAAAAAAAAAAAQ",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=(NAME,),
        topic_partitions=(),
    )


def created(version: int, topic: bytes) -> Any:
    """A topic of its own for each version, and one that is there already."""
    shape: dict[str, Any] = {"num_partitions": 2, "replication_factor": 1}
    shape["configs"] = [{"name": "retention.ms", "value": "100000"}]
    return request(
        "CreateTopics", topics=[{"name": name} | shape for name in (f"made-{version}", NAME)]
    )


def deleted(version: int, topic: bytes) -> Any:
    """What `created` made in the version after this one, and nothing."""
    names = (f"made-{version + 1}", "nothing")
    if version < 6:
        return request("DeleteTopics", topic_names=names, timeout_ms=5000)
    return request("DeleteTopics", topics=[{"name": name} for name in names], timeout_ms=5000)


def asked_metadata(version: int, topic: bytes) -> Any:
    """A topic that is there, and one that shall not be created."""
    topics = [{"name": name} for name in ((NAME, "nothing") if version >= 4 else (NAME,))]
    return request("Metadata", topics=topics, allow_auto_topic_creation=version < 4)


def find_coordinators(version: int, topic: bytes) -> Any:
    """The coordinator of one group, or of two."""
    if version < 4:
        return request("FindCoordinator", key=GROUP)
    return request("FindCoordinator", coordinator_keys=(GROUP, "other"))


def grown(version: int, topic: bytes) -> Any:
    """More partitions for a topic, only tried; and fewer, which is refused."""
    wanted = [{"name": NAME, "count": 5 if version % 2 else 1, "assignments": None}]
    return request("CreatePartitions", topics=wanted, timeout_ms=5000, validate_only=True)


def trimmed(version: int, topic: bytes) -> Any:
    """One record gone in each version, and one of a partition that is not there."""
    parts = [
        {"partition_index": index, "offset": offset}
        for index, offset in ((0, version + 1), (99, 1))
    ]
    topics = [{"name": NAME, "partitions": parts}]
    return request("DeleteRecords", topics=topics, timeout_ms=5000)


BODIES: list[Body] = [  # in this order: later ones see what earlier ones left
    fixed("ApiVersions", client_software_name="apportion", client_software_version="0"),
    asked_metadata,
    created,
    produced,
    fetched,
    # the end, the start and a time
    fixed(
        "ListOffsets",
        replica_id=-1,
        topics=[
            {
                "name": NAME,
                "partitions": [
                    {"partition_index": index, "timestamp": at}
                    for index, at in ((0, -1), (1, -2), (2, 5), (99, -1))
                ],
            }
        ],
    ),
    find_coordinators,
    committed,
    fetched_offsets,
    fixed(
        "OffsetDelete",
        group_id=GROUP,
        topics=[{"name": NAME, "partitions": [{"partition_index": 0}]}],
    ),
    fixed("InitProducerId", transactional_id=None, transaction_timeout_ms=1000),
    grown,
    # a setting of a topic and one of a group, and one that is unknown
    fixed(
        "IncrementalAlterConfigs",
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "config_operation": 0, "value": "6000"}],
            }
            for kind, name, key in (
                (TOPIC_KIND, NAME, "segment.ms"),
                (GROUP_KIND, GROUP, "consumer.session.timeout.ms"),
                (GROUP_KIND, "other", "nothing"),
            )
        ],
    ),
    # all settings of a group, and of a topic that is not there; only tried
    fixed(
        "AlterConfigs",
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "value": "7000"}],
            }
            for kind, name, key in (
                (GROUP_KIND, GROUP, "consumer.session.timeout.ms"),
                (TOPIC_KIND, "nothing", "segment.ms"),
            )
        ],
        validate_only=True,
    ),
    # two settings of a topic with their synonyms, and a topic that is not there
    fixed(
        "DescribeConfigs",
        resources=[
            {
                "resource_type": TOPIC_KIND,
                "resource_name": name,
                "configuration_keys": ("retention.ms", "cleanup.policy"),
            }
            for name in (NAME, "nothing")
        ],
        include_synonyms=True,
    ),
    lambda version, topic: request(
        "ListConfigResources", resource_types=(2, 4, 32) if version else ()
    ),
    fixed("DescribeCluster", include_cluster_authorized_operations=True),
    beat,
    fixed("ConsumerGroupDescribe", group_ids=("beaten-0", "beaten-1", "nobody")),
    fixed("ListGroups"),
    fixed("DeleteGroups", groups_names=(GROUP, "nobody")),
    # where the first leader's epoch ended, and one that never was
    fixed(
        "OffsetForLeaderEpoch",
        topics=[
            {
                "topic": NAME,
                "partitions": [{"partition": 0, "leader_epoch": epoch} for epoch in (0, 99)],
            }
        ],
    ),
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
    return bytes(read(MetadataResponse, 12, frame, 5)[0].topics[0].topic_id)
