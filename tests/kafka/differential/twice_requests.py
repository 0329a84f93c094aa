"""Requests with something in each of their lists, for every API that has one. `wrong_twice.py`
makes them say a part twice.

A request is a function of the id of the topic `twice`, which has two batches of two records in its
first partition, and of a group that no other case has.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
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
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from apportion.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.kafka.differential.wrong import NO_TOPIC, WAIT_MS, ZERO_ID, batch

Make = Callable[[bytes, str], Any]
Said = tuple[int, Make]
SESSION_MS = 10_000
TWICE = "twice"


class Whole(NamedTuple):
    """One request in some versions, and (version, request) of what is asked before and after it."""

    name: str
    versions: tuple[int, ...]
    request: Make
    before: tuple[Said, ...] = ()
    after: tuple[Said, ...] = ()


OTHERWISE: dict[type, dict[str, Any]] = {
    PartitionProduceData: {"records": batch(3)},
    FetchPartition: {"fetch_offset": 2},
    ListOffsetsPartition: {"timestamp": -2},
    OffsetForLeaderPartition: {"leader_epoch": 9},
    OffsetCommitRequestPartition: {
        "committed_offset": 77,
        "committed_metadata": "x" * 5000,
        "partition_index": 99,
    },
    OffsetFetchRequestGroup: {"topics": None},
    JoinGroupRequestProtocol: {"metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"},
    MemberIdentity: {"group_instance_id": None, "member_id": "ghost"},
    SyncGroupRequestAssignment: {"assignment": b"other"},
    CreatableTopic: {"num_partitions": 2},
    CreatableTopicConfig: {"value": "delete,compact"},
    CreatableReplicaAssignment: {"broker_ids": (9,)},
    DeleteRecordsPartition: {"offset": 1},
    CreatePartitionsTopic: {"count": 9},
    DescribeConfigsResource: {"configuration_keys": ("segment.bytes",)},
}
"""What the second mention may say that the first does not."""


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
        topics = (FetchTopic(topic=TWICE, topic_id=twice, partitions=wanted),)
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


def commit(twice: bytes, group: str, offset: int = 5) -> Any:
    """Offsets of two partitions, and of a topic that is not there."""
    wanted = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset + index, committed_metadata="note"
        )
        for index in (0, 1)
    )
    topics = (
        OffsetCommitRequestTopic(name=TWICE, topic_id=twice, partitions=wanted),
        OffsetCommitRequestTopic(
            name=NO_TOPIC, topic_id=b"no topic at all!", partitions=wanted[:1]
        ),
    )
    return OffsetCommitRequest(group_id=group, topics=topics)


def committed(twice: bytes, group: str) -> Any:
    """All offsets of the group."""
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))


def fetch_offsets(twice: bytes, group: str) -> Any:
    """Offsets of two groups."""
    topics = tuple(
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=(0, 1))
        for name, topic_id in ((TWICE, twice), (NO_TOPIC, b"no topic at all!"))
    )
    groups = (group, group + " not here")
    return OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=each, topics=topics) for each in groups)
    )


def fetch_all_offsets(twice: bytes, group: str) -> Any:
    """All offsets of a group."""
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))


def fetch_offsets_of_one(twice: bytes, group: str) -> Any:
    """Offsets of one group, as it was asked before version 8."""
    topics = tuple(
        OffsetFetchRequestTopic(name=name, partition_indexes=(0, 1)) for name in (TWICE, NO_TOPIC)
    )
    return OffsetFetchRequest(group_id=group, topics=topics)


def forget_offsets(twice: bytes, group: str) -> Any:
    """Offsets of a topic, and of one that is not there, forgotten."""
    wanted = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 99))
    topics = tuple(
        OffsetDeleteRequestTopic(name=name, partitions=wanted) for name in (TWICE, NO_TOPIC)
    )
    return OffsetDeleteRequest(group_id=group, topics=topics)


def join(twice: bytes, group: str) -> Any:
    """A static member, so that it can be named by what we know."""
    protocols = tuple(
        JoinGroupRequestProtocol(name=name, metadata=b"") for name in ("range", "roundrobin")
    )
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id="",
        group_instance_id="one",
        protocol_type="consumer",
        protocols=protocols[:1] if group.startswith("leave") else protocols,
    )


def leave(twice: bytes, group: str) -> Any:
    """A member that is there, and one that is not."""
    members = tuple(
        MemberIdentity(member_id="", group_instance_id=instance) for instance in ("one", "two")
    )
    return LeaveGroupRequest(group_id=group, members=members)


def sync(twice: bytes, group: str) -> Any:
    """Assignments of a group that is not there."""
    given = tuple(
        SyncGroupRequestAssignment(member_id=each, assignment=b"x") for each in ("me", "you")
    )
    return SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id="me",
        protocol_type="consumer",
        protocol_name="range",
        assignments=given,
    )


def describe(twice: bytes, group: str) -> Any:
    """A group that is there, and one that is not."""
    return DescribeGroupsRequest(groups=(group, group + " not here"))


def describe_consumer(twice: bytes, group: str) -> Any:
    """The same, of consumer groups."""
    return ConsumerGroupDescribeRequest(group_ids=(group, group + " not here"))


def list_groups(twice: bytes, group: str) -> Any:
    """Groups in a state that none of these is in."""
    return ListGroupsRequest(states_filter=("Assigning", "Dead"), types_filter=("share", "streams"))


def list_states(twice: bytes, group: str) -> Any:
    """The same, before groups had types."""
    return ListGroupsRequest(states_filter=("Assigning", "Dead"))


def delete_groups(twice: bytes, group: str) -> Any:
    """A group that is there, and one that is not."""
    return DeleteGroupsRequest(groups_names=(group, group + " not here"))


def beat(epoch: int) -> Make:
    """A member that joins, or goes on with all partitions."""

    def request(twice: bytes, group: str) -> Any:
        owned = (TopicPartitions(topic_id=twice, partitions=(0, 1, 2)),)
        return ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=SESSION_MS if not epoch else -1,
            subscribed_topic_names=(TWICE, NO_TOPIC) if not epoch else None,
            server_assignor="range" if not epoch else None,
            topic_partitions=owned if epoch else (),
        )

    return request


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


REQUESTS = (
    Whole("fetch", (4, 12, 13, 18), fetch(0)),
    Whole("fetch and wait", (4, 12, 13, 18), fetch(0, 10**9)),
    Whole("fetch in parts", (12,), fetch(0, max_bytes=100)),
    Whole("forget partitions", (12, 13), forget_partitions),
    Whole("offsets", (1, 10), ends),
    Whole("end of the epoch", (2, 4), epochs),
    Whole("metadata", (4, 9, 12), metadata),
    Whole("metadata by id", (12,), metadata_by_id),
    Whole("metadata by both", (12,), metadata_by_both),
    Whole("commit", (2, 8, 9, 10), commit, after=((9, committed),)),
    Whole("fetch offsets", (8, 9, 10), fetch_offsets, before=((9, commit),)),
    Whole("fetch all offsets", (8, 10), fetch_all_offsets, before=((9, commit),)),
    Whole("fetch offsets of one", (1, 7), fetch_offsets_of_one, before=((9, commit),)),
    Whole("forget offsets", (0,), forget_offsets, before=((9, commit),), after=((9, committed),)),
    Whole(
        "coordinators",
        (4, 6),
        lambda twice, group: FindCoordinatorRequest(key_type=0, coordinator_keys=("a", "b")),
    ),
    Whole("join", (5, 9), join, after=((6, describe),)),
    Whole("leave", (3, 5), leave, before=((5, join),), after=((6, describe),)),
    Whole("sync", (0, 5), sync),
    Whole("describe", (0, 6), describe, before=((9, commit),)),
    Whole("list", (5,), list_groups),
    Whole("list states", (4,), list_states),
    Whole("delete", (0, 2), delete_groups, before=((9, commit),), after=((9, committed),)),
    Whole("beat", (0, 1), beat(0), after=((1, describe_consumer),)),
    Whole("beat and own", (1,), beat(2), before=((1, beat(0)),), after=((1, describe_consumer),)),
    Whole("describe consumers", (0, 1), describe_consumer, before=((1, beat(0)),)),
    Whole("create", (2, 7), create),
    Whole("create by assignment", (2, 7), create_by_assignment),
    Whole("delete topics", (6,), delete_topics),
    Whole("delete named topics", (1, 5), delete_named_topics),
    Whole("grow", (0, 3), grow),
    Whole("trim", (0, 2), trim),
    Whole("configs", (1, 4), configs),
    # last: the logs are not alike after it
    Whole("produce", (9, 12, 13), produce, after=((10, ends),)),
)
"""Every API that has a list, and what about it may depend on the version."""
