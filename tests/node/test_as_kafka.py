"""What wrong requests to a real Kafka taught (tests/kafka/test_wrong_requests.py): its code where
one would guess another.
"""

import struct
from collections.abc import Callable
from typing import Any

import crc32c
import pytest

from apportion.errors import Code
from apportion.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from apportion.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.node import kit
from tests.node.kit import NodeDriver


def patched(batch: bytes, at: int, new: bytes) -> bytes:
    """The batch with other bytes in its header, and a CRC that is right."""
    changed = bytearray(batch)
    changed[at : at + len(new)] = new
    changed[17:21] = struct.pack(">I", crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda batch: patched(batch, 57, struct.pack(">i", 7)), Code.INVALID_RECORD),  # the count
        # the last offset delta
        (lambda batch: patched(batch, 23, struct.pack(">i", 7)), Code.INVALID_RECORD),
        (lambda batch: patched(batch, 16, b"\3"), Code.CORRUPT_MESSAGE),  # a format of the future
        (lambda batch: batch[:-1], Code.INVALID_RECORD),  # no whole batch
        (
            lambda batch: patched(batch, 21, struct.pack(">h", 0x10)),
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_a_batch_is_refused_with_kafkas_code(
    driver: NodeDriver, spoil: Callable[..., bytes], code: Code
) -> None:
    driver.create("t")
    data = PartitionProduceData(index=0, records=spoil(kit.batch(b"a")))
    request = ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=(TopicProduceData(name="t", partition_data=(data,)),)
    )
    assert driver.call(request, 12).responses[0].partition_responses[0].error_code == code


def fetched(
    driver: NodeDriver, session: tuple[int, int] = (0, -1), **facts: Any
) -> tuple[int, list[int]]:
    """The code of the whole answer, and that of its one partition if it has one."""
    topic_id = driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a")), 12)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000, **facts)
    topic = FetchTopic(topic_id=topic_id, partitions=(wanted,))
    answer = driver.call(
        FetchRequest(session_id=session[0], session_epoch=session[1], topics=(topic,)), 18
    )
    return answer.error_code, [
        each.error_code for topic in answer.responses for each in topic.partitions
    ]


def test_a_fetch_that_ends_a_session_reads_without_one(driver: NodeDriver) -> None:
    assert fetched(driver, session=(77, -1)) == (Code.NONE, [Code.NONE])


def test_a_fetch_in_a_session_that_is_none_is_refused(driver: NodeDriver) -> None:
    assert fetched(driver, session=(77, 3)) == (Code.FETCH_SESSION_ID_NOT_FOUND, [])


def test_a_fetch_after_an_epoch_that_never_was_is_out_of_range(driver: NodeDriver) -> None:
    assert fetched(driver, last_fetched_epoch=1) == (Code.NONE, [Code.OFFSET_OUT_OF_RANGE])


@pytest.mark.parametrize(
    ("key_type", "code"),
    [(0, 0), (1, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, 42), (3, 42), (77, 42)],
)
def test_only_groups_have_coordinators(driver: NodeDriver, key_type: int, code: int) -> None:
    answer = driver.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=("k",)))
    assert [each.error_code for each in answer.coordinators] == [code]


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [(1, Code.NONE), (2, Code.MISMATCHED_ENDPOINT_TYPE), (3, Code.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_only_brokers_can_be_described(driver: NodeDriver, endpoint: int, code: Code) -> None:
    answer = driver.call(DescribeClusterRequest(endpoint_type=endpoint))
    assert (answer.error_code, answer.endpoint_type) == (code, 1)


@pytest.mark.parametrize(
    ("name", "code"),
    [("t", 3), ("a b", Code.INVALID_TOPIC_EXCEPTION), ("", Code.INVALID_TOPIC_EXCEPTION)],
)
def test_settings_of_a_name_that_no_topic_can_have_are_refused_as_such(
    driver: NodeDriver, name: str, code: int
) -> None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
    assert driver.call(DescribeConfigsRequest(resources=(resource,))).results[0].error_code == code


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("retention.ms", "soon", Code.INVALID_CONFIG),
        ("retention.ms", "-7", Code.INVALID_CONFIG),
        ("retention.ms", "-1", Code.NONE),
        ("cleanup.policy", "burn", Code.INVALID_CONFIG),
        ("cleanup.policy", "compact,delete", Code.NONE),
        ("segment.bytes", "1", Code.INVALID_CONFIG),
        ("compression.type", "rar", Code.INVALID_CONFIG),
        ("retention.ms", str(2**63 - 1), Code.NONE),
        ("retention.ms", str(2**63), Code.INVALID_CONFIG),
        ("max.message.bytes", str(2**31), Code.INVALID_CONFIG),
        ("max.message.bytes", "1_000", Code.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "0.1", Code.NONE),
        ("min.cleanable.dirty.ratio", "1.1", Code.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "dirty", Code.INVALID_CONFIG),
    ],
)
def test_a_setting_has_a_value_that_it_can_have(
    driver: NodeDriver, name: str, value: str, code: Code
) -> None:
    topic = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=(CreatableTopicConfig(name=name, value=value),),
    )
    (result,) = driver.call(CreateTopicsRequest(topics=(topic,))).topics
    assert (result.error_code, result.error_message is None) == (code, code == Code.NONE)


def test_operations_are_told_to_those_who_ask(driver: NodeDriver) -> None:
    driver.create("t")
    asked = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    names = tuple(MetadataRequestTopic(name=name) for name in ("t", "none"))
    answer = driver.call(
        MetadataRequest(topics=names, allow_auto_topic_creation=False, **asked), 10
    )
    assert answer.cluster_authorized_operations == 8096
    assert [topic.topic_authorized_operations for topic in answer.topics] == [3576, 3576]
    assert (
        driver.call(
            DescribeClusterRequest(include_cluster_authorized_operations=True)
        ).cluster_authorized_operations
        == 8096
    )


def test_a_topic_that_is_named_twice_has_one_answer(driver: NodeDriver) -> None:
    driver.create("t", 2)
    grown = tuple(
        CreatePartitionsTopic(name="t", count=count, assignments=None) for count in (3, 4)
    )
    assert [
        each.error_code for each in driver.call(CreatePartitionsRequest(topics=grown)).results
    ] == [Code.INVALID_REQUEST]
    gone = (DeleteTopicState(name="t", topic_id=bytes(16)),) * 2
    assert [
        each.error_code for each in driver.call(DeleteTopicsRequest(topics=gone)).responses
    ] == [Code.INVALID_REQUEST]
    neither = (DeleteTopicState(name=None, topic_id=bytes(16)),)
    assert [
        each.error_code for each in driver.call(DeleteTopicsRequest(topics=neither)).responses
    ] == [Code.INVALID_REQUEST]


def test_a_group_that_is_named_twice_is_deleted_once(driver: NodeDriver) -> None:
    answer = driver.call(DeleteGroupsRequest(groups_names=("g", "h", "g")))
    assert [(each.group_id, each.error_code) for each in answer.results] == [("g", 69), ("h", 69)]


@pytest.mark.parametrize(
    ("brokers", "code"), [((1,), Code.NONE), ((9,), 39), ((), 39), ((1, 9), 39)]
)
def test_new_partitions_can_only_be_here(
    driver: NodeDriver, brokers: tuple[int, ...], code: int
) -> None:
    driver.create("t", 1)
    where = (CreatePartitionsAssignment(broker_ids=brokers),)
    grown = CreatePartitionsTopic(name="t", count=2, assignments=where)
    assert driver.call(CreatePartitionsRequest(topics=(grown,))).results[0].error_code == code


@pytest.mark.parametrize("word", ["", " ", "a b", "-a", "a.", "a_b", "a\n", "ü"])
def test_a_client_that_calls_itself_by_no_word_is_told_nothing(
    driver: NodeDriver, word: str
) -> None:
    refused = ApiVersionsResponse(error_code=Code.INVALID_REQUEST)
    for version in (3, 4):
        assert (
            driver.call(
                ApiVersionsRequest(client_software_name=word, client_software_version="1"), version
            )
            == refused
        )
        assert (
            driver.call(
                ApiVersionsRequest(client_software_name="a", client_software_version=word), version
            )
            == refused
        )
        right = driver.call(
            ApiVersionsRequest(client_software_name="a-b.C", client_software_version="1.0-rc1"),
            version,
        )
        assert right.error_code == Code.NONE
    assert (
        driver.call(
            ApiVersionsRequest(client_software_name=word, client_software_version=word), 2
        ).error_code
        == Code.NONE
    )


def test_a_partition_whose_offset_is_asked_for_twice_is_told_once_that_this_is_wrong(
    driver: NodeDriver,
) -> None:
    driver.create("t", 2)
    wanted = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0))
    answer = driver.call(
        ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=wanted),)),
        10,
    )
    assert [(each.partition_index, each.error_code) for each in answer.topics[0].partitions] == [
        (0, 42),
        (1, 0),
    ]
    twice = (ListOffsetsTopic(name="t", partitions=wanted[:1]),) * 2
    answer = driver.call(ListOffsetsRequest(replica_id=-1, topics=twice), 10)
    assert [[each.error_code for each in topic.partitions] for topic in answer.topics] == [[42]]


def test_of_a_partition_that_is_fetched_twice_the_last_word_counts(driver: NodeDriver) -> None:
    driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a")), 12)
    wanted = tuple(
        FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
        for offset in (0, 1)
    )
    answer = driver.call(
        FetchRequest(min_bytes=0, topics=(FetchTopic(topic="t", partitions=wanted),)), 12
    )
    assert [bytes(each.records) for topic in answer.responses for each in topic.partitions] == [b""]


def test_a_topic_that_is_asked_for_by_its_name_and_its_id_is_described_once(
    driver: NodeDriver,
) -> None:
    named, by_id = (
        MetadataRequestTopic(name="t"),
        MetadataRequestTopic(name=None, topic_id=driver.create("t")),
    )
    assert [
        each.name for each in driver.call(MetadataRequest(topics=(named, by_id)), 12).topics
    ] == ["t"]


def test_a_login_where_there_is_no_sasl_is_refused_and_nothing_else(driver: NodeDriver) -> None:
    for version in (0, 1):
        assert driver.call(
            SaslHandshakeRequest(mechanism="PLAIN"), version
        ) == SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE)
    for version in (0, 1, 2):
        answer = driver.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), version)
        assert (answer.error_code, answer.auth_bytes) == (Code.ILLEGAL_SASL_STATE, b"")
