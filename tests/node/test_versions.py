"""Every API answers in every version that it is listed in."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
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
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from apportion.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from apportion.wire.table import SERVED_APIS, api_of
from tests.node import kit
from tests.node.kit import NodeDriver


def real_requests(topic_id: bytes) -> dict[type[Any], Any]:
    """One request of each API that is about the topic `t` or the group `g`, and goes well."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    epoch = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    commit = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    return {
        MetadataRequest: MetadataRequest(topics=(MetadataRequestTopic(name="t"),)),
        ListOffsetsRequest: ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(partition,)),)
        ),
        OffsetForLeaderEpochRequest: OffsetForLeaderEpochRequest(
            replica_id=-1, topics=(OffsetForLeaderTopic(topic="t", partitions=(epoch,)),)
        ),
        OffsetCommitRequest: OffsetCommitRequest(
            group_id="g",
            topics=(OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=(commit,)),),
        ),
        OffsetFetchRequest: OffsetFetchRequest(
            group_id="g",
            topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),),
            groups=(OffsetFetchRequestGroup(group_id="g", topics=None),),
        ),
        DescribeConfigsRequest: DescribeConfigsRequest(resources=(resource,)),
        FindCoordinatorRequest: FindCoordinatorRequest(key="g", coordinator_keys=("g",)),
        DeleteTopicsRequest: DeleteTopicsRequest(
            topics=(DeleteTopicState(name="t"),), topic_names=("t",)
        ),
        CreateTopicsRequest: CreateTopicsRequest(
            topics=(CreatableTopic(name="u", num_partitions=1, replication_factor=1),)
        ),
        ListGroupsRequest: ListGroupsRequest(),
    }


@pytest.mark.parametrize(
    ("kind", "version"),
    [(kind, version) for kind in real_requests(bytes(16)) for version in api_of(kind).versions],
)
def test_every_version_answers_a_real_request(
    driver: NodeDriver, kind: type[Any], version: int
) -> None:
    requests = real_requests(driver.create("t"))
    driver.call(kit.produce("t", kit.batch(b"a")), 12)
    driver.call(requests[OffsetCommitRequest], 9)
    answer = driver.call(requests[kind], version)  # and it could be encoded
    assert "error_code=" not in repr(answer), answer


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_fetches(driver: NodeDriver, version: int) -> None:
    topic_id = driver.create("t")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    answer = driver.call(
        FetchRequest(topics=(FetchTopic(topic="t", topic_id=topic_id, partitions=(partition,)),)),
        version,
    )
    assert answer.responses[0].partitions[0].error_code == Code.NONE


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key, api in SERVED_APIS.items() for version in api.versions],
)
def test_every_api_answers_an_empty_request_in_every_version(
    driver: NodeDriver, key: int, version: int
) -> None:
    request = SERVED_APIS[key].request()
    ticket = driver.ask(request, version)
    driver.flush()
    driver.sleep(1000)
    assert ticket in driver.answers, f"{SERVED_APIS[key].name} v{version} was not answered"
    assert not driver.notes
