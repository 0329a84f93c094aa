from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.streams.describe.group import (
    DescribedProcess,
    GroupDescription,
    StandbyKind,
    describe_group,
    describe_without_metadata,
)
from apportion.streams.metadata.codec import encode_assignment, encode_subscription
from apportion.streams.metadata.model import (
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.streams.metadata.probing import MetadataVersions
from apportion.topics import TopicPartition
from apportion.wire.messages.describe_groups import DescribedGroupMember
from apportion.wire.records import consumer_protocol
from apportion.wire.records.consumer_serde import encode
from tests.streams.metadata import assignments, subscriptions

ONE, TWO = bytes(15) + b"\1", bytes(15) + b"\2"
PROBING_MS = 1_800_000_000_000


def subscription_bytes(used: int = 11, supported: int = 11, **more: Any) -> bytes:
    """What a member sends when it joins."""
    info = SubscriptionInfo(used, supported if used > 2 else -1, **more)
    return encode(
        consumer_protocol.ConsumerProtocolSubscription(
            topics=("t",), user_data=encode_subscription(info)
        )
    )


def assignment_bytes(partitions: Sequence[int] = (), used: int = 11, **more: Any) -> bytes:
    """What a member is sent, with these partitions of topic t."""
    gives = (
        consumer_protocol.ConsumerProtocolTopicPartition(topic="t", partitions=tuple(partitions)),
    )
    info = AssignmentInfo(used, used if used > 2 else -1, **more)
    return encode(
        consumer_protocol.ConsumerProtocolAssignment(
            assigned_partitions=gives, user_data=encode_assignment(info)
        )
    )


def shown(
    name: str, subscription: bytes, assignment: bytes, instance_id: str | None = None
) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=f"{name}-id",
        client_id=name,
        client_host=f"/{name}.host",
        group_instance_id=instance_id,
        member_metadata=subscription,
        member_assignment=assignment,
    )


def t(*partitions: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", each) for each in partitions)


def tasks(*numbers: tuple[int, int]) -> tuple[TaskId, ...]:
    return tuple(TaskId(*each) for each in numbers)


def copies(*numbers: tuple[int, int]) -> dict[TaskId, tuple[TopicPartition, ...]]:
    return {task: t(task.partition) for task in tasks(*numbers)}


def test_consumers_of_a_process_are_shown_as_one() -> None:
    sums = {TaskId(0, 0): 7, TaskId(0, 1): RUNNING, TaskId(0, 2): OFFSET_UNKNOWN}
    more = {TaskId(0, 0): 9, TaskId(0, 1): 5, TaskId(0, 2): OFFSET_UNKNOWN}
    same: dict[str, Any] = {"process_id": ONE, "endpoint": "here:1", "tags": {"zone": "a"}}
    members = (
        shown(
            "b",
            subscription_bytes(offset_sums=more, **same),
            assignment_bytes((2, 0), active=tasks((0, 0), (0, 2))),
        ),
        shown(
            "a",
            subscription_bytes(offset_sums=sums, **same),
            assignment_bytes((1,), active=tasks((0, 1)), standby=copies((1, 4))),
        ),
    )
    description = describe_group(members)
    (process,) = description.processes
    assert [each.description.client_id for each in process.consumers] == ["a", "b"]
    assert process == DescribedProcess(
        ONE,
        process.consumers,
        {TaskId(0, 0): t(0), TaskId(0, 1): t(1), TaskId(0, 2): t(2)},
        {TaskId(1, 4): t(4)},
        {TaskId(0, 0): 9, TaskId(0, 1): RUNNING, TaskId(0, 2): OFFSET_UNKNOWN},
        "here:1",
        {"zone": "a"},
    )
    assert (process.name, process.versions) == (
        "00000000-0000-0000-0000-000000000001",
        MetadataVersions(11, 11),
    )
    assert process.label == "00000000-0000-0000-0000-000000000001 (here:1)"
    assert description == GroupDescription((process,), StandbyKind.STANDBY)
    assert description.partitions == t(0, 1, 2)


@pytest.mark.parametrize(
    ("endpoints", "places"),
    [
        (("here:1", "there:1"), ("here:1", "there:1")),
        (("here:1", "here:1"), ("here:1",)),
        (("", ""), ("a.host", "b.host")),
        (("", "b.host:1"), ("a.host", "b.host:1")),
    ],
)
def test_a_process_id_that_was_copied_with_its_state_is_at_several_places(
    endpoints: tuple[str, str], places: tuple[str, ...]
) -> None:
    members = [
        shown(name, subscription_bytes(process_id=ONE, endpoint=endpoint), assignment_bytes())
        for name, endpoint in zip("ba", reversed(endpoints), strict=True)
    ]
    (process,) = describe_group(members).processes
    assert process.places == places


def test_a_task_with_two_source_partitions_is_one_task() -> None:
    blob = encode(
        consumer_protocol.ConsumerProtocolAssignment(
            assigned_partitions=(
                consumer_protocol.ConsumerProtocolTopicPartition(topic="u", partitions=(0,)),
                consumer_protocol.ConsumerProtocolTopicPartition(topic="t", partitions=(0,)),
            ),
            user_data=encode_assignment(AssignmentInfo(11, 11, active=tasks((0, 0), (0, 0)))),
        )
    )
    (process,) = describe_group([shown("a", subscription_bytes(), blob)]).processes
    assert process.active == {TaskId(0, 0): (TopicPartition("t", 0), TopicPartition("u", 0))}


def test_of_versions_1_and_2_nothing_supported_is_known() -> None:
    description = describe_group(
        [
            shown("a", subscription_bytes(1), assignment_bytes((0,), 1, active=tasks((0, 0)))),
            shown("b", subscription_bytes(2, process_id=ONE), assignment_bytes((), 2)),
        ]
    )
    assert [process.versions for process in description.processes] == [
        MetadataVersions(1),
        MetadataVersions(2),
    ]
    assert description.standby_kind is StandbyKind.EITHER


def test_the_consumer_that_understands_least_speaks_for_its_process() -> None:
    members = [
        shown("a", subscription_bytes(8, 11), assignment_bytes()),
        shown("b", subscription_bytes(8, 8), assignment_bytes()),
    ]
    assert [process.versions for process in describe_group(members).processes] == [
        MetadataVersions(8, 8)
    ]


def test_of_a_member_from_the_future_the_versions_are_read() -> None:
    description = describe_group(
        [
            shown(
                "a", subscription_bytes(12, 13), assignment_bytes((0,), 12, active=tasks((0, 0)))
            ),
            shown("b", subscription_bytes(process_id=ONE), assignment_bytes()),
        ]
    )
    known, future = description.processes
    assert (known.process_id, future.process_id, future.name, future.label) == (
        ONE,
        None,
        "a-id",
        "a-id (a.host)",
    )
    assert (future.versions, future.active, future.consumers[0].decode_errors) == (
        MetadataVersions(12, 13),
        {},
        (),
    )
    assert description.standby_kind is StandbyKind.EITHER


@pytest.mark.parametrize(
    ("subscription", "assignment", "unread"),
    [
        (
            b"",
            assignment_bytes(),
            (
                "its subscription cannot be read: ConsumerProtocolSubscription: 0 bytes "
                "have no version",
            ),
        ),
        (subscription_bytes()[:-1], b"\0", None),
        (
            subscription_bytes(),
            assignment_bytes((0, 1), active=tasks((0, 0))),
            ("its assignment names the tasks of 1 partitions and gives 2",),
        ),
    ],
)
def test_an_unreadable_member_is_named_and_the_others_are_shown(
    subscription: bytes, assignment: bytes, unread: tuple[str, ...] | None
) -> None:
    broken = shown("a", subscription, assignment)
    whole = shown(
        "b", subscription_bytes(process_id=TWO), assignment_bytes((3,), active=tasks((0, 3)))
    )
    description = describe_group([broken, whole])
    consumers = {each.description.client_id: each for each in description.consumers}
    assert consumers["b"].active == {TaskId(0, 3): t(3)}
    assert (
        (len(consumers["a"].decode_errors) == 2)
        if unread is None
        else consumers["a"].decode_errors == unread
    )


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_bytes_break_a_description(subscription: bytes, assignment: bytes) -> None:
    (process,) = describe_group([shown("a", subscription, assignment)]).processes
    assert [each.description.client_id for each in process.consumers] == ["a"]


@given(
    st.integers(1, 11).flatmap(
        lambda version: st.tuples(subscriptions(version), assignments(version))
    )
)
def test_every_encodable_member_is_described(pair: tuple[SubscriptionInfo, AssignmentInfo]) -> None:
    subscription, assignment = pair
    encoded = encode(
        consumer_protocol.ConsumerProtocolSubscription(user_data=encode_subscription(subscription))
    )
    encoded_assignment = encode(
        consumer_protocol.ConsumerProtocolAssignment(user_data=encode_assignment(assignment))
    )
    (process,) = describe_group([shown("a", encoded, encoded_assignment)]).processes
    assert process.versions is not None
    assert (process.process_id, process.versions.used) == (
        subscription.process_id,
        subscription.used,
    )
    assert dict(process.standby) == dict(assignment.standby)
    assert list(process.active) == sorted(
        dict.fromkeys(assignment.active), key=lambda task: (task.topology or "", *task[:2])
    )


def pair(
    next_ms: int | None,
    one: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    two: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    tags: dict[str, str] | None = None,
    used: int = 11,
) -> StandbyKind:
    """Two processes with active tasks and copies: what their copies are."""
    ids = {ONE: one, TWO: two}
    blobs = []
    for process_id, (active, standby) in ids.items():
        given = {
            "active": tasks(*active),
            "standby": copies(*standby),
            "next_rebalance_ms": next_ms,
        }
        blobs.append(
            (
                subscription_bytes(used, process_id=process_id, tags=tags or {}),
                assignment_bytes([each[1] for each in active], used, **given),
            )
        )
    return describe_group(
        [shown(f"m{number}", *each) for number, each in enumerate(blobs)]
    ).standby_kind


WITH_A_BARE_TASK: tuple[
    tuple[list[tuple[int, int]], list[Any]], tuple[list[tuple[int, int]], list[tuple[int, int]]]
] = (([(1, 0), (1, 1)], []), ([(1, 2)], [(1, 0)]))
WITH_A_COPY_OF_EACH = (([(1, 0)], [(1, 1)]), ([(1, 1)], [(1, 0)]))


@pytest.mark.parametrize(
    ("next_ms", "processes", "more", "kind"),
    [
        (None, WITH_A_BARE_TASK, {}, StandbyKind.STANDBY),
        (None, WITH_A_BARE_TASK, {"used": 6}, StandbyKind.EITHER),
        (PROBING_MS, WITH_A_BARE_TASK, {}, StandbyKind.WARMUP),
        (PROBING_MS, WITH_A_BARE_TASK, {"used": 7}, StandbyKind.WARMUP),
        (PROBING_MS, WITH_A_BARE_TASK, {"tags": {"zone": "a"}}, StandbyKind.EITHER),
        (0, WITH_A_BARE_TASK, {}, StandbyKind.EITHER),
        (PROBING_MS, WITH_A_COPY_OF_EACH, {}, StandbyKind.EITHER),
        (PROBING_MS, (([(0, 0)], []), ([(1, 0)], [])), {}, StandbyKind.EITHER),
    ],
)
def test_copies_are_named_where_it_is_certain_what_they_are(
    next_ms: int | None,
    processes: tuple[
        tuple[list[tuple[int, int]], list[tuple[int, int]]],
        tuple[list[tuple[int, int]], list[tuple[int, int]]],
    ],
    more: dict[str, Any],
    kind: StandbyKind,
) -> None:
    assert pair(next_ms, *processes, **more) is kind


def test_the_earliest_next_rebalance_counts() -> None:
    members = [
        shown(str(at), subscription_bytes(), assignment_bytes(next_rebalance_ms=at))
        for at in (None, PROBING_MS, 9)
    ]
    assert describe_group(members).next_rebalance_ms == 9


def test_tasks_that_lost_their_owner_are_reported_if_every_member_is_readable() -> None:
    ran = subscription_bytes(
        offset_sums={TaskId(0, 1): RUNNING, TaskId(0, 0): RUNNING, TaskId(0, 2): 4}
    )
    member = shown("a", ran, assignment_bytes((0,), active=tasks((0, 0))))
    assert describe_group([member]).unowned == (TaskId(0, 1),)
    assert describe_group([member, shown("b", subscription_bytes(), b"")]).unowned == ()


def test_while_the_broker_tells_nothing_members_are_there_by_name() -> None:
    description = describe_without_metadata(
        [shown("b", b"", assignment_bytes()), shown("a", b"", b"", "seat")]
    )
    assert [
        (each.process_id, each.name, each.versions, each.active) for each in description.processes
    ] == [
        (None, "a-id", None, {}),
        (None, "b-id", None, {}),
    ]
    assert [each.decode_errors for each in description.consumers] == [(), ()]
    assert description.consumers[0].description.group_instance_id == "seat"
