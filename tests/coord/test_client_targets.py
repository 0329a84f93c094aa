"""Targets by client-side assignors: which member computes, and what it is told."""

from itertools import pairwise

import pytest

from apportion.coord.consumer.target_results import LONGEST_PAUSE_MS
from apportion.errors import Code
from apportion.wire.messages.consumer_group_prepare_assignment import (
    AssignableMember,
    AssignablePartition,
    AssignableTopic,
    AssignorMetadata,
    ConsumerGroupPrepareAssignmentResponse,
    TargetPartitions,
)
from tests.coord.client_side import (
    EVERYTHING,
    computes,
    group_of,
    install,
    join,
    offer,
    prepare,
    with_one,
    with_two,
)
from tests.coord.shard_driver import ShardDriver, settings_with, state_of, topic_id, topics
from tests.coord.toy_assignor import FOO, assigned

# who computes


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
    assert group_of(driver).state == "Stable"


def test_one_member_computes_at_a_time() -> None:
    driver = with_two(ShardDriver())
    assert not computes(driver, "a", 2)
    assert not join(driver, "c").should_compute_assignment
    assert prepare(driver, "a", 2).error_code == Code.UNKNOWN_MEMBER_ID


def test_the_chosen_member_is_told_so_until_it_has_prepared() -> None:
    driver = with_two(ShardDriver())
    assert computes(driver, "b", 2)
    assert computes(driver, "b", 2)
    prepare(driver, "b", 2)
    assert not computes(driver, "b", 2)


def test_a_target_is_computed_once_in_an_assignment_interval() -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=5_000)))
    assert not join(driver, "b").should_compute_assignment
    driver.advance(4_999)
    assert not computes(driver, "a", 2)
    driver.advance(1)
    assert computes(driver, "b", 2)


def test_a_chosen_member_that_leaves_is_replaced_by_the_next_that_sends() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    driver.beat("b", -1)
    assert computes(driver, "a", 2)
    assert driver.notes == []


def test_a_chosen_member_whose_session_ends_is_replaced() -> None:
    driver = with_two(
        ShardDriver(settings_with(apportion_assignor_timeout_ms=60_000_000, **SHORT_SESSION))
    )
    driver.advance(2_000)
    driver.beat("a", 2)
    driver.advance(1_000)
    assert list(group_of(driver).saved.members) == ["a"]
    assert computes(driver, "a", 2)


SHORT_SESSION = {"group_consumer_session_timeout_ms": 3_000}


def test_a_chosen_static_member_that_is_replaced_computes_no_more() -> None:
    driver = with_one(ShardDriver())
    assert join(driver, "b", instance_id="i").should_compute_assignment
    prepare(driver, "b", 2)
    driver.beat("b", -2, instance_id="i")
    successor = join(driver, "c", instance_id="i")
    assert successor.should_compute_assignment
    assert install(driver, "c", (successor.member_epoch, 3), {}).error_code == (
        Code.STALE_MEMBER_EPOCH
    )


def test_a_chosen_member_that_joins_again_is_told_again() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    assert join(driver, "b").should_compute_assignment
    assert prepare(driver, "b", 2).error_code == 0


@pytest.mark.parametrize("installs", [True, False])
def test_a_chosen_member_that_has_missed_an_epoch_is_told_again(installs: bool) -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    refused = install(driver, "b", (1, 3), {}) if installs else prepare(driver, "b", 1)
    assert refused.error_code == Code.STALE_MEMBER_EPOCH
    driver.advance(1_000)
    assert computes(driver, "b", 2)
    assert prepare(driver, "b", 2).error_code == 0
    assert install(driver, "b", (2, 3), {"a": EVERYTHING}).error_code == 0


def test_a_stale_request_of_another_member_ends_no_computation() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    assert prepare(driver, "a", 1).error_code == Code.STALE_MEMBER_EPOCH
    assert install(driver, "b", (2, 3), {"a": EVERYTHING}).error_code == 0


def test_a_late_member_is_passed_over_and_stays_in_its_group() -> None:
    driver = with_two(ShardDriver(settings_with(apportion_assignor_timeout_ms=4_000)))
    prepare(driver, "b", 2)
    driver.advance(3_999)
    assert driver.notes == []
    driver.advance(1)
    assert driver.notes == [
        "group g: lag: member b (client client, host 127.0.0.1) has not installed an assignment "
        "within 4000 ms; another member is asked next; the target assignment of epoch 2 is kept"
    ]
    assert install(driver, "b", (2, 3), {}).error_code == Code.UNKNOWN_MEMBER_ID
    driver.advance(1_000)
    assert not computes(driver, "b", 2)
    assert computes(driver, "a", 2)


def test_a_member_with_a_shorter_rebalance_timeout_has_only_that() -> None:
    driver = ShardDriver()
    join(driver, "a", rebalance_timeout_ms=700)
    driver.advance(700)
    assert driver.notes == [
        "group g: lag: member a (client client, host 127.0.0.1) has not installed an assignment "
        "within 700 ms; all members have failed, and may be asked again"
    ]


def test_nobody_says_that_a_member_which_left_for_now_has_failed() -> None:
    driver = with_one(ShardDriver(settings_with(apportion_assignor_timeout_ms=1_000)))
    join(driver, "b", instance_id="i")
    driver.beat("b", -2, instance_id="i")
    assert computes(driver, "a", 2)
    driver.advance(1_000)
    assert driver.notes == [
        "group g: lag: member a (client client, host 127.0.0.1) has not installed an assignment "
        "within 1000 ms; all members but those that left for now have failed, and may be asked "
        "again; the target assignment of epoch 2 is kept"
    ]


def test_a_late_member_is_told_the_time_that_it_had() -> None:
    driver = ShardDriver(settings_with(apportion_assignor_timeout_ms=2_000))
    join(driver, "a")
    driver.shard.settings = settings_with(apportion_assignor_timeout_ms=60_000)
    driver.advance(2_000)
    assert driver.notes == [
        "group g: lag: member a (client client, host 127.0.0.1) has not installed an assignment "
        "within 2000 ms; all members have failed, and may be asked again"
    ]


def test_a_rebalance_timeout_that_no_member_could_keep_is_longer() -> None:
    driver = ShardDriver()
    assert join(driver, "a", rebalance_timeout_ms=-5).should_compute_assignment
    driver.advance(99)
    assert driver.notes == []
    assert prepare(driver, "a", 1).error_code == 0
    assert install(driver, "a", (1, 2), {"a": EVERYTHING}).error_code == 0


def test_a_member_that_left_for_a_while_is_not_waited_for() -> None:
    driver = with_one(ShardDriver(settings_with(apportion_assignor_timeout_ms=1_000)))
    join(driver, "b", instance_id="i")
    driver.beat("b", -2, instance_id="i")
    assert computes(driver, "a", 2)
    driver.advance(2_000)
    assert computes(driver, "a", 2)


def test_a_group_of_failing_members_pauses_longer_after_each_round() -> None:
    driver = ShardDriver(settings_with(apportion_assignor_timeout_ms=1))
    join(driver, "a")
    times = [0]
    for _ in range(1_500):
        driver.advance(100)
        if computes(driver, "a", 1):
            times.append(driver.mono_ms)
    pauses = [(after - before) // 1_000 for before, after in pairwise(times)]
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE_MS // 1_000]


def test_a_member_that_fails_is_passed_over_also_after_others_have_succeeded() -> None:
    driver = with_two(ShardDriver(settings_with(apportion_assignor_timeout_ms=1_000)))
    for epoch in (2, 3, 4):
        driver.advance(1_000 if epoch == 2 else 0)
        driver.advance(1_000)
        assert not computes(driver, "b", epoch)
        assert computes(driver, "a", epoch)
        prepare(driver, "a", epoch)
        assert install(driver, "a", (epoch, epoch + 1), {"a": EVERYTHING}).error_code == 0
        assert driver.beat("a", epoch).member_epoch == epoch + 1
        # A new epoch, whose target is due at once, by the member that has failed.
        driver.advance(1_000)
        answer = driver.beat("b", epoch, client_assignors=(offer(reason=1),))
        assert (answer.member_epoch, answer.should_compute_assignment) == (epoch + 1, False)
    assert len(driver.notes) == 1


def test_a_member_that_succeeds_after_all_have_failed_is_forgiven() -> None:
    driver = with_two(ShardDriver(settings_with(apportion_assignor_timeout_ms=1_000)))
    driver.advance(2_000)
    assert computes(driver, "a", 2)
    driver.advance(2_000)
    assert computes(driver, "b", 2)
    prepare(driver, "b", 2)
    assert install(driver, "b", (2, 3), {"a": EVERYTHING}).error_code == 0
    driver.change_topics(topics(foo=4))
    assert not computes(driver, "a", 2)
    assert computes(driver, "b", 2)


def test_a_failure_is_forgotten_with_its_member() -> None:
    driver = with_two(ShardDriver(settings_with(apportion_assignor_timeout_ms=1_000)))
    driver.advance(1_000)
    assert list(group_of(driver).live.offering_members) == ["b"]
    driver.beat("b", -1)
    assert group_of(driver).live.offering_members == {}


# what it is told


def test_the_chosen_member_is_told_the_group_as_it_is() -> None:
    driver = with_one(ShardDriver(known=topics(bar=2, foo=3)))
    join(
        driver,
        "b",
        offer(reason=3, metadata=b"lags"),
        topics=("bar", "foo", "missing"),
        rack_id="r1",
        instance_id="i",
    )
    assert prepare(driver, "b", 2) == ConsumerGroupPrepareAssignmentResponse(
        group_epoch=3,
        assignor_name="lag",
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


def test_the_chosen_member_is_told_once_a_second() -> None:
    driver = with_two(ShardDriver())
    assert prepare(driver, "b", 2).group_epoch == 3
    driver.advance(999)
    driver.change_topics(topics(foo=4))
    driver.beat("a", 2)
    refused = prepare(driver, "b", 2)
    assert (refused.error_code, refused.error_message) == (
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        "Member b was told of group g less than 1000 ms ago.",
    )
    driver.advance(1)
    assert prepare(driver, "b", 2).group_epoch == 4
    assert install(driver, "b", (2, 4), {"a": EVERYTHING}).error_code == 0


def test_topics_of_many_partitions_are_told_whole() -> None:
    driver = ShardDriver(known=topics(bar=1_000, foo=1_001))
    join(driver, "a", topics=("bar", "foo"))
    told = prepare(driver, "a", 1).topics
    assert [[each.partition for each in topic.partitions] for topic in told] == [
        list(range(1_000)),
        list(range(1_001)),
    ]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (("b", 2, "other"), Code.GROUP_ID_NOT_FOUND),
        (("z", 2, "g"), Code.UNKNOWN_MEMBER_ID),
        (("b", 1, "g"), Code.STALE_MEMBER_EPOCH),
        (("a", 1, "g"), Code.STALE_MEMBER_EPOCH),
        (("a", 2, "g"), Code.UNKNOWN_MEMBER_ID),
    ],
    ids=["group", "member", "epoch", "epoch of another", "not chosen"],
)
def test_both_requests_check_their_sender_in_this_order(
    asked: tuple[str, int, str], code: Code
) -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    member_id, epoch, group_id = asked
    before = state_of(driver.shard)
    assert prepare(driver, member_id, epoch, group_id).error_code == code
    answer = install(driver, member_id, (epoch, 3), {}, group_id=group_id)
    assert answer.error_code == code
    assert answer.error_message
    assert state_of(driver.shard) == before
    driver.advance(1_000)
    assert prepare(driver, "b", 2).error_code == 0
    assert install(driver, "b", (2, 3), {"a": EVERYTHING}).error_code == 0


def test_neither_request_knows_a_classic_group() -> None:
    driver = ShardDriver()
    assert prepare(driver, "a", 0).error_code == Code.GROUP_ID_NOT_FOUND
    assert install(driver, "a", (0, 0), {}).error_message == "There is no consumer group g."
