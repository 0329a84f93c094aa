"""Client-side assignors: a member computes the target, and the coordinator checks and saves it."""

from typing import Any

from apportion.errors import Code
from apportion.wire.messages.consumer_group_prepare_assignment import (
    AssignableMember,
    AssignablePartition,
    AssignableTopic,
    AssignorMetadata,
    ConsumerGroupPrepareAssignmentResponse,
    TargetPartitions,
)
from tests.coord.client_side import install, installed, join, offer, prepare, with_one
from tests.coord.shard_driver import ShardDriver, topic_id, topics
from tests.coord.toy_assignor import FOO, assigned


def test_the_first_member_computes_and_gets_its_target_with_the_next_heartbeat() -> None:
    driver = ShardDriver()
    joined = join(driver, "a")
    assert (joined.error_code, joined.member_epoch, assigned(joined)) == (0, 1, {})
    assert joined.should_compute_assignment
    assert prepare(driver, "a", 1).error_code == 0
    assert install(driver, "a", (1, 2), {"a": {"foo": [2, 0]}}).error_code == 0
    answer = driver.beat("a", 1)
    assert (answer.member_epoch, assigned(answer)) == (2, {FOO: (0, 2)})
    assert not answer.should_compute_assignment


def test_the_chosen_member_is_told_the_group_as_it_is() -> None:
    driver = with_one(ShardDriver(known=topics(bar=2, foo=3)))
    joined = join(
        driver,
        "b",
        offer(reason=3, version=0, metadata=b"lags"),
        topics=("bar", "foo", "missing"),
        rack_id="r1",
        instance_id="i",
    )
    assert joined.should_compute_assignment
    assert prepare(driver, "b", 2) == ConsumerGroupPrepareAssignmentResponse(
        group_epoch=3,
        assignor_name="lag",
        assignor_version=0,
        members=(
            # Static members first, as the broker's assignors have them.
            AssignableMember(
                member_id="b",
                member_epoch=2,
                instance_id="i",
                rack_id="r1",
                subscribed_topic_ids=(topic_id("bar"), FOO),
                assignor=AssignorMetadata(reason=3, metadata=b"lags"),
            ),
            AssignableMember(
                member_id="a",
                member_epoch=2,
                subscribed_topic_ids=(FOO,),
                topic_partitions=(TargetPartitions(topic_id=FOO, partitions=(0, 1, 2)),),
            ),
        ),
        topics=(
            AssignableTopic(
                topic_id=topic_id("bar"),
                topic_name="bar",
                partitions=(AssignablePartition(), AssignablePartition(partition=1)),
            ),
            AssignableTopic(
                topic_id=FOO,
                topic_name="foo",
                partitions=tuple(AssignablePartition(partition=number) for number in range(3)),
            ),
        ),
    )


def test_errors_and_metadata_of_an_assignment_reach_each_member_with_its_new_epoch() -> None:
    driver = with_one(ShardDriver())
    join(driver, "b")
    prepare(driver, "b", 2)
    targets = [installed("a", {"foo": [0, 1, 2]}, b"for a", version=1), installed("b", {})]
    assert install(driver, "b", (2, 3), targets, error=-7).error_code == 0
    told: Any = {}
    for member_id in ("a", "b"):
        answer = driver.beat(member_id, 2)
        given: Any = answer.assignment
        told[member_id] = (
            answer.member_epoch,
            assigned(answer),
            (given.error, given.metadata_version, given.metadata),
        )
    assert told == {
        "a": (3, {FOO: (0, 1, 2)}, (-7, 1, b"for a")),
        "b": (3, {}, (-7, 0, b"")),
    }
    assert driver.beat("a", 3).assignment is None


def test_members_that_send_no_client_assignors_are_assigned_by_the_broker() -> None:
    driver = with_one(ShardDriver())
    joined = driver.join("java")
    assert (joined.error_code, joined.should_compute_assignment) == (0, False)
    group: Any = driver.shard.ledger.groups["g"]
    assert (group.saved.assignment_epoch, group.saved.client_assignor) == (3, None)
    assert prepare(driver, "a", 2).error_code == Code.UNKNOWN_MEMBER_ID
