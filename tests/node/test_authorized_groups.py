"""Responses about groups to callers who may know of a part of what they ask for."""

from typing import TYPE_CHECKING, Any

from apportion.security.acls import AclOperation
from apportion.wire.messages.describe_groups import NOT_ASKED
from tests.messages import request, response
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
from tests.node.guarded_requests import committed, joined

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver

READ, DELETE, DESCRIBE = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
STRANGE = b"no topic at all!"
OFFERING = joined(client_assignors=[{"name": "lag", "metadata": b"lags"}])
PREPARE = request("ConsumerGroupPrepareAssignment", group_id="g", member_id="m", member_epoch=1)


def test_a_commit_is_stored_for_the_topics_that_are_allowed(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(READ, GROUP, "g"), may(READ, TOPIC, "mine"))
    mine, other = driver.create("mine"), driver.create("other")
    driver.call(request("OffsetFetch", groups=()))  # so that the group has a coordinator
    partitions = [{"partition_index": 0, "committed_offset": 3}]
    topics = [{"topic_id": each, "partitions": partitions} for each in (other, STRANGE, mine)]
    assert as_bob(driver, request("OffsetCommit", group_id="g", topics=topics)) == response(
        "OffsetCommit",
        topics=[
            {"topic_id": each, "partitions": [{"partition_index": 0, "error_code": code}]}
            for each, code in ((STRANGE, 100), (mine, 0), (other, 29))
        ],
    )
    # All offsets of the group, as the super user sees them.
    everything = request("OffsetFetch", groups=[{"group_id": "g", "topics": None}])
    (group,) = driver.call(everything, 9).groups
    assert [(each.name, each.partitions[0].committed_offset) for each in group.topics] == [
        ("mine", 3)
    ]


def with_offsets(kit: "type[Kit]", *acls: Any) -> "NodeDriver":
    """A node with the topics mine and other, and an offset of each in the groups g and h."""
    driver = guarded(kit, *acls)
    for name in ("mine", "other"):
        driver.create(name)
    for group in ("g", "h"):
        driver.call(committed("mine", "other", group=group, offset=5), 9)
    return driver


def test_of_all_offsets_those_of_hidden_topics_are_left_out(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(DESCRIBE, GROUP, "g"), may(DESCRIBE, TOPIC, "mine"))
    groups = [{"group_id": each, "topics": None} for each in ("h", "g")]
    mine = {"name": "mine", "partitions": [{"committed_offset": 5, "metadata": ""}]}
    expected = response(
        "OffsetFetch",
        groups=[{"group_id": "g", "topics": [mine]}, {"group_id": "h", "error_code": 30}],
    )
    assert as_bob(driver, request("OffsetFetch", groups=groups), 9) == expected
    alone = as_bob(driver, request("OffsetFetch", group_id="g", topics=None), 7)
    assert alone.topics == expected.groups[0].topics


def test_offsets_of_named_hidden_topics_are_refused(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(DESCRIBE, GROUP, "g"), may(DESCRIBE, TOPIC, "mine"))
    topics = [{"name": name, "partition_indexes": (0, 1)} for name in ("other", "mine")]
    absent = {"committed_offset": -1, "metadata": ""}
    mine = [{"committed_offset": 5, "metadata": ""}, absent | {"partition_index": 1}]
    other = [absent | {"partition_index": index, "error_code": 29} for index in (0, 1)]
    shown = [{"name": "mine", "partitions": mine}, {"name": "other", "partitions": other}]
    expected = response("OffsetFetch", groups=[{"group_id": "g", "topics": shown}])
    group = {"group_id": "g", "topics": topics}
    assert as_bob(driver, request("OffsetFetch", groups=[group]), 9) == expected
    alone = as_bob(driver, request("OffsetFetch", **group), 7)
    assert alone.topics == expected.groups[0].topics


def test_groups_are_listed_that_the_caller_may_describe(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(READ, GROUP, "g"))
    listed = [group.group_id for group in as_bob(driver, request("ListGroups")).groups]
    assert listed == ["g"]
    let(driver, may(DESCRIBE, CLUSTER), may_not(may(DESCRIBE, GROUP, "g")))
    listed = [group.group_id for group in as_bob(driver, request("ListGroups")).groups]
    assert sorted(listed) == ["g", "h"]


def test_described_groups_have_the_operations_that_the_caller_may_do(kit: "type[Kit]") -> None:
    driver = with_offsets(kit, may(READ, GROUP, "g"), may(DELETE, GROUP, "g"))
    asked = request("DescribeGroups", groups=("h", "g"), include_authorized_operations=True)
    bits = (1 << READ) | (1 << DELETE) | (1 << DESCRIBE)
    described = as_bob(driver, asked, 5).groups
    assert [(g.group_id, g.error_code, g.authorized_operations) for g in described] == [
        ("g", 0, bits),
        ("h", 30, NOT_ASKED),
    ]


def test_a_group_is_not_described_if_a_hidden_topic_is_assigned_in_it(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(DESCRIBE, GROUP, "g"))
    driver.create("t")
    driver.call(joined())
    asked = request("ConsumerGroupDescribe", group_ids=("g",))
    assert as_bob(driver, asked) == response(
        "ConsumerGroupDescribe",
        groups=[
            {
                "group_id": "g",
                "error_code": 29,
                "error_message": "In this group a topic is assigned that you have no permission "
                "to DESCRIBE.",
            }
        ],
    )
    let(driver, may(DESCRIBE, GROUP, "g"), may(DESCRIBE, TOPIC, "t"))
    assert as_bob(driver, asked).groups == driver.call(asked).groups


def test_a_member_assigns_no_topics_that_it_may_not_know_of(kit: "type[Kit]") -> None:
    enough = (may(READ, GROUP, "g"), may(DESCRIBE, TOPIC, "t"))
    driver = guarded(kit, *enough)
    driver.create("t")
    driver.call(request("OffsetFetch", groups=()))  # so that the group has a coordinator
    assert as_bob(driver, OFFERING).should_compute_assignment
    let(driver, may(READ, GROUP, "g"))
    assert as_bob(driver, PREPARE) == response(
        "ConsumerGroupPrepareAssignment",
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
    driver.call(request("ListGroups"))
    driver.ask(request("OffsetFetch", groups=()))
    assert as_bob(driver, request("SyncGroup", group_id="g"), 5).error_code == 23
    assert as_bob(driver, request("SyncGroup", group_id="g"), 4).error_code == 30
