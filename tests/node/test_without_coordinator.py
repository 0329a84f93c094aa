"""Groups before anybody has looked for their coordinator: FindCoordinator alone creates
`__consumer_offsets`.
"""

from typing import Any

import pytest

from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.coord.shard import HANDLERS, HANDLERS_BY_GROUP
from apportion.errors import Code
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from apportion.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from apportion.wire.messages.describe_groups import (
    DescribedGroup as DescribedClassicGroup,
)
from apportion.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from apportion.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.node.kit import NodeDriver

NO = Code.NOT_COORDINATOR
TOLD: dict[str, Any] = {"error_code": NO, "error_message": "FindCoordinator has to come first."}
FIND = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    member_id="me",
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
)
BEAT = ConsumerGroupHeartbeatRequest(
    group_id="h",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=10_000,
    subscribed_topic_names=("t",),
    topic_partitions=(),
)
COMMIT = OffsetCommitRequest(
    group_id="g",
    topics=(
        OffsetCommitRequestTopic(
            name="t",
            partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=5),),
        ),
    ),
)
FETCH_TOPIC = OffsetFetchRequestTopic(name="t", partition_indexes=(0,))
FETCH_GROUPS = OffsetFetchRequest(
    groups=(
        OffsetFetchRequestGroup(group_id="g", topics=(FETCH_TOPIC,)),
        OffsetFetchRequestGroup(group_id="h", topics=None),
    )
)
FETCH = OffsetFetchRequest(group_id="g", topics=(FETCH_TOPIC,))
SYNC = SyncGroupRequest(
    group_id="g", generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"
)
DELETE_OFFSETS = OffsetDeleteRequest(
    group_id="g",
    topics=(
        OffsetDeleteRequestTopic(
            name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),)
        ),
    ),
)
NAMES = ("g", "h")
REFUSED: list[tuple[Any, int, Any]] = [
    (JOIN, 6, JoinGroupResponse(error_code=NO, protocol_name="", member_id="")),
    (JOIN, 9, JoinGroupResponse(error_code=NO, protocol_name=None, member_id="")),
    (SYNC, 5, SyncGroupResponse(error_code=NO)),
    (
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        4,
        HeartbeatResponse(error_code=NO),
    ),
    (LeaveGroupRequest(group_id="g", member_id="m"), 2, LeaveGroupResponse(error_code=NO)),
    (
        LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),)),
        5,
        LeaveGroupResponse(error_code=NO),
    ),
    (BEAT, 1, ConsumerGroupHeartbeatResponse(**TOLD)),
    (
        ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=1),
        0,
        ConsumerGroupPrepareAssignmentResponse(**TOLD),
    ),
    (
        ConsumerGroupInstallAssignmentRequest(group_id="g", member_id="m", member_epoch=1),
        0,
        ConsumerGroupInstallAssignmentResponse(**TOLD),
    ),
    (
        COMMIT,
        9,
        OffsetCommitResponse(
            topics=(
                OffsetCommitResponseTopic(
                    name="t",
                    partitions=(OffsetCommitResponsePartition(partition_index=0, error_code=NO),),
                ),
            )
        ),
    ),
    (
        FETCH,
        1,
        OffsetFetchResponse(
            topics=(
                OffsetFetchResponseTopic(
                    name="t",
                    partitions=(
                        OffsetFetchResponsePartition(
                            partition_index=0, committed_offset=-1, metadata="", error_code=NO
                        ),
                    ),
                ),
            )
        ),
    ),
    (FETCH, 7, OffsetFetchResponse(error_code=NO)),
    (
        FETCH_GROUPS,
        9,
        OffsetFetchResponse(
            groups=tuple(
                OffsetFetchResponseGroup(group_id=group_id, error_code=NO) for group_id in NAMES
            )
        ),
    ),
    (DELETE_OFFSETS, 0, OffsetDeleteResponse(error_code=NO)),
    (
        DescribeGroupsRequest(groups=NAMES),
        6,
        DescribeGroupsResponse(
            groups=tuple(DescribedClassicGroup(group_id=group_id, **TOLD) for group_id in NAMES)
        ),
    ),
    (
        ConsumerGroupDescribeRequest(group_ids=NAMES),
        1,
        ConsumerGroupDescribeResponse(
            groups=tuple(DescribedGroup(group_id=group_id, **TOLD) for group_id in NAMES)
        ),
    ),
    (
        DeleteGroupsRequest(groups_names=NAMES),
        2,
        DeleteGroupsResponse(
            results=tuple(
                DeletableGroupResult(group_id=group_id, error_code=NO) for group_id in NAMES
            )
        ),
    ),
]
"""A request of each API that names a group, its version, and its answer while no client has looked
for a coordinator.
"""


def answer(driver: NodeDriver, request: Any, version: int) -> Any:
    """The answer to a request of a client that has not looked for the coordinator."""
    ticket = driver.send(request, version)
    driver.flush()
    return driver.answers[ticket]


def test_the_cases_are_about_every_api_that_names_a_group() -> None:
    named = {type(request) for request, _, _ in REFUSED}
    assert named | {ListGroupsRequest} == GROUP_ERROR_RESPONSES.keys()
    assert HANDLERS.keys() | HANDLERS_BY_GROUP.keys() == GROUP_ERROR_RESPONSES.keys()


@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        pytest.param(*case, id=f"{type(case[0]).__name__.removesuffix('Request')} {case[1]}")
        for case in REFUSED
    ],
)
def test_only_find_coordinator_creates_the_topic_of_groups(
    driver: NodeDriver, request_: Any, version: int, expected: Any
) -> None:
    """As a fresh Apache Kafka 4.3.1 answers (tests/kafka/test_without_coordinator.py).

    It was NOT_COORDINATOR (16) for each of these, never COORDINATOR_NOT_AVAILABLE (15) or
    COORDINATOR_LOAD_IN_PROGRESS (14): no coordinator is loading. OffsetCommit has it for each
    partition, OffsetFetch too up to version 1, and for each group from version 8 on; the three
    APIs that describe and delete groups have it for each group.
    """
    driver.create("t")
    assert answer(driver, request_, version) == expected
    assert [topic.name for topic in driver.node.topics] == ["t"]
    assert list(driver.node.shards()) == []


def test_a_request_about_all_groups_needs_no_coordinator(driver: NodeDriver) -> None:
    assert answer(driver, ListGroupsRequest(), 5) == ListGroupsResponse()
    assert list(driver.node.topics) == []


def test_after_find_coordinator_groups_are_served(driver: NodeDriver) -> None:
    driver.create("t")
    assert answer(driver, COMMIT, 9).topics[0].partitions[0].error_code == NO
    assert answer(driver, FIND, 6).coordinators[0].error_code == Code.NONE
    assert [topic.name for topic in driver.node.topics] == ["__consumer_offsets", "t"]
    assert answer(driver, COMMIT, 9).topics[0].partitions[0].error_code == Code.NONE
    (fetched, other) = answer(driver, FETCH_GROUPS, 9).groups
    assert fetched.topics[0].partitions[0].committed_offset == 5
    assert (other.error_code, other.topics) == (Code.NONE, ())
    assert answer(driver, JOIN, 9).error_code == Code.UNKNOWN_MEMBER_ID
    assert answer(driver, BEAT, 1).error_code == Code.NONE
    described = answer(driver, DescribeGroupsRequest(groups=("g",)), 6).groups[0]
    assert (described.error_code, described.group_state) == (Code.NONE, "Empty")
    listed = answer(driver, ListGroupsRequest(), 5).groups
    assert [group.group_id for group in listed] == ["g", "h"]


def test_a_coordinator_that_was_not_created_after_all_serves_no_group(
    driver: NodeDriver,
) -> None:
    driver.create("t")
    found = driver.send(FIND, 6)
    driver.fail_flush()
    assert driver.answers[found].coordinators[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert answer(driver, BEAT, 1).error_code == NO
