"""Requests with random damage: either their bytes mean nothing, or they are answered; a node never
breaks over them.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from apportion.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.init_producer_id import InitProducerIdRequest
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
from apportion.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.table import APIS, api_of, decode_request, encode_request
from tests.node import kit

TOPIC_ID = bytes(range(16))


def requests_about_topics() -> list[Any]:
    """Requests that do as much as possible with the topic "t"."""
    offsets = (
        ListOffsetsPartition(partition_index=0, timestamp=-1),
        ListOffsetsPartition(partition_index=0, timestamp=7),
    )
    return [
        kit.produce("t", kit.batch(b"a", b"b")),
        kit.fetch("t"),
        ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=offsets),)),
        MetadataRequest(topics=(MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new"))),
        CreateTopicsRequest(
            topics=(CreatableTopic(name="u", num_partitions=2, replication_factor=1),)
        ),
        CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name="t", count=5, assignments=None),)
        ),
        DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(offset=1),)),)
        ),
        DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)),
        DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(
                    resource_type=2, resource_name="t", configuration_keys=None
                ),
            )
        ),
        FindCoordinatorRequest(coordinator_keys=("g",)),
        InitProducerIdRequest(transactional_id=None),
    ]


def requests_about_groups() -> list[Any]:
    """Requests that do as much as possible with a consumer group "g" and a classic group "c"."""
    beat: dict[str, Any] = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1000}
    owned = (TopicPartitions(topic_id=TOPIC_ID, partitions=(0, 1)),)
    commit = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    join: dict[str, Any] = {
        "group_id": "c",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b"x"),),
        "protocol_type": "consumer",
    }
    member: dict[str, Any] = {
        "group_id": "c",
        "generation_id": 1,
        "member_id": "c",
        "group_instance_id": None,
    }
    return [
        ConsumerGroupHeartbeatRequest(
            member_epoch=0, subscribed_topic_names=("t",), topic_partitions=(), **beat
        ),
        ConsumerGroupHeartbeatRequest(
            member_epoch=2, topic_partitions=owned, server_assignor="range", **beat
        ),
        ConsumerGroupHeartbeatRequest(member_epoch=-1, **beat),
        ConsumerGroupHeartbeatRequest(member_epoch=-2, instance_id="i", **beat),
        ConsumerGroupDescribeRequest(group_ids=("g", "h")),
        OffsetCommitRequest(
            group_id="g",
            topics=(OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=(commit,)),),
        ),
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)),
        OffsetDeleteRequest(
            group_id="g",
            topics=(
                OffsetDeleteRequestTopic(
                    name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),)
                ),
            ),
        ),
        ListGroupsRequest(states_filter=("Stable",)),
        DeleteGroupsRequest(groups_names=("g", "h", "c")),
        JoinGroupRequest(session_timeout_ms=6_000, rebalance_timeout_ms=9_000, **join),
        JoinGroupRequest(session_timeout_ms=6_000, group_instance_id="i", **join),
        SyncGroupRequest(
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncGroupRequestAssignment(member_id="c", assignment=b"x"),),
            **member,
        ),
        HeartbeatRequest(**member),
        LeaveGroupRequest(
            group_id="c", members=(MemberIdentity(member_id="", group_instance_id="i"),)
        ),
        DescribeGroupsRequest(groups=("g", "c"), include_authorized_operations=True),
    ]


damages = st.lists(
    st.tuples(
        st.integers(0, 25),  # which request
        st.integers(0, 30),  # which version, counted from the newest
        # bytes put in place
        st.lists(
            st.tuples(st.integers(0, 400), st.sampled_from([0, 1, 2, 127, 128, 255])), max_size=3
        ),
        st.sampled_from([None, 0, 1, 5, 20]),  # how much is cut off
    ),
    min_size=1,
    max_size=8,
)


def frame_of(request: Any, back: Any, positions: list[tuple[int, int]], cut: int | None) -> bytes:
    """The request in some version, with bytes changed behind its header."""
    versions = api_of(type(request)).versions
    version = versions[-1 - back % len(versions)]
    if type(request) in (APIS[0].request, APIS[1].request):
        version = min(version, 12)
    try:
        frame = bytearray(encode_request(request, version, 1, "c")[4:])
    except ValueError:  # that version cannot say it
        frame = bytearray(encode_request(request, versions[-1], 1, "c")[4:])
    for position, byte in positions:
        at = 8 + position % (len(frame) - 8)
        frame[at] = byte
    return bytes(frame[: len(frame) - cut] if cut else frame)


@settings(max_examples=200, deadline=None)
@given(damages)
def test_no_damage_breaks_a_node(
    damaged: list[tuple[int, int, list[tuple[int, int]], int | None]],
) -> None:
    driver = kit.NodeDriver()
    driver.create("t", 3)
    requests = [*requests_about_topics(), *requests_about_groups()]
    for which, cut, changes, length in damaged:
        try:
            incoming = decode_request(frame_of(requests[which], cut, changes, length))
        except DecodeError:
            continue
        driver.ask(incoming.body, incoming.version)  # which also encodes the answer
        driver.flush()
    driver.sleep(100_000)
    driver.flush()
    assert driver.call(ListGroupsRequest()).error_code == 0
    driver.crash()
