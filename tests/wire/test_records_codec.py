"""Records of __consumer_offsets and the blobs of classic members, byte by byte where the layout is
a promise.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError
from apportion.wire.records import consumer_serde
from apportion.wire.records import groups as records
from apportion.wire.records.codec import decode_key, decode_value, encode_key, encode_value
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from tests import profiles

KINDS: list[Any] = [
    kind for kind in vars(records).values() if isinstance(kind, type) and hasattr(kind, "__type__")
]
KEYS = {kind.__key__: kind for kind in KINDS if kind.__type__ == "key"}
VALUES = {kind.__key__: kind for kind in KINDS if kind.__type__ == "value"}
PAIRS = [pytest.param(KEYS[number], VALUES[number], id=KEYS[number].__name__) for number in KEYS]
TOPIC_ID = bytes(range(16))


def test_every_record_has_a_key_and_a_value() -> None:
    assert KEYS.keys() == VALUES.keys() == {1, 2, 3, 4, 5, 6, 7, 8, 16}


@pytest.mark.parametrize(("key_class", "value_class"), PAIRS)
def test_every_record_comes_back_as_it_went(
    key_class: type[Any], value_class: type[Any], values_of: Callable[..., st.SearchStrategy[Any]]
) -> None:
    @profiles.scaled_now(
        settings(max_examples=25, deadline=None, suppress_health_check=[*HealthCheck])
    )
    @given(values_of(key_class, 0), values_of(value_class, value_class.__versions__[-1]))
    def comes_back(key: Any, value: Any) -> None:
        stored = encode_key(key)
        assert int.from_bytes(stored[:2], "big") == key_class.__key__
        assert decode_key(stored) == key
        newest = value_class.__versions__[-1]
        assert decode_value(key, encode_value(value, newest)) == value
        assert decode_value(key, encode_value(value)) == value

    comes_back()


def test_a_committed_offset_is_written_as_every_broker_since_2_3_reads_it() -> None:
    key = records.OffsetCommitKey(group="g", topic="t", partition=2)
    value = records.OffsetCommitValue(offset=7, leader_epoch=1, metadata="m", commit_timestamp=9)
    assert encode_key(key) == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\2"
    assert (
        encode_value(value)
        == b"\0\3" + bytes(7) + b"\7" + b"\0\0\0\1" + b"\0\1m" + bytes(7) + b"\x09"
    )
    assert decode_key(b"\0\0" + encode_key(key)[2:]) == key


def test_a_committed_offset_that_knows_its_topic_id_needs_version_4() -> None:
    value = records.OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9, topic_id=TOPIC_ID)
    stored = encode_value(value)
    assert (
        stored
        == b"\0\4"
        + bytes(7)
        + b"\7"
        + b"\xff" * 4
        + b"\2m"
        + bytes(7)
        + b"\x09"
        + b"\1\0\x10"
        + TOPIC_ID
    )
    assert decode_value(records.OffsetCommitKey(), stored) == value


def test_a_current_assignment_stands_as_the_schema_says() -> None:
    held = records.RecordTopicPartitions(topic_id=TOPIC_ID, partitions=(0, 5))
    dated = records.RecordTopicPartitions(
        topic_id=TOPIC_ID, partitions=(3,), assignment_epochs=(8,)
    )
    value = records.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=9,
        previous_member_epoch=8,
        state=1,
        assigned_partitions=(held,),
        partitions_pending_revocation=(dated,),
    )
    assert encode_value(value) == (
        b"\0\0" + b"\0\0\0\x09" + b"\0\0\0\x08" + b"\1"
        b"\2" + TOPIC_ID + b"\3" + b"\0\0\0\0" + b"\0\0\0\5" + b"\0"
        b"\2" + TOPIC_ID + b"\2" + b"\0\0\0\3" + b"\1\0\5" + b"\2\0\0\0\x08" + b"\0"
    )


def test_a_key_of_an_unknown_type_is_none() -> None:
    assert decode_key(b"\0\x63whatever") is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\3", b"\0\3\0\5ab", b"\0\3\0\1a!"])
def test_a_damaged_key_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_key(data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\1\0\0\0\1\0", b"\0\0\0\0\0\1\0!"])
def test_a_damaged_value_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_value(records.ConsumerGroupMetadataKey(), data)


@pytest.mark.parametrize("cls", [ConsumerProtocolAssignment, ConsumerProtocolSubscription])
def test_blobs_come_back_as_they_went(
    cls: Any, values_of: Callable[..., st.SearchStrategy[Any]]
) -> None:
    @profiles.scaled_now(
        settings(max_examples=50, deadline=None, suppress_health_check=[*HealthCheck])
    )
    @given(values_of(cls, 3))
    def comes_back(value: ConsumerProtocolAssignment | ConsumerProtocolSubscription) -> None:
        assert consumer_serde.decode(cls, consumer_serde.encode(value)) == (3, value)

    comes_back()


def test_a_subscription_leaves_out_what_its_version_has_not() -> None:
    owned = (ConsumerProtocolTopicPartition(topic="t", partitions=(1,)),)
    whole = ConsumerProtocolSubscription(
        topics=("t",), user_data=b"u", owned_partitions=owned, generation_id=4, rack_id="r"
    )
    assert consumer_serde.encode(whole, 0) == b"\0\0" + b"\0\0\0\1\0\1t" + b"\0\0\0\1u"
    older = consumer_serde.decode(ConsumerProtocolSubscription, consumer_serde.encode(whole, 1))
    assert older == (
        1,
        ConsumerProtocolSubscription(topics=("t",), user_data=b"u", owned_partitions=owned),
    )


def test_a_blob_from_the_future_is_read_as_the_newest_known() -> None:
    value = ConsumerProtocolSubscription(topics=("t",), rack_id="r")
    blob = b"\0\x09" + consumer_serde.encode(value)[2:] + b"what comes later"
    assert consumer_serde.decode(ConsumerProtocolSubscription, blob) == (9, value)


@pytest.mark.parametrize("blob", [b"", b"\0", b"\xff\xff", b"\0\0", b"\0\0\0\0\0\5"])
def test_a_damaged_blob_is_a_decode_error(blob: bytes) -> None:
    with pytest.raises(DecodeError):
        consumer_serde.decode(ConsumerProtocolSubscription, blob)
