"""What a peer may make a reader allocate: no more than its bytes are worth."""

import tracemalloc
from typing import Any

import pytest

from apportion.errors import DecodeError
from apportion.wire.codec import read, write
from apportion.wire.codec_builder import fields_of
from apportion.wire.fields import Field
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.table import APIS, decode_request, decode_response

MOST, MOST_TAGS, MOST_IN_ALL = 1_000_000, 10_000, 2_000_000


def int32(number: int) -> bytes:
    """A number as arrays have it before the flexible versions."""
    return number.to_bytes(4, "big")


def varint(number: int) -> bytes:
    """A number as arrays have it in flexible versions."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def refusal(cls: Any, version: int, frame: bytes) -> str:
    """Why the frame is refused; nothing that depends on its size is allocated for that."""
    with pytest.raises(DecodeError):
        read(cls, version, b"")  # its reader is generated on first use
    tracemalloc.start()
    with pytest.raises(DecodeError) as caught:
        read(cls, version, frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000
    return str(caught.value)


def test_an_array_has_a_million_elements_at_most() -> None:
    groups = int32(MOST) + bytes(2 * MOST)
    assert read(DescribeGroupsRequest, 0, groups)[0].groups == ("",) * MOST
    assert refusal(DescribeGroupsRequest, 0, int32(MOST + 1) + bytes(2 * MOST + 2)) == (
        "DescribeGroupsRequest v0: groups: it says 1000001 where 1000000 are allowed"
    )


def test_an_array_of_structures_is_refused_before_its_first_element() -> None:
    topics = varint(MOST + 2) + bytes(2 * MOST + 2) + b"\0\0\0\0"
    assert refusal(MetadataRequest, 9, topics) == (
        "MetadataRequest v9: topics: it says 1000001 where 1000000 are allowed"
    )


def test_an_array_of_integers_has_the_same_limit() -> None:
    frame = b"\0\1g" + int32(1) + b"\0\1t" + int32(MOST + 1) + bytes(4 * MOST + 4)
    assert refusal(OffsetFetchRequest, 1, frame) == (
        "OffsetFetchRequest v1: topics.partition_indexes: it says 1000001 where 1000000 are allowed"
    )


def test_all_arrays_of_a_request_together_have_two_million_elements_at_most() -> None:
    # Groups without topics, each of 600,000 elements: the fourth would be one too many.
    topic = b"\1" + varint(500_001) + bytes(4 * 500_000) + b"\0"  # a name, partitions, no tags
    group = b"\2g" + varint(2) + topic + b"\0"
    three = b"".join([varint(4), *[group] * 3, b"\0\0"])
    assert len(read(OffsetFetchRequest, 8, three)[0].groups) == 3
    four = b"".join([varint(5), *[group] * 4, b"\0\0"])
    with pytest.raises(DecodeError) as caught:
        read(OffsetFetchRequest, 8, four)
    assert str(caught.value) == (
        "OffsetFetchRequest v8: groups.topics.partition_indexes: it says 2000008 where 2000000 "
        "are allowed"
    )


def test_a_subscription_has_the_same_limits() -> None:
    topics = int32(MOST + 1) + bytes(2 * MOST + 2)
    assert refusal(ConsumerProtocolSubscription, 0, topics).endswith(
        "topics: it says 1000001 where 1000000 are allowed"
    )


@pytest.mark.parametrize("count", [MOST_TAGS, MOST_TAGS + 1])
def test_a_structure_has_ten_thousand_tagged_fields_at_most(count: int) -> None:
    frame = write(MetadataRequest(), 9)[:-1] + varint(count) + bytes(2 * count)
    if count <= MOST_TAGS:
        assert read(MetadataRequest, 9, frame) == (MetadataRequest(), len(frame))
    else:
        assert refusal(MetadataRequest, 9, frame) == (
            "MetadataRequest v9: tags: it says 10001 where 10000 are allowed"
        )


def test_a_structure_that_knows_some_tagged_fields_has_the_same_limit() -> None:
    response = APIS[18].response
    frame = write(response(), 3)[:-1] + varint(MOST_TAGS + 1) + b"\7\0" * (MOST_TAGS + 1)
    assert refusal(response, 3, frame) == (
        "ApiVersionsResponse v3: tags: it says 10001 where 10000 are allowed"
    )


@pytest.mark.parametrize("count", [MOST_TAGS, MOST_TAGS + 1])
def test_a_header_has_ten_thousand_tagged_fields_at_most(count: int) -> None:
    tags, body = varint(count) + bytes(2 * count), write(ApiVersionsRequest(), 3)
    request = bytes([0, 18, 0, 3, 0, 0, 0, 1, 255, 255]) + tags + body
    response = int32(1) + tags + write(APIS[3].response(), 9)
    if count <= MOST_TAGS:
        assert decode_request(request).body == ApiVersionsRequest()
        assert decode_response(MetadataRequest, 9, response) == (1, APIS[3].response())
        return
    sentence = "a header's tagged fields are wrong: it says 10001 where 10000 are allowed"
    for decode in (
        lambda: decode_request(request),
        lambda: decode_response(MetadataRequest, 9, response),
    ):
        with pytest.raises(DecodeError, match=f"^{sentence}$"):
            decode()


def test_a_structure_of_a_request_takes_forty_bytes_at_most_for_each_of_its_own() -> None:
    count = 20_000
    topics = varint(count + 1) + b"\1\0" * count + b"\0\0\0\0"  # the smallest there are
    read(MetadataRequest, 9, topics)
    tracemalloc.start()
    request, _ = read(MetadataRequest, 9, topics)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert request.topics is not None
    assert len(request.topics) == count
    assert peak / len(topics) < 40


def depth(fields: tuple[Field, ...], above: tuple[Any, ...] = ()) -> int:
    """How deep the structures of a message stand in each other; they never stand in themselves."""
    inner = [field for field in fields if fields_of(field)]
    assert all(field.element not in above for field in inner)
    return 1 + max((depth(fields_of(each), (*above, each.element)) for each in inner), default=0)


def test_no_request_nests_deeper_than_its_declaration() -> None:
    assert max(depth(api.request.__fields__) for api in APIS.values()) == 3
