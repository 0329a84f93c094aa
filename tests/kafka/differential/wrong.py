"""Requests that are wrong, and a few right ones. The topic `good` stands by: three partitions, two
records in the first.

A case is a name, a version and a function of `good`'s id (or that of another topic) that makes the
request.
"""

import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import crc32c

from apportion.wire.batch import encode_batch
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
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
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

GOOD = "good"
NO_TOPIC = "no-topic"
STRANGE_ID = b"no topic at all!"
ZERO_ID = bytes(16)
WAIT_MS = 5_000
NOW_MS = int(time.time() * 1000)
"""When these records were made: a real Kafka deletes what is older than a week."""
OFFSETS_TOPIC = "__consumer_offsets"


class Case(NamedTuple):
    """One request in one version."""

    name: str
    version: int
    request: Callable[[bytes], Any]
    topic: str = GOOD


def batch(count: int = 1, **facts: Any) -> bytes:
    """A record batch of that many small records."""
    facts.setdefault("timestamp_ms", NOW_MS)
    return encode_batch([(b"k", b"v", ()) for _ in range(count)], **facts)


def patched(records: bytes, at: int, new: bytes) -> bytes:
    """The batch with some bytes changed and its CRC made right again."""
    changed = bytearray(records)
    changed[at : at + len(new)] = new
    changed[17:21] = struct.pack(">I", crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def old_message(magic: int) -> bytes:
    """A message of an old format."""
    body = (
        struct.pack(">bb", magic, 0)
        + (struct.pack(">q", 0) if magic else b"")
        + struct.pack(">i1si1s", 1, b"k", 1, b"v")
    )
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def produce(
    records: bytes | None,
    *,
    topic: str = GOOD,
    topic_id: bytes | None = None,
    partition: int = 0,
    **facts: Any,
) -> Any:
    """A function of good's id: one batch for one partition."""

    def request(good: bytes) -> Any:
        data = TopicProduceData(
            name=topic,
            topic_id=good if topic_id is None else topic_id,
            partition_data=(PartitionProduceData(index=partition, records=records),),
        )
        return ProduceRequest(**({"acks": -1, "timeout_ms": WAIT_MS} | facts), topic_data=(data,))

    return request


def produces() -> Iterator[Case]:
    """Produce, to the wrong place or in the wrong way."""
    good = batch()
    yield Case("produce to an unknown topic", 12, produce(good, topic=NO_TOPIC))
    yield Case("produce to a bad name", 12, produce(good, topic="bad name"))
    yield Case("produce to an unknown id", 13, produce(good, topic_id=STRANGE_ID))
    yield Case("produce to the zero id", 13, produce(good, topic_id=ZERO_ID))
    for version in (3, 12, 13):
        yield Case("produce to an unknown partition", version, produce(good, partition=99))
    yield Case("produce to a negative partition", 12, produce(good, partition=-1))
    for acks in (2, -2):
        yield Case(f"produce with acks {acks}", 12, produce(good, acks=acks))
    yield Case("produce a topic of the broker", 12, produce(good, topic=OFFSETS_TOPIC))
    yield Case("produce in version 2", 2, produce(good))


def batches() -> Iterator[Case]:
    """Produce, with something wrong in the bytes."""
    good = batch()
    yield Case("produce nothing", 12, produce(b""))
    yield Case("produce null", 12, produce(None))
    yield Case("produce a few bytes", 12, produce(b"12345"))
    yield Case("produce a batch cut short", 12, produce(good[:-3]))
    yield Case("produce a batch cut in its header", 12, produce(good[:40]))
    yield Case("produce a batch and a byte", 12, produce(good + b"\0", partition=2))
    yield Case("produce two batches", 12, produce(good + good))
    yield Case("produce a wrong CRC", 12, produce(good[:-1] + b"\xff"))
    for magic in (0, 1):
        yield Case(f"produce format {magic}", 9, produce(old_message(magic)))
    yield Case("produce an unknown format", 12, produce(patched(good, 16, b"\3")))
    yield Case("produce a wrong count", 12, produce(patched(good, 57, struct.pack(">i", 7))))
    yield Case(
        "produce a wrong last offset delta", 12, produce(patched(good, 23, struct.pack(">i", 7)))
    )
    yield Case(
        "produce no record",
        12,
        produce(patched(patched(good, 57, struct.pack(">i", 0)), 23, struct.pack(">i", -1))),
    )
    yield Case("produce a marker", 12, produce(patched(good, 21, struct.pack(">h", 0x20))))
    yield Case(
        "produce an unknown compression", 12, produce(patched(good, 21, struct.pack(">h", 6)))
    )
    yield Case(
        "produce too much",
        12,
        produce(encode_batch([(b"k", b"v" * 1_100_000, ())], timestamp_ms=0)),
    )
    yield Case("produce from the future", 12, produce(batch(timestamp_ms=NOW_MS + 10 * 86_400_000)))
    yield Case("produce from long ago", 12, produce(batch(timestamp_ms=1), partition=1))
    yield Case("produce zstd in an old version", 6, produce(batch(compression=4)))
    yield Case(
        "produce of a transaction without one",
        12,
        produce(patched(good, 21, struct.pack(">h", 0x10))),
    )


def sequences() -> Iterator[Case]:
    """Idempotent producers, whose numbers go on, repeat, jump and grow old."""

    def numbered(
        sequence: int, epoch: int = 0, producer: int = 4711, partition: int = 1
    ) -> Callable[[bytes], Any]:
        return produce(
            batch(2, producer_id=producer, producer_epoch=epoch, base_sequence=sequence),
            partition=partition,
        )

    for name, request in (
        ("first, not from 0", numbered(5, producer=4712)),
        ("first", numbered(0)),
        ("next", numbered(2)),
        ("the same again", numbered(2)),
        ("the first again", numbered(0)),
        ("a gap", numbered(9)),
        ("an overlap", numbered(3)),
        ("a new epoch, not from 0", numbered(4, epoch=1)),
        ("a new epoch", numbered(0, epoch=1)),
        ("an old epoch", numbered(4, epoch=0)),
        ("no epoch", numbered(0, epoch=-1, producer=4713, partition=2)),
        ("no sequence", numbered(-1, producer=4713)),
    ):
        yield Case(f"idempotent: {name}", 12, request)


def fetches() -> Iterator[Case]:
    """Fetch."""

    def fetch(
        *,
        topic: str = GOOD,
        topic_id: bytes | None = None,
        whole: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Any:
        def request(good: bytes) -> Any:
            asked = FetchPartition(
                **({"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000} | facts)
            )
            wanted = FetchTopic(
                topic=topic, topic_id=good if topic_id is None else topic_id, partitions=(asked,)
            )
            return FetchRequest(
                **({"max_wait_ms": 10, "min_bytes": 1, "topics": (wanted,)} | (whole or {}))
            )

        return request

    for version in (4, 11, 12):
        yield Case("fetch an unknown topic", version, fetch(topic=NO_TOPIC))
        yield Case("fetch behind the end", version, fetch(fetch_offset=10**6))
    for version in (13, 18):
        yield Case("fetch an unknown id", version, fetch(topic_id=STRANGE_ID))
        yield Case("fetch the zero id", version, fetch(topic_id=ZERO_ID))
        yield Case("fetch an unknown partition", version, fetch(partition=99))
        yield Case("fetch behind the end", version, fetch(fetch_offset=10**6))
    yield Case("fetch", 18, fetch())
    yield Case("fetch the end", 18, fetch(fetch_offset=2))
    yield Case("fetch one behind the end", 18, fetch(fetch_offset=3))
    yield Case("fetch before the start", 18, fetch(fetch_offset=-1))
    yield Case("fetch a negative partition", 18, fetch(partition=-1))
    yield Case("fetch no bytes of a partition", 18, fetch(partition_max_bytes=0))
    yield Case("fetch no bytes", 18, fetch(whole={"max_bytes": 0}))
    yield Case("fetch for a later leader", 18, fetch(current_leader_epoch=5))
    yield Case("fetch for this leader", 18, fetch(current_leader_epoch=0))
    yield Case("fetch after a later epoch", 18, fetch(last_fetched_epoch=5))
    yield Case(
        "fetch in a session that is none", 18, fetch(whole={"session_id": 77, "session_epoch": 3})
    )
    yield Case("fetch in no session, later", 18, fetch(whole={"session_id": 0, "session_epoch": 3}))
    yield Case(
        "close a session that is none", 18, fetch(whole={"session_id": 77, "session_epoch": -1})
    )
    yield Case(
        "fetch nothing", 18, lambda good: FetchRequest(max_wait_ms=10, min_bytes=1, topics=())
    )
    yield Case("fetch at an unknown isolation level", 18, fetch(whole={"isolation_level": 7}))


def list_offsets() -> Iterator[Case]:
    """ListOffsets and OffsetForLeaderEpoch."""

    def listed(timestamp: int = -1, *, topic: str = GOOD, again: bool = False, **facts: Any) -> Any:
        partition = ListOffsetsPartition(**({"partition_index": 0, "timestamp": timestamp} | facts))
        wanted = ListOffsetsTopic(
            name=topic, partitions=(partition, partition) if again else (partition,)
        )
        return lambda good: ListOffsetsRequest(replica_id=-1, topics=(wanted,))

    yield Case("offsets of an unknown topic", 10, listed(topic=NO_TOPIC))
    yield Case("offsets of a bad name", 10, listed(topic="bad name"))
    yield Case("offsets of an unknown partition", 10, listed(partition_index=99))
    yield Case("offsets of a negative partition", 10, listed(partition_index=-1))
    yield Case("offsets for a later leader", 10, listed(current_leader_epoch=5))
    yield Case("offsets of one partition twice", 10, listed(again=True))
    for timestamp in range(-8, 1):
        for version in (1, 6, 7, 8, 9, 10, 11):
            yield Case(f"offsets at {timestamp}", version, listed(timestamp))
    yield Case("offsets at a time", 10, listed(NOW_MS))
    yield Case("offsets after all times", 10, listed(2**62))

    def epochs(*, topic: str = GOOD, **facts: Any) -> Any:
        partition = OffsetForLeaderPartition(**({"partition": 0, "leader_epoch": 0} | facts))
        return lambda good: OffsetForLeaderEpochRequest(
            replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=(partition,)),)
        )

    yield Case("end of the epoch", 4, epochs())
    yield Case("end of a later epoch", 4, epochs(leader_epoch=9))
    yield Case("end of an impossible epoch", 4, epochs(leader_epoch=-1))
    yield Case("end of an epoch, for a later leader", 4, epochs(current_leader_epoch=9))
    yield Case("end of an epoch of an unknown topic", 4, epochs(topic=NO_TOPIC))
    yield Case("end of an epoch of an unknown partition", 4, epochs(partition=99))


def cluster() -> Iterator[Case]:
    """Metadata, FindCoordinator, DescribeCluster, DescribeConfigs, InitProducerId."""

    def metadata(*names: str | None, topic_id: bytes = ZERO_ID, create: bool = False) -> Any:
        topics = tuple(MetadataRequestTopic(name=name, topic_id=topic_id) for name in names)
        return lambda good: MetadataRequest(topics=topics, allow_auto_topic_creation=create)

    for version in (4, 8, 9, 12, 13):
        yield Case("metadata of an unknown topic", version, metadata(NO_TOPIC))
        yield Case("metadata of bad names", version, metadata("bad name", "", "..", "x" * 250))
        yield Case("metadata of good and bad", version, metadata(GOOD, NO_TOPIC))
        yield Case("metadata of a topic", version, metadata(GOOD))
    for version in (8, 10, 13):
        asked = {"include_cluster_authorized_operations": True} if version < 11 else {}
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in (GOOD, NO_TOPIC)),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            **asked,
        )
        yield Case("metadata with operations", version, lambda good, request=request: request)
    yield Case("metadata of a topic to be made", 12, metadata("made-by-asking", create=True))
    yield Case("metadata of a bad name to be made", 12, metadata("bad name", create=True))
    for version in (12, 13):
        yield Case("metadata of an unknown id", version, metadata(None, topic_id=STRANGE_ID))
        yield Case(
            "metadata of a topic by its id",
            version,
            lambda good: MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=good),)),
        )
        yield Case("metadata of an id and a name", version, metadata(GOOD, topic_id=STRANGE_ID))
    yield Case("metadata of nothing", 12, metadata())
    for key_type in (0, 2, 3, 77):
        for version in (3, 4, 6):
            keys: dict[str, Any] = {"key": "k"} if version < 4 else {"coordinator_keys": ("k", "")}
            request = FindCoordinatorRequest(key_type=key_type, **keys)
            yield Case(
                f"coordinator of type {key_type}", version, lambda good, request=request: request
            )
    yield Case(
        "coordinator of a transaction",
        6,
        lambda good: FindCoordinatorRequest(key_type=1, coordinator_keys=("k",)),
    )
    for endpoint in (1, 2, 3):
        request = DescribeClusterRequest(endpoint_type=endpoint)
        yield Case(f"cluster by endpoint {endpoint}", 2, lambda good, request=request: request)
    yield Case(
        "cluster with operations",
        2,
        lambda good: DescribeClusterRequest(include_cluster_authorized_operations=True),
    )
    for kind, name in (
        (2, NO_TOPIC),
        (2, "bad name"),
        (2, ""),
        (4, "99"),
        (4, "x"),
        (77, "x"),
        (0, "x"),
    ):
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        yield Case(
            f"configs of {kind} {name!r}",
            4,
            lambda good, resource=resource: DescribeConfigsRequest(resources=(resource,)),
        )
    for name, txn in (("nobody", ""), ("a transaction", "t")):
        request = InitProducerIdRequest(transactional_id=txn, transaction_timeout_ms=1_000)
        yield Case(f"producer id for {name}", 5, lambda good, request=request: request)


def creations() -> Iterator[Case]:
    """CreateTopics."""

    def create(*wanted: CreatableTopic, only_check: bool = True) -> Any:
        return lambda good: CreateTopicsRequest(
            topics=wanted, timeout_ms=WAIT_MS, validate_only=only_check
        )

    def topic(name: str = "new", count: int = 1, factor: int = 1, **facts: Any) -> CreatableTopic:
        return CreatableTopic(name=name, num_partitions=count, replication_factor=factor, **facts)

    for name in (
        "",
        ".",
        "..",
        "bad name",
        "x" * 250,
        "ünicode",
        GOOD,
        OFFSETS_TOPIC,
        "a.b_c",
        "__transaction_state",
    ):
        yield Case(f"create {name[:20]!r}", 7, create(topic(name)))
    yield Case("create what differs in . and _ alone", 7, create(topic("with.dots_and_bars")))
    for count in (-2, -1, 0, 1):
        yield Case(f"create {count} partitions", 7, create(topic(count=count)))
    for factor in (-2, -1, 0, 2, 3):
        yield Case(f"create {factor} replicas", 7, create(topic(factor=factor)))
    yield Case("create one topic twice", 7, create(topic(), topic()))
    yield Case("create one good and one bad", 7, create(topic(), topic("bad name")))
    here = CreatableReplicaAssignment(partition_index=0, broker_ids=(1,))
    for name, wanted in (
        ("by assignment", topic(count=-1, factor=-1, assignments=(here,))),
        ("by assignment and count", topic(count=1, factor=-1, assignments=(here,))),
        ("by assignment and factor", topic(count=-1, factor=1, assignments=(here,))),
        (
            "elsewhere",
            topic(
                count=-1,
                factor=-1,
                assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=(9,)),),
            ),
        ),
        (
            "nowhere",
            topic(
                count=-1,
                factor=-1,
                assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=()),),
            ),
        ),
        ("twice", topic(count=-1, factor=-1, assignments=(here, here))),
        (
            "with a hole",
            topic(
                count=-1,
                factor=-1,
                assignments=(CreatableReplicaAssignment(partition_index=1, broker_ids=(1,)),),
            ),
        ),
    ):
        yield Case(f"create {name}", 7, create(wanted))
    for name, value in (
        ("no.such.setting", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", None),
        ("retention.ms", "-7"),
        ("cleanup.policy", "burn"),
        ("max.message.bytes", "-1"),
        ("segment.bytes", "1"),
        ("compression.type", "rar"),
        ("retention.ms", "1000"),
        ("cleanup.policy", "compact,delete"),
    ):
        wanted = topic(configs=(CreatableTopicConfig(name=name, value=value),))
        yield Case(f"create with {name}={value}", 7, create(wanted))
    for policy in ("compact", "compact,delete"):
        wanted = topic(
            policy.replace(",", "-"),
            configs=(CreatableTopicConfig(name="cleanup.policy", value=policy),),
        )
        yield Case(f"create a topic of {policy}", 7, create(wanted, only_check=False))


def growths() -> Iterator[Case]:
    """CreatePartitions."""

    def grow(*wanted: tuple[str, int], where: Any = None, only_check: bool = True) -> Any:
        grown = tuple(
            CreatePartitionsTopic(name=name, count=count, assignments=where)
            for name, count in wanted
        )
        return lambda good: CreatePartitionsRequest(
            topics=grown, timeout_ms=WAIT_MS, validate_only=only_check
        )

    for count in (-1, 0, 2, 3, 4):
        yield Case(f"grow from 3 to {count}", 3, grow((GOOD, count)))
    for name in (NO_TOPIC, "bad name", ""):
        yield Case(f"grow {name!r}", 3, grow((name, 7)))
    yield Case("grow one topic twice", 3, grow((GOOD, 4), (GOOD, 5)))
    yield Case("grow the offsets", 3, grow((OFFSETS_TOPIC, 60)))
    for name, where in (
        ("here", ((1,),)),
        ("elsewhere", ((9,),)),
        ("too often", ((1,), (1,))),
        ("nowhere", ((),)),
        ("", ()),
    ):
        assignments = tuple(CreatePartitionsAssignment(broker_ids=ids) for ids in where)
        yield Case(f"grow {name or 'by no assignment'}", 3, grow((GOOD, 4), where=assignments))


def deletions() -> Iterator[Case]:
    """DeleteTopics."""

    def delete(*states: DeleteTopicState) -> Any:
        return lambda good: DeleteTopicsRequest(topics=states, timeout_ms=WAIT_MS)

    strange = DeleteTopicState(topic_id=STRANGE_ID)
    yield Case(
        "delete an unknown topic", 6, delete(DeleteTopicState(name=NO_TOPIC, topic_id=ZERO_ID))
    )
    yield Case("delete a bad name", 6, delete(DeleteTopicState(name="bad name", topic_id=ZERO_ID)))
    yield Case("delete an unknown id", 6, delete(strange))
    yield Case(
        "delete an id and a name", 6, delete(DeleteTopicState(name=GOOD, topic_id=STRANGE_ID))
    )
    yield Case(
        "delete neither id nor name", 6, delete(DeleteTopicState(name=None, topic_id=ZERO_ID))
    )
    yield Case("delete an unknown id twice", 6, delete(strange, strange))
    yield Case(
        "delete a topic twice", 6, delete(*[DeleteTopicState(name=NO_TOPIC, topic_id=ZERO_ID)] * 2)
    )


CASES = [
    *produces(),
    *batches(),
    *sequences(),
    *fetches(),
    *list_offsets(),
    *cluster(),
    *creations(),
    *growths(),
    *deletions(),
]
