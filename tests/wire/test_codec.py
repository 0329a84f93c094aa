"""Values go to bytes and come back, in every version; wrong bytes only ever raise DecodeError."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError, EncodeError
from apportion.streams.metadata.kip848 import Kip848AssignmentMetadata, Kip848MemberMetadata
from apportion.streams.metadata.layouts import StreamsAssignment, StreamsSubscription
from apportion.wire.codec import FramePart, join_short_parts, read, read_whole, write, write_onto
from apportion.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.sync_group import SyncGroupRequest
from apportion.wire.records import groups
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from apportion.wire.table import APIS
from tests import profiles

RECORDS = [
    kind
    for kind in vars(groups).values()
    if isinstance(kind, type) and getattr(kind, "__type__", "") in ("key", "value")
]
CLASSES = [
    *(kind for api in APIS.values() for kind in (api.request, api.response)),
    *RECORDS,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Kip848AssignmentMetadata,
    Kip848MemberMetadata,
    StreamsAssignment,
    StreamsSubscription,
]
EVERY = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for cls in CLASSES
    for version in cls.__versions__
]
NEWEST = [pytest.param(cls, cls.__versions__[-1], id=cls.__name__) for cls in CLASSES]
QUICK = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def write_parts(value: Any, version: int) -> list[FramePart]:
    """Encode a message in parts, as the broker's responses are."""
    parts: list[FramePart] = []
    write_onto(parts, value, version)
    return join_short_parts(parts)


@pytest.mark.parametrize(("cls", "version"), EVERY)
def test_every_message_comes_back_as_it_went(
    cls: Any, version: int, values_of: Callable[..., st.SearchStrategy[Any]]
) -> None:
    @profiles.scaled_now(QUICK)
    @given(values_of(cls, version), st.binary(max_size=3))
    def comes_back(value: Any, lead: bytes) -> None:
        frame = lead + write(value, version)
        assert read(cls, version, frame, len(lead)) == (value, len(frame))
        assert b"".join(write_parts(value, version)) == frame[len(lead) :]
        assert read_whole(cls, version, memoryview(frame), len(lead)) == value

    comes_back()


@pytest.mark.parametrize(("cls", "version"), EVERY)
def test_a_message_cut_anywhere_is_a_decode_error(
    cls: Any, version: int, values_of: Callable[..., st.SearchStrategy[Any]]
) -> None:
    @profiles.scaled_now(settings(QUICK, max_examples=5))
    @given(values_of(cls, version))
    def ends_too_soon(value: Any) -> None:
        frame = write(value, version)
        for end in range(0, len(frame), 1 + len(frame) // 100):
            with pytest.raises(DecodeError, match=f"^{cls.__name__} v{version}: "):
                read(cls, version, frame[:end])

    ends_too_soon()


@pytest.mark.parametrize(("cls", "version"), NEWEST)
def test_damaged_bytes_decode_or_are_a_decode_error(
    cls: Any, version: int, values_of: Callable[..., st.SearchStrategy[Any]]
) -> None:
    @profiles.scaled_now(settings(QUICK, max_examples=40))
    @given(values_of(cls, version), st.data())
    def does_not_crash(value: Any, data: st.DataObject) -> None:
        frame = bytearray(write(value, version))
        for _ in range(data.draw(st.integers(1, 4))):
            if frame:
                frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(
                    st.sampled_from([0, 1, 2, 127, 128, 254, 255])
                )
        try:
            decoded, end = read(cls, version, bytes(frame))
        except DecodeError:
            return
        assert isinstance(decoded, cls)
        assert end <= len(frame)

    does_not_crash()


@pytest.mark.parametrize(("cls", "version"), NEWEST)
@settings(max_examples=40, deadline=None)
@given(noise=st.binary(max_size=60))
def test_noise_decodes_or_is_a_decode_error(cls: Any, version: int, noise: bytes) -> None:
    try:
        read(cls, version, noise)
    except DecodeError as error:
        assert str(error).startswith(f"{cls.__name__} v{version}: ")


HEARTBEAT = ConsumerGroupHeartbeatRequest


@pytest.mark.parametrize(
    ("cls", "version", "frame", "sentence"),
    [
        (HEARTBEAT, 1, b"\x02g\x00", "ConsumerGroupHeartbeatRequest v1: member_id: it is null"),
        (HEARTBEAT, 1, b"\x02\xff", "ConsumerGroupHeartbeatRequest v1: group_id: it is not UTF-8"),
        (
            HEARTBEAT,
            1,
            b"\x82",
            "ConsumerGroupHeartbeatRequest v1: group_id: the bytes end too soon",
        ),
        (
            HEARTBEAT,
            1,
            b"\xff\xff\xff\xff\x0fg",
            "ConsumerGroupHeartbeatRequest v1: group_id: it says 4294967294 where 1 bytes are left",
        ),
        (
            HEARTBEAT,
            1,
            b"\xff\xff\xff\xff\x7fg",
            "ConsumerGroupHeartbeatRequest v1: group_id: a varint has more than 32 bits",
        ),
        (
            HEARTBEAT,
            1,
            b"\xff\xff\xff\xff\xff\x01",
            "ConsumerGroupHeartbeatRequest v1: group_id: a varint has more than five bytes",
        ),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "MetadataRequest v0: topics: it is null"),
        (
            MetadataRequest,
            1,
            b"\xff\xff\xff\xfe",
            "MetadataRequest v1: topics: it says -2 where 0 bytes are left",
        ),
        (
            MetadataRequest,
            1,
            b"\x7f\xff\xff\xff",
            "MetadataRequest v1: topics: it says 2147483647 where 0 bytes are left",
        ),
        (
            MetadataRequest,
            1,
            b"\0\0\0\1\0\5a",
            "MetadataRequest v1: topics.name: it says 5 where 1 bytes are left",
        ),
        (MetadataRequest, 99, b"", "MetadataRequest has no version 99"),
        (
            MetadataRequest,
            9,
            b"\0\0\0\0\1\5\7a",
            "MetadataRequest v9: tags: tagged field 5 ends too soon",
        ),
        (
            ConsumerGroupHeartbeatResponse,
            1,
            bytes(8) + bytes(8) + b"\2",
            "ConsumerGroupHeartbeatResponse v1: assignment: it says 2 where 1 is a value "
            "and -1 is null",
        ),
        (
            ApiVersionsResponse,
            3,
            b"\0\0\1\0\0\0\0\1\1\7" + bytes(7),
            "ApiVersionsResponse v3: tags.finalized_features_epoch: the bytes end too soon",
        ),
        (
            ApiVersionsResponse,
            3,
            b"\0\0\1\0\0\0\0\1\1\7" + bytes(8),
            "ApiVersionsResponse v3: tags.finalized_features_epoch: it says 7 bytes, "
            "which is not what it takes",
        ),
    ],
)
def test_an_error_in_decoding_a_message_names_the_field(
    cls: Any, version: int, frame: bytes, sentence: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        read(cls, version, frame)
    assert str(caught.value) == sentence


def test_bytes_after_the_end_are_an_error() -> None:
    with pytest.raises(DecodeError, match=r"^MetadataRequest v0: 2 bytes follow its end$"):
        read_whole(MetadataRequest, 0, b"\0\0\0\0\0\0")


def test_tagged_fields_that_nobody_knows_are_passed_over() -> None:
    plain = write(MetadataRequest(topics=(MetadataRequestTopic(name="a"),)), 9)
    assert plain.endswith(b"\0")
    tagged = plain[:-1] + b"\2" + b"\5\2ab" + b"\x80\1\0"
    assert read_whole(MetadataRequest, 9, tagged) == read_whole(MetadataRequest, 9, plain)


def test_tagged_fields_that_somebody_knows_may_stand_between_unknown_ones() -> None:
    epoch = b"\1\x08" + bytes(7) + b"\7"
    frame = b"\0\0\1\0\0\0\0" + b"\3" + epoch + b"\4\1x" + b"\x81\1\2yz"
    assert read_whole(ApiVersionsResponse, 3, frame) == ApiVersionsResponse(
        finalized_features_epoch=7
    )


def test_bytes_and_records_are_views_of_the_frame() -> None:
    records = bytes(range(200)) * 40
    response = FetchResponse(
        responses=(FetchableTopicResponse(partitions=(PartitionData(records=records),)),)
    )
    parts = write_parts(response, 12)
    assert parts[1] is records
    frame = b"".join(parts)
    view: Any = read_whole(FetchResponse, 12, frame).responses[0].partitions[0].records
    assert view is not None
    assert (view.obj, bytes(view)) == (frame, records)


@pytest.mark.parametrize(
    ("value", "version", "sentence"),
    [
        (
            OffsetCommitRequest(group_instance_id="i"),
            6,
            "group_instance_id: this version has no such field",
        ),
        (
            FetchRequest(replica_state=ReplicaState(replica_id=3)),
            14,
            "replica_state: this version has no such field",
        ),
        (FetchRequest(replica_id=3), 15, "replica_id: this version has no such field"),
        (MetadataRequest(topics=None), 0, "topics: object of type 'NoneType' has no len()"),
        (
            MetadataRequest(topics=(MetadataRequestTopic(name=None),)),
            9,
            "topics.name: 'NoneType' object has no attribute 'encode'",
        ),
        (
            ApiVersionsResponse(api_keys=(ApiVersion(max_version=40_000),)),
            0,
            "api_keys.api_key to max_version: a value does not fit",
        ),
    ],
)
def test_a_value_that_a_version_cannot_express_is_refused(
    value: Any, version: int, sentence: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        write(value, version)
    assert str(caught.value) == f"{value.__class__.__name__} v{version}: {sentence}"


def test_a_version_that_is_not_there_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match=r"^MetadataRequest has no version 14$"):
        write(MetadataRequest(), 14)


def test_ignorable_fields_are_left_out_in_silence() -> None:
    assert write(OffsetCommitRequest(retention_time_ms=9), 5) == write(OffsetCommitRequest(), 5)


@pytest.mark.parametrize("version", range(6))
def test_a_broker_of_any_version_is_asked_for_a_classic_assignment(version: int) -> None:
    sync = SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range")
    assert read_whole(SyncGroupRequest, version, write(sync, version)) == (
        sync if version == 5 else SyncGroupRequest(group_id="g")
    )
