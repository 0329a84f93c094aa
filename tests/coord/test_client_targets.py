"""Targets by client-side assignors, where a script has no words for it: long histories, whole
messages, large metadata. The rest is in `scripts/cases/client-targets.txt` and its neighbours.
"""

from itertools import pairwise

import pytest

from apportion.coord.consumer.client_assignors import MAX_METADATA_BYTES
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
    installed,
    join,
    offer,
    prepare,
    with_one,
    with_two,
)
from tests.coord.shard_driver import ShardDriver, settings_with, topic_id, topics
from tests.coord.toy_assignor import FOO


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


def test_a_failure_is_forgotten_with_its_member() -> None:
    driver = with_two(ShardDriver(settings_with(apportion_assignor_timeout_ms=1_000)))
    driver.advance(1_000)
    assert list(group_of(driver).live.offering_members) == ["b"]
    driver.beat("b", -1)
    assert group_of(driver).live.offering_members == {}


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


def test_topics_of_many_partitions_are_told_whole() -> None:
    driver = ShardDriver(known=topics(bar=1_000, foo=1_001))
    join(driver, "a", topics=("bar", "foo"))
    told = prepare(driver, "a", 1).topics
    assert [[each.partition for each in topic.partitions] for topic in told] == [
        list(range(1_000)),
        list(range(1_001)),
    ]


def test_a_group_that_gets_members_without_a_pause_still_gets_targets() -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000)))
    epochs = [2]
    for number in range(5):
        driver.advance(500)
        join(driver, f"early{number}")
        driver.advance(500)
        assert computes(driver, "a", epochs[-1])
        told = prepare(driver, "a", epochs[-1]).group_epoch
        join(driver, f"late{number}")
        assert install(driver, "a", (epochs[-1], told), {"a": EVERYTHING}).error_code == 0
        epochs.append(driver.beat("a", epochs[-1]).member_epoch)
    # Two members came for each target.
    assert epochs == [2, 3, 5, 7, 9, 11]


def test_partitions_that_a_target_gives_to_nobody_are_counted_in_the_log() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    assert install(driver, "b", (2, 3), {"a": {"foo": [1]}}).error_code == 0
    assert driver.notes == ["group g: the assignor lag leaves 2 of 3 partitions to nobody"]
    assert driver.hints == [
        ": no member reads them until a newer target gives them to one. `apportion groups describe "
        "g` shows them; unless that is meant, mend the assignor"
    ]


def test_a_target_with_too_much_metadata_is_refused() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    answer = install(driver, "b", (2, 3), [installed("a", {}, bytes(MAX_METADATA_BYTES + 1))])
    assert (answer.error_code, answer.error_message) == (
        Code.INVALID_REQUEST,
        "the assignor gives more than 65536 bytes of metadata to one member, or 67108864 to all",
    )
    assert group_of(driver).saved.assignment_epoch == 2


def test_metadata_without_a_reason_is_saved_once_in_an_interval() -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000)))
    saved = []
    for number in range(25):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % number),))
        saved.append(int(metadata_of(driver)))
        driver.advance(100)
    assert saved == [0] * 10 + [10] * 10 + [20] * 5


def metadata_of(driver: ShardDriver) -> bytes:
    """The metadata of "a", as it is saved."""
    (assignor,) = group_of(driver).saved.members["a"].metadata.client_assignors
    return bytes(assignor.metadata)


@pytest.mark.parametrize("interval_ms", [0, 1_000])
def test_reasons_begin_one_epoch_in_an_interval_or_in_a_second(interval_ms: int) -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=interval_ms)))
    written = len(driver.log)
    for number in range(20):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % number, reason=1),))
        driver.advance(50)
    # Metadata and epoch.
    assert (group_of(driver).saved.epoch, len(driver.log)) == (3, written + 2)
    driver.beat("a", 2)
    assert (group_of(driver).saved.epoch, metadata_of(driver)) == (4, b"19")
