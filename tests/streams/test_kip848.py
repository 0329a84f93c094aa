"""The metadata of KIP-848's Streams chapter: its bytes, what may change in it, and the hash of a
topology.
"""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.streams.metadata.kip848 import (
    VERSION,
    AssignmentError,
    Kip848ActiveTask,
    Kip848AssignmentMetadata,
    Kip848ClientTag,
    Kip848HostPartitions,
    Kip848MemberMetadata,
    Kip848Replica,
    Kip848TaskLag,
    Kip848TopicPartitions,
    Reason,
    is_allowed_update,
    topology_hash,
)
from apportion.wire.codec import read_whole, write

SAID: dict[str, Any] = {
    "process_id": b"p" * 16,
    "user_endpoint": b"h:1",
    "client_tags": (Kip848ClientTag(key="zone", value="a"),),
    "topology_hash": b"t" * 16,
    "task_lags": (Kip848TaskLag(subtopology=0, partition=2, lag=5),),
}
CHANGES = {
    "process_id": b"q" * 16,
    "user_endpoint": b"h:2",
    "client_tags": (),
    "topology_hash": b"u" * 16,
    "task_lags": (Kip848TaskLag(subtopology=0, partition=2, lag=0),),
}


def test_reasons_and_errors_have_the_numbers_of_the_page() -> None:
    assert {reason.name: int(reason) for reason in Reason} == {
        "NONE": 0,
        "SHUTDOWN": 1,
        "WARM_UP_READY": 2,
        "WARM_UP_FAILED": 3,
        "TOPOLOGY_CHANGED": 4,
    }
    assert {error.name: int(error) for error in AssignmentError} == {
        "NONE": 0,
        "SHUTDOWN": 1,
        "ASSIGNMENT_ERROR": 2,
        "INCONSISTENT_TOPOLOGY": 3,
        "MISSING_SOURCES": 4,  # not the page's
    }


def test_member_metadata_has_the_bytes_of_a_flexible_message() -> None:
    written = write(Kip848MemberMetadata(**SAID), VERSION)
    lag = bytes([0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5])
    assert (
        written == b"p" * 16 + b"\4h:1" + b"\2\5zone\2a\0" + b"t" * 16 + b"\2" + lag + b"\0" + b"\0"
    )
    assert read_whole(Kip848MemberMetadata, VERSION, written) == Kip848MemberMetadata(**SAID)


def test_assignment_metadata_has_the_bytes_of_a_flexible_message() -> None:
    one, two = (
        (Kip848TopicPartitions(topic="a", partitions=(1,)),),
        (Kip848TopicPartitions(topic="b", partitions=(2, 3)),),
    )
    given = Kip848AssignmentMetadata(
        active_tasks=(Kip848ActiveTask(subtopology=0, partition=1),),
        standby_tasks=(Kip848Replica(subtopology=0, partition=2, sources=one),),
        warmup_tasks=(Kip848Replica(subtopology=1, partition=3, sources=two),),
        partitions_by_host=(Kip848HostPartitions(host="h", port=80, partitions=one),),
        topology_hash=b"t" * 16,
    )
    a, b = b"\2\2a\2\0\0\0\1\0", b"\2\2b\3\0\0\0\2\0\0\0\3\0"
    written = write(given, VERSION)
    assert written == (
        b"\2\0\0\0\0\0\0\0\1\0"
        + (b"\2\0\0\0\0\0\0\0\2" + a + b"\0")
        + (b"\2\0\0\0\1\0\0\0\3" + b + b"\0")
        + (b"\2\2h\0\0\0\x50" + a + b"\0")
        + (b"\1\xd0\6\x10" + b"t" * 16)
    )
    assert read_whole(Kip848AssignmentMetadata, VERSION, written) == given


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("reason", Reason)
def test_topology_and_lags_change_with_a_reason_and_the_rest_never(
    changed: str, reason: Reason
) -> None:
    before, now = (
        Kip848MemberMetadata(**SAID),
        Kip848MemberMetadata(**SAID | {changed: CHANGES[changed]}),
    )
    assert is_allowed_update(before, now, reason) == (
        changed in ("topology_hash", "task_lags") and reason != Reason.NONE
    )


@pytest.mark.parametrize("reason", Reason)
def test_a_member_may_always_say_the_same_again(reason: Reason) -> None:
    assert is_allowed_update(Kip848MemberMetadata(**SAID), Kip848MemberMetadata(**SAID), reason)


PARTS = st.recursive(
    st.none() | st.integers() | st.text() | st.binary(),
    lambda parts: st.lists(parts, max_size=4).map(tuple),
    max_leaves=12,
)


@given(PARTS, PARTS)
def test_only_equal_topologies_have_the_same_hash(
    one: bytes | tuple[Any, ...] | None, other: Any
) -> None:
    assert len(topology_hash(one)) == 16
    assert (topology_hash(one) == topology_hash(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("a", ("b",)), (("a",), "b")),
        (("a", ()), (("a",),)),
        ((1, 2), (12,)),
        (("1",), (1,)),
        (("a",), (b"a",)),
        (("n",), (None,)),
    ],
)
def test_topologies_that_look_alike_have_other_hashes(
    one: tuple[int | str | tuple[str, ...], ...], other: tuple[Any, ...]
) -> None:
    assert topology_hash(one) != topology_hash(other)


def test_a_topology_of_named_parts_has_the_hash_of_its_parts_in_every_process() -> None:
    class Subtopology(NamedTuple):
        sources: tuple[str, ...]
        changelogs: tuple[str, ...]

    assert topology_hash((Subtopology(("words",), ()),)) == topology_hash(((("words",), ()),))
    assert topology_hash(((("words",), ()),)).hex() == "c2fc33d790e745bf76a07f19ce9b2d71"
