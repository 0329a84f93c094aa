"""Responses about groups to callers who may know of a part of what they ask for."""

from typing import TYPE_CHECKING, Any

from apportion.security.acls import AclOperation
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
)
from apportion.wire.messages.describe_groups import NOT_ASKED, DescribeGroupsRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from apportion.wire.messages.sync_group import SyncGroupRequest
from tests.message_texts import request
from tests.node.guarded import (
    CLUSTER,
    GROUP,
    TOPIC,
    as_bob,
    guarded,
    let,
    may,
    may_not,
)
from tests.node.guarded_requests import joined

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver

OFFERING = request(
    "ConsumerGroupHeartbeat group_id=g member_id=m rebalance_timeout_ms=10000 topic_partitions=[] "
    "subscribed_topic_names=[t] client_assignors=[name=lag metadata=lags]"
)
PREPARE = request("ConsumerGroupPrepareAssignment group_id=g member_id=m member_epoch=1")

READ, DELETE, DESCRIBE = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
STRANGE = b"no topic at all!"


def test_a_commit_is_stored_for_the_topics_that_are_allowed(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(READ, GROUP, "g"), may(READ, TOPIC, "mine"))
    mine, other = driver.create("mine"), driver.create("other")
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = OffsetCommitRequest(
        group_id="g",
        topics=tuple(
            OffsetCommitRequestTopic(topic_id=each, partitions=(partition,))
            for each in (other, STRANGE, mine)
        ),
    )
    driver.call(OffsetFetchRequest(groups=()))  # so that the group has a coordinator

    def answered(topic_id: bytes, code: int) -> OffsetCommitResponseTopic:
        result = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponseTopic(topic_id=topic_id, partitions=(result,))

    assert as_bob(driver, request) == OffsetCommitResponse(
        topics=(answered(STRANGE, 100), answered(mine, 0), answered(other, 29))
    )
    assert committed(driver) == {"mine": 3}


def committed(driver: "NodeDriver") -> dict[str, int]:
    """All offsets of the group, as the super user sees them."""
    groups = (OffsetFetchRequestGroup(group_id="g", topics=None),)
    (group,) = driver.call(OffsetFetchRequest(groups=groups), 9).groups
    return {topic.name: topic.partitions[0].committed_offset for topic in group.topics}


def with_offsets(kit: "type[Kit]", *acls: Any) -> "NodeDriver":
    """A node with the topics mine and other, and an offset of each in the groups g and h."""
    driver = guarded(kit, *acls)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    for name in ("mine", "other"):
        driver.create(name)
    for group_id in ("g", "h"):
        topics = tuple(
            OffsetCommitRequestTopic(name=name, partitions=(partition,))
            for name in ("mine", "other")
        )
        driver.call(OffsetCommitRequest(group_id=group_id, topics=topics), 9)
    return driver


def test_of_all_offsets_those_of_hidden_topics_are_left_out(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(DESCRIBE, GROUP, "g"), may(DESCRIBE, TOPIC, "mine"))
    groups = tuple(OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("h", "g"))
    found = OffsetFetchResponsePartition(committed_offset=5, metadata="")
    mine = OffsetFetchResponseTopic(name="mine", partitions=(found,))
    assert as_bob(driver, OffsetFetchRequest(groups=groups), 9).groups == (
        OffsetFetchResponseGroup(group_id="g", topics=(mine,)),
        OffsetFetchResponseGroup(group_id="h", error_code=30),
    )
    assert as_bob(driver, OffsetFetchRequest(group_id="g", topics=None), 7).topics == (mine,)


def test_offsets_of_named_hidden_topics_are_refused(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(DESCRIBE, GROUP, "g"), may(DESCRIBE, TOPIC, "mine"))
    topics = tuple(
        OffsetFetchRequestTopic(name=name, partition_indexes=(0, 1)) for name in ("other", "mine")
    )
    absent = OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata="")
    found = OffsetFetchResponsePartition(committed_offset=5, metadata="")
    refused = [
        OffsetFetchResponsePartition(
            partition_index=index, committed_offset=-1, metadata="", error_code=29
        )
        for index in (0, 1)
    ]
    expected = (
        OffsetFetchResponseTopic(name="mine", partitions=(found, absent)),
        OffsetFetchResponseTopic(name="other", partitions=tuple(refused)),
    )
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    answer = as_bob(driver, OffsetFetchRequest(groups=(group,)), 9)
    assert answer.groups == (OffsetFetchResponseGroup(group_id="g", topics=expected),)
    alone = as_bob(driver, OffsetFetchRequest(group_id="g", topics=topics), 7)
    assert alone.topics == expected


def test_groups_are_listed_that_the_caller_may_describe(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(READ, GROUP, "g"))
    listed = [group.group_id for group in as_bob(driver, ListGroupsRequest()).groups]
    assert listed == ["g"]
    let(driver, may(DESCRIBE, CLUSTER), may_not(may(DESCRIBE, GROUP, "g")))
    listed = [group.group_id for group in as_bob(driver, ListGroupsRequest()).groups]
    assert sorted(listed) == ["g", "h"]


def test_described_groups_have_the_operations_that_the_caller_may_do(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(READ, GROUP, "g"), may(DELETE, GROUP, "g"))
    request = DescribeGroupsRequest(groups=("h", "g"), include_authorized_operations=True)
    described = as_bob(driver, request, 5).groups
    bits = (1 << READ) | (1 << DELETE) | (1 << DESCRIBE)
    assert [(g.group_id, g.error_code, g.authorized_operations) for g in described] == [
        ("g", 0, bits),
        ("h", 30, NOT_ASKED),
    ]


def test_a_group_is_not_described_if_a_hidden_topic_is_assigned_in_it(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(DESCRIBE, GROUP, "g"))
    driver.create("t")
    driver.call(joined())
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    assert as_bob(driver, request).groups == (
        DescribedGroup(
            group_id="g",
            error_code=29,
            error_message=(
                "In this group a topic is assigned that you have no permission to DESCRIBE."
            ),
        ),
    )
    let(driver, may(DESCRIBE, GROUP, "g"), may(DESCRIBE, TOPIC, "t"))
    assert as_bob(driver, request).groups == driver.call(request).groups


def test_a_member_assigns_no_topics_that_it_may_not_know_of(kit: "type[Kit]") -> None:
    enough = (may(READ, GROUP, "g"), may(DESCRIBE, TOPIC, "t"))
    driver = guarded(kit, *enough)
    driver.create("t")
    driver.call(OffsetFetchRequest(groups=()))  # so that the group has a coordinator
    assert as_bob(driver, OFFERING).should_compute_assignment
    let(driver, may(READ, GROUP, "g"))
    assert as_bob(driver, PREPARE) == ConsumerGroupPrepareAssignmentResponse(
        error_code=29,
        error_message="The group subscribes to a topic that you have no permission to DESCRIBE.",
    )
    let(driver, *enough)
    driver.sleep(1_000)  # a member is not told twice within a second
    assert [topic.topic_name for topic in as_bob(driver, PREPARE).topics] == ["t"]


def test_a_sync_without_a_protocol_is_refused_before_anybody_asks_who_it_is(
    kit: "type[Kit]",
) -> None:
    driver = guarded(kit)
    driver.call(ListGroupsRequest())
    driver.ask(OffsetFetchRequest(groups=()))
    assert as_bob(driver, SyncGroupRequest(group_id="g"), 5).error_code == 23
    assert as_bob(driver, SyncGroupRequest(group_id="g"), 4).error_code == 30
