"""Kafka Streams' metadata goes to bytes and comes back in every version; wrong bytes only ever
raise DecodeError.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError, EncodeError
from apportion.streams.metadata.codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from apportion.streams.metadata.model import (
    LATEST,
    NO_VERSION,
    RUNNING,
    AssignmentInfo,
    FutureInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.topics import TopicPartition
from tests import profiles
from tests.streams.metadata import assignments, kept_assignment, kept_subscription, subscriptions

ONE = TaskId(0, 1)


class Metadata(NamedTuple):
    """How one of the two is drawn, written and read, and what a version leaves of it."""

    values: Callable[[int], st.SearchStrategy[Any]]
    encode: Callable[[Any], bytes]
    decode: Callable[..., Any]
    kept: Callable[[Any], Any]


SUBSCRIPTION = Metadata(subscriptions, encode_subscription, decode_subscription, kept_subscription)
ASSIGNMENT = Metadata(assignments, encode_assignment, decode_assignment, kept_assignment)
VERSIONS = pytest.mark.parametrize("version", range(1, LATEST + 1))
BOTH = pytest.mark.parametrize(
    "metadata", [SUBSCRIPTION, ASSIGNMENT], ids=["subscription", "assignment"]
)


def holds_for(
    *values: st.SearchStrategy[Any], examples: int
) -> Callable[[Callable[..., None]], None]:
    """Try the law below with as many examples, at once."""
    tried = profiles.scaled_now(settings(max_examples=examples, deadline=None))
    return lambda law: tried(given(*values)(law))()


@VERSIONS
@BOTH
def test_metadata_comes_back_as_its_version_says_it(metadata: Metadata, version: int) -> None:
    @holds_for(metadata.values(version), examples=30)
    def comes_back(info: Any) -> None:
        assert metadata.decode(metadata.encode(info)) == metadata.kept(info)


@VERSIONS
@BOTH
def test_metadata_cut_anywhere_is_a_decode_error(metadata: Metadata, version: int) -> None:
    @holds_for(metadata.values(version), examples=5)
    def ends_too_soon(info: Any) -> None:
        frame = metadata.encode(info)
        for end in range(len(frame)):
            with pytest.raises(DecodeError):
                metadata.decode(frame[:end])


@VERSIONS
@BOTH
def test_damaged_metadata_decodes_or_is_a_decode_error(metadata: Metadata, version: int) -> None:
    @holds_for(metadata.values(version), st.data(), examples=60)
    def does_not_crash(info: Any, data: st.DataObject) -> None:
        frame = bytearray(metadata.encode(info))
        for _ in range(data.draw(st.integers(1, 4))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(
                st.sampled_from([0, 1, 2, 127, 128, 254, 255])
            )
        try:
            decoded = metadata.decode(bytes(frame))
        except DecodeError:
            return
        assert isinstance(decoded, SubscriptionInfo | AssignmentInfo | FutureInfo)


@VERSIONS
@BOTH
def test_noise_after_a_version_decodes_or_is_a_decode_error(
    metadata: Metadata, version: int
) -> None:
    @holds_for(st.binary(max_size=80), examples=30)
    def does_not_crash(noise: bytes) -> None:
        with suppress(DecodeError):
            metadata.decode(version.to_bytes(4) + b"\0\0\0\x0b" * (version > 2) + noise)


@VERSIONS
@BOTH
def test_bytes_after_the_end_of_the_metadata_are_ignored(metadata: Metadata, version: int) -> None:
    @holds_for(metadata.values(version), examples=5)
    def is_left_alone(info: Any) -> None:
        frame = metadata.encode(info)
        assert metadata.decode(frame + b"more") == metadata.decode(frame)


@BOTH
def test_metadata_from_the_future_says_only_its_versions(metadata: Metadata) -> None:
    @holds_for(metadata.values(LATEST + 1), examples=30)
    def says_only_versions(info: Any) -> None:
        frame = metadata.encode(info)
        assert metadata.decode(frame) == FutureInfo(LATEST + 1, info.supported)
        assert metadata.decode(frame[:8]) == FutureInfo(LATEST + 1, info.supported)
        assert metadata.decode(frame, latest=LATEST + 1) == info


@BOTH
def test_an_old_reader_takes_a_newer_version_for_the_future(metadata: Metadata) -> None:
    @holds_for(metadata.values(5), examples=30)
    def is_the_future(info: Any) -> None:
        assert metadata.decode(metadata.encode(info), latest=4) == FutureInfo(5, info.supported)


@BOTH
def test_a_reader_of_version_1_finds_one_version_number_in_version_2(metadata: Metadata) -> None:
    @holds_for(metadata.values(2), examples=5)
    def finds_one(info: Any) -> None:
        assert metadata.decode(metadata.encode(info), latest=1) == FutureInfo(2, NO_VERSION)


def test_equal_values_are_equal_bytes_whatever_their_order() -> None:
    def values(step: int) -> tuple[bytes, bytes]:
        sums = {TaskId(1, 0): 5, TaskId(0, 2): RUNNING, TaskId(0, 2, "a"): 7, TaskId(0, 10): 8}
        hosts = {
            HostInfo("b", 1): (TopicPartition("t", 1),),
            HostInfo("a", 2): (TopicPartition("s", 3), TopicPartition("a", 0))[::step],
        }
        subscription = SubscriptionInfo(
            used=11,
            supported=11,
            offset_sums=dict([*sums.items()][::step]),
            tags=dict([("b", ""), ("a", "")][::step]),
        )
        assignment = AssignmentInfo(
            used=11, active_hosts=dict([*hosts.items()][::step]), standby_hosts=hosts
        )
        return encode_subscription(subscription), encode_assignment(assignment)

    assert values(1) == values(-1)


def test_a_topology_without_a_name_may_be_said_as_an_empty_name() -> None:
    written = encode_subscription(SubscriptionInfo(used=10, supported=10, offset_sums={ONE: 5}))
    empty = written.replace(b"\xff\xff", b"\0\0")
    assert decode_subscription(empty) == decode_subscription(written)


def metadata_bytes(version: int, *parts: bytes) -> bytes:
    """A subscription or an assignment: its versions and these parts."""
    return b"".join([version.to_bytes(4), LATEST.to_bytes(4) * (version > 2), *parts])


def numbers(*values: int) -> bytes:
    """These as int32."""
    return b"".join(value.to_bytes(4, signed=True) for value in values)


PROCESS = bytes(16)


HOST = b"\0\1h" + numbers(80)
READERS = {"StreamsAssignment": decode_assignment}


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (b"", "StreamsUsedVersion v0: used: the bytes end too soon"),
        (numbers(0), "StreamsSubscription has no version 0"),
        (numbers(-1), "StreamsSubscription has no version -1"),
        (numbers(12), "StreamsVersions v0: used to supported: the bytes end too soon"),
        (numbers(12, 11), "StreamsSubscription v12: supported: 11 is older than the version used"),
        (
            numbers(5, 4) + PROCESS + bytes(12),
            "StreamsSubscription v5: supported: 4 is older than the version used",
        ),
        (metadata_bytes(1, PROCESS, numbers(-1)), "StreamsSubscription v1: active: it is null"),
        (
            metadata_bytes(1, PROCESS, numbers(1, 0)),
            "StreamsSubscription v1: active: it says 1 where 4 bytes are left",
        ),
        (
            metadata_bytes(1, PROCESS, numbers(0, 2**31 - 1)),
            f"StreamsSubscription v1: standby: it says {2**31 - 1} where 0 bytes are left",
        ),
        (
            metadata_bytes(1, PROCESS, numbers(1, 0, 1, 1, 0, 1)),
            "StreamsSubscription v1: active and standby: 0_1 occurs twice",
        ),
        (
            metadata_bytes(3, PROCESS, numbers(0, 0, 1), b"\xff"),
            "StreamsSubscription v3: endpoint: it is not UTF-8",
        ),
        (
            metadata_bytes(7, PROCESS, numbers(0, 1, 4, 9)),
            "StreamsSubscription v7: subtopology_sums.tasks: it says 9 where 0 bytes are left",
        ),
        (
            metadata_bytes(
                7, PROCESS, numbers(0, 2, 4, 1, 5), bytes(8), numbers(4, 1, 5), bytes(8)
            ),
            "StreamsSubscription v7: subtopology_sums: 4_5 occurs twice",
        ),
        (
            metadata_bytes(10, PROCESS, numbers(0, 9)),
            "StreamsSubscription v10: task_sums: it says 9 where 0 bytes are left",
        ),
        (
            metadata_bytes(10, PROCESS, numbers(0, 1, 4, 5), bytes(8), b"\0\x09ab"),
            "StreamsSubscription v10: task_sums.topology: it says 9 where 2 bytes are left",
        ),
        (
            metadata_bytes(
                10, PROCESS, numbers(0, 2), 2 * (numbers(4, 5) + bytes(8) + b"\0\1a"), bytes(5)
            ),
            "StreamsSubscription v10: task_sums: a__4_5 occurs twice",
        ),
        (
            metadata_bytes(11, PROCESS, numbers(0, 0), bytes(5), numbers(2, 0, 0, 0, 0)),
            "StreamsSubscription v11: tags:  occurs twice",
        ),
        (numbers(0), "StreamsAssignment has no version 0"),
        (
            metadata_bytes(1, numbers(1, 2)),
            "StreamsAssignment v1: active: it says 1 where 4 bytes are left",
        ),
        (metadata_bytes(1, numbers(0, -7)), "StreamsAssignment v1: standby: it is null"),
        (
            metadata_bytes(1, numbers(0, 2, 0, 1, 0, 0, 1, 0)),
            "StreamsAssignment v1: standby: 0_1 occurs twice",
        ),
        (
            metadata_bytes(1, numbers(0, 1, 0, 1, 2), 2 * (b"\0\1t" + numbers(0))),
            "StreamsAssignment v1: standby.partitions: TopicPartition(topic='t', "
            "partition=0) occurs twice",
        ),
        (
            metadata_bytes(2, numbers(0, 0, 2), 2 * (HOST + numbers(0))),
            "StreamsAssignment v2: active_hosts: HostInfo(host='h', port=80) occurs twice",
        ),
        (
            metadata_bytes(5, numbers(0, 0, 2, 7), b"\0\1s", numbers(7), b"\0\1t", bytes(8)),
            "StreamsAssignment v5: topics: 7 occurs twice",
        ),
        (
            metadata_bytes(
                5, numbers(0, 0, 1, 7), b"\0\1s", numbers(1), HOST, numbers(1, 6, 0), bytes(8)
            ),
            "StreamsAssignment v5: active_hosts: no topic has the number 6",
        ),
        (
            metadata_bytes(6, numbers(0, 0, 0, 0, 1), HOST, numbers(1, 0, 0), bytes(4)),
            "StreamsAssignment v6: standby_hosts: no topic has the number 0",
        ),
        (
            metadata_bytes(6, numbers(0, 0, 1, 0), b"\0\1\xff"),
            "StreamsAssignment v6: topics.topic: it is not modified UTF-8",
        ),
        (
            metadata_bytes(10, numbers(1, 0, 0, 2**31 - 1)),
            f"StreamsAssignment v10: active.topology: it says {2**31 - 1} where 0 bytes are left",
        ),
        (
            metadata_bytes(10, numbers(1, 0, 0, -2)),
            "StreamsAssignment v10: active.topology: it says -2 where 0 bytes are left",
        ),
    ],
)
def test_an_error_in_decoding_metadata_names_the_field(frame: bytes, sentence: str) -> None:
    with pytest.raises(DecodeError) as caught:
        READERS.get(sentence.split()[0], decode_subscription)(frame)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("info", "sentence"),
    [
        (SubscriptionInfo(used=0), "StreamsSubscription has no version 0"),
        (
            SubscriptionInfo(used=3),
            "StreamsSubscription v3: supported: -1 is older than the version used",
        ),
        (
            SubscriptionInfo(used=12, supported=11),
            "StreamsSubscription v12: supported: 11 is older than the version used",
        ),
        (
            SubscriptionInfo(used=11, supported=11, unique=128),
            "StreamsSubscription v11: unique to error: a value does not fit",
        ),
        (
            SubscriptionInfo(used=6, supported=6, offset_sums={TaskId(0, 1, "a"): 5}),
            "StreamsSubscription v6: offset_sums: this version has no names of topologies",
        ),
        (
            SubscriptionInfo(used=9, supported=9, offset_sums={TaskId(0, 1, "a"): 5}),
            "StreamsSubscription v9: offset_sums: this version has no names of topologies",
        ),
        (AssignmentInfo(used=0), "StreamsAssignment has no version 0"),
        (
            AssignmentInfo(used=9, active=(TaskId(0, 1, "a"),)),
            "StreamsAssignment v9: active.topology: this version has no such field",
        ),
        (
            AssignmentInfo(used=9, standby={TaskId(0, 1, "a"): ()}),
            "StreamsAssignment v9: standby.topology: this version has no such field",
        ),
        (
            AssignmentInfo(used=2, active_hosts={HostInfo("h" * 65_536, 1): ()}),
            "StreamsAssignment v2: active_hosts.host: a value does not fit",
        ),
    ],
)
def test_metadata_that_a_version_cannot_express_is_refused(info: Any, sentence: str) -> None:
    with pytest.raises(EncodeError) as caught:
        (encode_subscription if isinstance(info, SubscriptionInfo) else encode_assignment)(info)
    assert str(caught.value) == sentence
