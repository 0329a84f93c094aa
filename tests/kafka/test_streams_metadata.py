"""Kafka Streams' metadata, said by us and by Kafka Streams' own classes in Java."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings

from apportion.streams.metadata.codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from apportion.streams.metadata.model import LATEST, AssignmentInfo, SubscriptionInfo, TaskId
from apportion.testing.kafka import KafkaMissing, jars_of
from tests import profiles
from tests.kafka.streams.oracle import Oracle, Refusal
from tests.kafka.streams.record import GOLDEN, POM, recorded
from tests.streams.metadata import assignments, subscriptions

VERSIONS = pytest.mark.parametrize("version", range(1, LATEST + 1))
RANDOM = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TASK = {TaskId(0, 1, "a"): 5}


@pytest.fixture(scope="module")
def streams_jars(lane_missing: Callable[[str], NoReturn]) -> Path:
    """The jars of Kafka Streams' metadata; without Maven the lane is missing."""
    try:
        return jars_of(POM)
    except KafkaMissing as problem:
        lane_missing(str(problem))


@pytest.fixture(scope="module")
def java(streams_jars: Path, lane_missing: Callable[[str], NoReturn]) -> Iterator[Oracle]:
    """Java's metadata classes; without Java the lane is missing."""
    try:
        oracle = Oracle(streams_jars)
    except KafkaMissing as problem:
        lane_missing(str(problem))
    with oracle:
        yield oracle


def test_the_golden_bytes_are_what_kafka_streams_says_today(streams_jars: Path) -> None:
    assert recorded(streams_jars) == GOLDEN.read_text()


@VERSIONS
def test_subscriptions_are_the_same_bytes_and_mean_the_same_to_java(
    java: Oracle, version: int
) -> None:
    @profiles.scaled_now(RANDOM)
    @given(subscriptions(version))
    def are_the_same(info: SubscriptionInfo) -> None:
        theirs, ordered = java.write(info)
        assert encode_subscription(info).hex() == ordered.hex()
        assert decode_subscription(theirs) == java.read("subscription", encode_subscription(info))

    are_the_same()


@VERSIONS
def test_assignments_are_as_many_bytes_and_mean_the_same_to_java(
    java: Oracle, version: int
) -> None:
    """The numbers of topics are in the order of Java's hash tables, so the bytes may differ in
    these; see the golden ones.
    """

    @profiles.scaled_now(RANDOM)
    @given(assignments(version))
    def are_the_same(info: AssignmentInfo) -> None:
        theirs, _ = java.write(info)
        ours = encode_assignment(info)
        assert len(ours) == len(theirs)
        assert ours == theirs or version >= 5
        assert decode_assignment(theirs) == java.read("assignment", ours)

    are_the_same()


def test_java_reads_the_version_numbers_of_a_subscription_from_the_future(java: Oracle) -> None:
    data = encode_subscription(SubscriptionInfo(12, 13, offset_sums={TaskId(0, 1): 5}))
    assert java.read("subscription", data) == SubscriptionInfo(12, 13)


@pytest.mark.parametrize(
    "info",
    [
        AssignmentInfo(12, 12),
        SubscriptionInfo(9, 11, offset_sums=TASK),
        SubscriptionInfo(6, 11, offset_sums=TASK),
        AssignmentInfo(9, 11, active=(*TASK,)),
        AssignmentInfo(9, 11, standby=dict.fromkeys(TASK, ())),
        SubscriptionInfo(3),
        SubscriptionInfo(5, 4),
    ],
)
def test_java_too_refuses_to_write_what_cannot_be_said(
    java: Oracle, info: AssignmentInfo | SubscriptionInfo
) -> None:
    with pytest.raises(Refusal):
        java.write(info)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("subscription", encode_subscription(SubscriptionInfo(11, 11))),
        ("assignment", encode_assignment(AssignmentInfo(11, 11))),
    ],
)
def test_java_too_leaves_alone_what_follows_the_end(java: Oracle, kind: str, data: bytes) -> None:
    assert java.read(kind, data + b"more") == java.read(kind, data)


def test_java_fails_at_an_assignment_from_the_future(java: Oracle) -> None:
    with pytest.raises(Refusal):
        java.read("assignment", encode_assignment(AssignmentInfo(12, 12)))
