"""What wrong requests to a real Kafka taught (tests/kafka/test_wrong_requests.py): its code where
one would guess another.
"""

import struct
from collections.abc import Callable

import crc32c
import pytest

from apportion.errors import Code
from apportion.wire.fields import replaced
from apportion.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
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


@pytest.mark.parametrize("node", [-2, -1, 0, 1])
@pytest.mark.parametrize("cluster", [None, "", "this", "another"])
def test_a_client_that_wants_another_broker_is_sent_back_to_its_bootstrap_servers(
    driver: NodeDriver, cluster: str | None, node: int
) -> None:
    """KIP-1242, as Kafka 4.4.0 does (tests/kafka/test_versions.py)."""
    own = driver.call(MetadataRequest())
    assert (own.cluster_id is None, own.controller_id) == (False, 1)
    asked = ApiVersionsRequest(
        client_software_name="a",
        client_software_version="1",
        cluster_id=own.cluster_id if cluster == "this" else cluster,
        node_id=node,
    )
    code = Code.NONE
    if (cluster is None) != (node == -1):
        code = Code.INVALID_REQUEST
    elif cluster is not None and (cluster, node) != ("this", own.controller_id):
        code = Code.REBOOTSTRAP_REQUIRED
    answer = driver.call(asked, 5)
    accepted = driver.call(replaced(asked, cluster_id=None, node_id=-1), 5)
    assert accepted.error_code == Code.NONE
    assert answer == (ApiVersionsResponse(error_code=code) if code else accepted)


@pytest.mark.parametrize("word", ["", " ", "a b", "-a", "a.", "a_b", "a\n", "ü"])
def test_a_client_that_calls_itself_by_no_word_is_told_nothing(
    driver: NodeDriver, word: str
) -> None:
    refused = ApiVersionsResponse(error_code=Code.INVALID_REQUEST)
    for version in (3, 4, 5):
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
