"""Subscriptions, assignments and user data as bytes, and what comes of bytes that are none."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape
from apportion.errors import DecodeError
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS, CooperativeSticky, Range, Sticky
from apportion.member.assignors.serde import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from apportion.wire.codec import read
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import ConsumerProtocolTopicPartition, StickyUserData

SUBSCRIPTION = Subscription(
    ("t", "u"), b"data", (TopicParts("t", (0, 2)), TopicParts("u", (1,))), 7, "rack", "instance"
)


def test_a_subscription_comes_back_as_it_was_said() -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION), "instance") == SUBSCRIPTION


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, Subscription(SUBSCRIPTION.topics, SUBSCRIPTION.user_data)),
        (1, Subscription(SUBSCRIPTION.topics, SUBSCRIPTION.user_data, SUBSCRIPTION.owned)),
        (2, Subscription(SUBSCRIPTION.topics, SUBSCRIPTION.user_data, SUBSCRIPTION.owned, 7)),
        (
            3,
            Subscription(
                SUBSCRIPTION.topics, SUBSCRIPTION.user_data, SUBSCRIPTION.owned, 7, "rack"
            ),
        ),
    ],
)
def test_an_older_version_says_less(version: int, expected: Subscription) -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION, version)) == expected


def test_topics_and_owned_partitions_are_said_in_order() -> None:
    muddled = Subscription(
        ("u", "t"), None, (TopicParts("u", (1,)), TopicParts("t", (2, 0, 2)), TopicParts("u", (1,)))
    )
    decoded = decode_subscription(encode_subscription(muddled))
    assert decoded == Subscription(
        ("t", "u"), None, (TopicParts("t", (0, 2)), TopicParts("u", (1,)))
    )


def test_a_generation_below_none_is_none() -> None:
    assert (
        decode_subscription(encode_subscription(Subscription((), generation=-5))).generation == -1
    )


def test_an_assignment_comes_back_sorted_and_each_partition_once() -> None:
    muddled = Given(
        (TopicParts("u", (1,)), TopicParts("t", (2, 0)), TopicParts("u", (1, 0))), b"data"
    )
    assert decode_assignment(encode_assignment(muddled)) == Given(
        (TopicParts("t", (0, 2)), TopicParts("u", (0, 1))), b"data"
    )


def test_user_data_that_is_left_out_is_none_and_half_of_it_an_error() -> None:
    given = Given((TopicParts("t", (0, 2)),), b"12345678")
    assert decode_assignment(encode_assignment(Given(given.partitions))[:-4]) == Given(
        given.partitions
    )
    subscription = Subscription(("t", "u"))
    assert decode_subscription(encode_subscription(subscription, 0)[:-4]) == subscription
    for length in range(1, 12):
        with pytest.raises(DecodeError, match="ConsumerProtocolAssignment"):
            decode_assignment(encode_assignment(given)[:-length])


@pytest.mark.parametrize(
    "blob", [b"", b"\0", b"\xff\xff\0\0\0\0\xff\xff\xff\xff", b"\0\3\0\0\0\1\0\1"]
)
def test_bytes_that_are_no_assignment_or_subscription_are_told(blob: bytes) -> None:
    with pytest.raises(DecodeError, match="ConsumerProtocolAssignment"):
        decode_assignment(blob)
    with pytest.raises(DecodeError, match="ConsumerProtocolSubscription"):
        decode_subscription(blob)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=40).map(lambda tail: b"\0\3\0\0\0\1\0\1t" + tail) | st.binary(max_size=40)
)
def test_no_bytes_do_worse_than_a_decode_error(blob: bytes) -> None:
    with suppress(DecodeError):
        members = {
            "a": decode_subscription(blob),
            "b": Subscription(("t",), blob, generation=1),
            "c": SUBSCRIPTION,
        }
        for assignor in CLIENT_ASSIGNORS.values():
            assert sorted(assignor().assign({"t": TopicShape(3)}, members)) == ["a", "b", "c"]
    with suppress(DecodeError):
        decode_assignment(blob)


def test_sticky_tells_nothing_before_its_first_assignment() -> None:
    assert (Sticky().user_data(("t",)), Range().user_data(("t",))) == (None, None)


def test_sticky_tells_its_last_assignment_and_the_generation() -> None:
    sticky = Sticky()
    sticky.on_assignment(Given((TopicParts("t", (0, 2)),)), 5)
    assert sticky.user_data(("t",)) == b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\2\0\0\0\5"


def test_cooperative_sticky_tells_its_last_generation_also_when_there_was_none() -> None:
    sticky = CooperativeSticky()
    assert sticky.user_data(("t",)) == b"\xff\xff\xff\xff"
    sticky.on_assignment(Given(), 5)
    assert sticky.user_data(("t",)) == b"\0\0\0\5"


HELD = (ConsumerProtocolTopicPartition(topic="t", partitions=(0, 2)),)


def test_user_data_without_a_generation_is_read_by_a_new_leader() -> None:
    old = b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\2"
    assert consumer_serde.decode_sticky(old) == StickyUserData(topic_partitions=HELD, generation=-1)


def test_user_data_with_a_generation_are_read_by_an_old_leader_as_what_it_knows() -> None:
    new = consumer_serde.encode_sticky(HELD, 5)
    old, end = read(StickyUserData, 0, new)
    assert (old, new[end:]) == (StickyUserData(topic_partitions=HELD), b"\0\0\0\5")


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\0",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff\0\0\0\0",
        b"\0\0\0\1\0\2\xff\xff\0\0\0\0",
    ],
)
def test_user_data_that_cannot_be_read_tell_nothing(data: bytes | None) -> None:
    assert consumer_serde.decode_sticky(data) == StickyUserData()
    assert consumer_serde.decode_cooperative(data if data is None else data[:3]) == -1
