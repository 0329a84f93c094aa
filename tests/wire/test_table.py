"""Whole frames: the list of APIs, headers, lengths, and what a wrong frame is told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import Code, DecodeError
from apportion.wire.absent_apis import ABSENT_APIS
from apportion.wire.frames import FrameSplitter
from apportion.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.metadata import MetadataRequest, MetadataResponse
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from apportion.wire.table import (
    APIS,
    SERVED_APIS,
    Api,
    DecodedRequest,
    api_versions_response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

SPOKEN = {
    "Produce": (0, 0, 13),
    "Fetch": (1, 4, 18),
    "ListOffsets": (2, 1, 11),
    "Metadata": (3, 0, 13),
    "OffsetCommit": (8, 2, 10),
    "OffsetFetch": (9, 1, 10),
    "FindCoordinator": (10, 0, 6),
    "JoinGroup": (11, 0, 9),
    "Heartbeat": (12, 0, 4),
    "LeaveGroup": (13, 0, 5),
    "SyncGroup": (14, 0, 5),
    "DescribeGroups": (15, 0, 6),
    "ListGroups": (16, 0, 5),
    "SaslHandshake": (17, 0, 1),
    "ApiVersions": (18, 0, 5),
    "CreateTopics": (19, 2, 7),
    "DeleteTopics": (20, 1, 6),
    "DeleteRecords": (21, 0, 2),
    "InitProducerId": (22, 0, 5),
    "OffsetForLeaderEpoch": (23, 2, 4),
    "DescribeAcls": (29, 1, 3),
    "CreateAcls": (30, 1, 3),
    "DeleteAcls": (31, 1, 3),
    "DescribeConfigs": (32, 1, 4),
    "AlterConfigs": (33, 0, 2),
    "SaslAuthenticate": (36, 0, 2),
    "CreatePartitions": (37, 0, 3),
    "DeleteGroups": (42, 0, 3),
    "IncrementalAlterConfigs": (44, 0, 1),
    "OffsetDelete": (47, 0, 0),
    "DescribeUserScramCredentials": (50, 0, 0),
    "AlterUserScramCredentials": (51, 0, 0),
    "DescribeCluster": (60, 0, 2),
    "ConsumerGroupHeartbeat": (68, 0, 1),
    "ConsumerGroupDescribe": (69, 0, 1),
    "ListConfigResources": (74, 0, 1),
    # of KIP-848, and of no Kafka, which counts its keys from 0
    "ConsumerGroupPrepareAssignment": (20848, 0, 0),
    "ConsumerGroupInstallAssignment": (20849, 0, 0),
}
EVERY = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api in APIS.values()
    for version in api.versions
]
HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)


def whole(parts: list[Any]) -> bytes:
    """The bytes after the length, which must be right."""
    frame = b"".join(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


def test_the_table_speaks_what_it_should() -> None:
    assert {
        api.name: (api.key, api.versions[0], api.versions[-1]) for api in APIS.values()
    } == SPOKEN
    assert [api.name for api in SERVED_APIS.values()] == [*SPOKEN]


def test_request_and_response_of_an_api_agree() -> None:
    for api in APIS.values():
        request, response = api.request, api.response
        assert (request.__key__, request.__versions__, request.__type__) == (
            api.key,
            api.versions,
            "request",
        )
        assert (response.__key__, response.__versions__, response.__type__) == (
            api.key,
            api.versions,
            "response",
        )
        assert request.__flexible__ == response.__flexible__ == api.flexible


@pytest.mark.parametrize(("api", "version"), EVERY)
@pytest.mark.parametrize("client_id", ["", "flights-étl", None])
def test_a_request_comes_back_with_its_header(
    api: Api, version: int, client_id: str | None
) -> None:
    body = api.request()
    frame = whole([encode_request(body, version, -7, client_id)])
    if api.key in SERVED_APIS:
        assert decode_request(frame) == DecodedRequest(api, version, -7, client_id or "", body)
        return
    with pytest.raises(DecodeError) as caught:
        decode_request(frame)
    assert str(caught.value) == (
        f"a request is {api.name} (API key {api.key}), which this broker does not have"
    )


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_a_response_comes_back_with_its_header(api: Api, version: int) -> None:
    body = api.response()
    frame = whole(encode_response(api, version, 9, body))
    assert decode_response(api.request, version, frame) == (9, body)


def test_an_answer_to_api_versions_has_no_tagged_fields_in_its_header() -> None:
    assert whole(encode_response(APIS[18], 3, 5, ApiVersionsResponse())) == bytes(
        [0, 0, 0, 5]
    ) + bytes([0, 0, 1, 0, 0, 0, 0, 0])


def test_api_versions_from_the_future_is_answered_with_the_key_list() -> None:
    frame = bytearray(encode_request(ApiVersionsRequest(), 3, 5, "c")[4:])
    frame[3] = 99
    incoming = decode_request(bytes(frame))
    assert incoming == DecodedRequest(APIS[18], 99, 5, "", None)
    answer = api_versions_response(Code.UNSUPPORTED_VERSION)
    assert decode_response(
        ApiVersionsRequest, 0, whole(encode_response(incoming.api, 0, 5, answer))
    ) == (5, answer)
    assert answer.error_code == Code.UNSUPPORTED_VERSION
    assert int(answer.error_code) == 35
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == sorted(
        SPOKEN.values()
    )


def test_a_client_reads_that_answer_whatever_version_it_asked_in() -> None:
    answer = api_versions_response(Code.UNSUPPORTED_VERSION)
    frame = whole(encode_response(APIS[18], 0, 5, answer))
    read = [decode_response(ApiVersionsRequest, version, frame) for version in APIS[18].versions]
    assert read == [(5, answer)] * 6


def test_long_records_are_one_part_of_their_own_uncopied() -> None:
    records = memoryview(bytes(10_000))
    body = ProduceRequest(
        topic_data=(TopicProduceData(partition_data=(PartitionProduceData(records=records),)),)
    )
    frame = encode_request(body, 13, 1, "c")
    partition = decode_request(frame[4:]).body.topic_data[0].partition_data[0]
    assert partition.records == records


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (b"\0\x03\0", "a request of 3 bytes is shorter than its header"),
        (b"\x03\xe7\0\0\0\0\0\1\xff\xff", "a request has API key 999, which is unknown here"),
        (
            b"\0\x2b\0\1\0\0\0\1\xff\xff",
            "a request is ElectLeaders (API key 43), which this broker does not have",
        ),
        (
            b"\0\x03\0\x63\0\0\0\1\xff\xff",
            "Metadata has versions 0 to 13 here, and a request has 99",
        ),
        (b"\0\x01\0\x03\0\0\0\1\xff\xff", "Fetch has versions 4 to 18 here, and a request has 3"),
        (b"\0\x03\0\0\0\0\0\1\0\x05abc", "a request's header says that its client id has 5 bytes"),
        (b"\0\x03\0\0\0\0\0\1\xff\xfe", "a request's header says that its client id has -2 bytes"),
        (b"\0\x03\0\0\0\0\0\1\0\1\xff", "a request's client id is not UTF-8"),
        (b"\0\x03\0\x09\0\0\0\1\0\0", "a header's tagged fields end too soon"),
        (
            b"\0\x03\0\x09\0\0\0\1\0\0\1\0\7",
            "a header's tagged fields are wrong: tagged field 0 ends too soon",
        ),
    ],
)
def test_a_wrong_request_is_a_decode_error_with_a_sentence(frame: bytes, sentence: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_request(frame)
    assert str(caught.value) == sentence


def test_no_absent_api_is_in_the_table() -> None:
    assert not APIS.keys() & ABSENT_APIS.keys()


def test_a_wrong_response_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match=r"^a response of 2 bytes is shorter than its header$"):
        decode_response(MetadataRequest, 0, b"\0\0")
    frame = whole(encode_response(APIS[3], 0, 1, MetadataResponse()))
    with pytest.raises(DecodeError, match=r"^MetadataResponse v0: 1 bytes follow its end$"):
        decode_response(MetadataRequest, 0, frame + b"!")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EVERY), st.data())
def test_a_damaged_request_is_a_decode_error_or_a_request(case: Any, data: st.DataObject) -> None:
    api, version = case.values
    frame = bytearray(encode_request(api.request(), version, 1, "client")[4:])
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(decode_request(bytes(frame)), DecodedRequest)
    except DecodeError as error:
        assert len(str(error)) > 10


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.integers(1, 9), min_size=1))
def test_frames_come_out_whole_however_the_bytes_arrive(
    bodies: list[bytes], steps: list[int]
) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    frames, out, position = FrameSplitter(20), [], 0
    while position < len(stream):
        step = steps[position % len(steps)]
        out += frames.feed(stream[position : position + step])
        position += step
    assert out == bodies
    # No bytes are left over: the next frame begins at once.
    assert frames.feed(b"\0\0\0\1x") == [b"x"]


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (b"\0\0\0\x15", "a frame says that it has 21 bytes, and 20 are allowed"),
        (b"\xff\xff\xff\xff", "a frame says that it has -1 bytes, and 20 are allowed"),
        (b"GET ", "a frame says that it has 1195725856 bytes, and 20 are allowed"),
    ],
)
def test_a_frame_that_cannot_be_is_refused_before_it_is_kept(head: bytes, sentence: str) -> None:
    frames = FrameSplitter(20)
    assert frames.feed(b"\0\0\0\1x" + head[:2]) == [b"x"]
    with pytest.raises(DecodeError) as caught:
        frames.feed(head[2:])
    assert str(caught.value) == sentence


def test_a_heartbeat_stands_on_the_wire_as_the_protocol_says() -> None:
    frame = whole([encode_request(HEARTBEAT, 1, 5, "c")])
    header = b"\0\x44\0\x01\0\0\0\x05\0\x01c\0"
    assert frame == header + b"\x02g\x02m\0\0\0\x03\0\0\xff\xff\xff\xff\0\0\0\0\0"
    answer = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=3, heartbeat_interval_ms=1000
    )
    assert (
        whole(encode_response(APIS[68], 1, 5, answer))
        == b"\0\0\0\x05\0" + bytes(6) + b"\0\x02m\0\0\0\x03\0\0\x03\xe8\xff\0"
    )
