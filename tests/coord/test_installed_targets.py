"""What the chosen member of a group installs: what is refused, what is saved, what members get."""

from typing import Any

import pytest

from apportion.coord.consumer.client_assignors import MAX_METADATA_BYTES
from apportion.errors import Code
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_install_assignment import (
    InstalledMember,
    InstalledPartitions,
)
from tests.coord.client_side import (
    EVERYTHING,
    computes,
    group_of,
    install,
    installed,
    join,
    prepare,
    with_one,
    with_two,
)
from tests.coord.shard_driver import ShardDriver, settings_with, state_of, topics
from tests.coord.toy_assignor import (
    FOO,
    Toy,
    all_to_first,
    assigned,
    beat_to_target,
    first_to_first,
    with_toy,
)


def test_a_target_for_another_epoch_than_the_prepared_one_is_refused_as_stale() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    answer = install(driver, "b", (2, 2), {"b": EVERYTHING})
    assert (answer.error_code, answer.error_message) == (
        Code.STALE_MEMBER_EPOCH,
        "The target assignment is for epoch 2 of group g, and epoch 3 was prepared.",
    )
    # It is asked again.
    driver.advance(1_000)
    assert computes(driver, "b", 2)
    prepare(driver, "b", 2)
    assert install(driver, "b", (2, 3), {"b": EVERYTHING}).error_code == 0


def test_a_target_that_nobody_prepared_for_is_refused_as_stale() -> None:
    driver = with_two(ShardDriver())
    answer = install(driver, "b", (2, 3), {"b": EVERYTHING})
    assert (answer.error_code, answer.error_message) == (
        Code.STALE_MEMBER_EPOCH,
        "The target assignment is for epoch 3 of group g, and none was prepared.",
    )


def test_a_target_for_the_prepared_epoch_is_saved_though_the_group_is_ahead() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    join(driver, "c")
    assert install(driver, "b", (2, 3), {"a": {"foo": [0]}, "b": {"foo": [1, 2]}}).error_code == 0
    saved = group_of(driver).saved
    assert (saved.epoch, saved.assignment_epoch, saved.members["c"].target) == (4, 3, None)
    # Another computation follows.
    assert computes(driver, "c", 2)


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


def test_a_member_that_has_gone_is_left_out_of_the_target() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    driver.beat("a", -1)
    assert install(driver, "b", (2, 3), {"a": {"foo": [0]}, "b": {"foo": [1]}}).error_code == 0
    saved = group_of(driver).saved
    assert (list(saved.members), saved.epoch, saved.assignment_epoch) == (["b"], 4, 3)
    answer = driver.beat("b", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, {FOO: (1,)})


def test_the_successor_of_a_static_member_gets_its_part() -> None:
    driver = ShardDriver()
    join(driver, "a", instance_id="i")
    prepare(driver, "a", 1)
    install(driver, "a", (1, 2), {"a": EVERYTHING})
    driver.beat("a", 1, instance_id="i")
    join(driver, "b")
    prepare(driver, "b", 2)
    driver.beat("a", -2, instance_id="i")
    join(driver, "c", instance_id="i")
    targets = [installed("a", {"foo": [0]}, b"yours"), installed("b", {"foo": [1, 2]})]
    assert install(driver, "b", (2, 3), targets).error_code == 0
    member = group_of(driver).saved.members["c"]
    assert (member.target.tolist(), member.target_answer.metadata) == ([0], b"yours")


def test_the_successor_of_a_static_member_is_told_what_came_with_its_target() -> None:
    driver = ShardDriver()
    join(driver, "a", instance_id="i")
    prepare(driver, "a", 1)
    install(driver, "a", (1, 2), [installed("a", EVERYTHING, b"yours")])
    driver.beat("a", 1, instance_id="i")
    driver.beat("a", -2, instance_id="i")
    answer = join(driver, "b", instance_id="i")
    assert (answer.member_epoch, assigned(answer)) == (2, {FOO: (0, 1, 2)})
    assert answer.assignment.metadata == b"yours"


def test_a_member_that_takes_an_instance_id_meanwhile_keeps_its_part() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    assert join(driver, "a", instance_id="i").error_code == 0
    assert install(driver, "b", (2, 3), {"a": {"foo": [0]}, "b": {"foo": [1]}}).error_code == 0
    saved = group_of(driver).saved
    assert (saved.epoch, saved.assignment_epoch) == (3, 3)
    assert saved.members["a"].target.tolist() == [0]


def test_members_and_partitions_that_are_left_out_get_nothing() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    assert install(driver, "b", (2, 3), {"b": {"foo": [1], "bar": []}}, error=0).error_code == (
        Code.INVALID_REQUEST
    )
    driver.advance(1_000)
    assert computes(driver, "a", 2)
    prepare(driver, "a", 2)
    assert install(driver, "a", (2, 3), {"b": {"foo": [1]}}).error_code == 0
    answer = driver.beat("a", 2, owned=EVERYTHING)
    assert (answer.member_epoch, assigned(answer)) == (2, {})
    driver.beat("a", 2, owned={})
    answer = driver.beat("b", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, {FOO: (1,)})


WRONG: dict[str, tuple[list[InstalledMember], str]] = {
    "unknown member": (
        [installed("z", {"foo": [0]})],
        "gives partition 0 of 'foo' to 'z', which is no member of the group",
    ),
    "a member twice": (
        [installed("a", {"foo": [0]}), installed("a", {"foo": [1]})],
        "answers for 'a' twice",
    ),
    "unknown topic": (
        [
            InstalledMember(
                member_id="a",
                topic_partitions=(InstalledPartitions(topic_id=bytes(16), partitions=(0,)),),
            )
        ],
        f"gives partitions of topic {'0' * 32} to 'a', but the group has no such topic",
    ),
    "unknown partition": (
        [installed("a", {"foo": [3]})],
        "gives partition 3 of 'foo' to 'a', but the topic has 3 partitions",
    ),
    "a partition twice": (
        [installed("a", {"foo": [0]}), installed("b", {"foo": [1, 0]})],
        "gives partition 0 of 'foo' to 'b' and to 'a'",
    ),
    "not subscribed": (
        [installed("a", {"bar": [0]})],
        "gives partition 0 of 'bar' to 'a', which is not subscribed to that topic",
    ),
    "too much metadata": (
        [installed("a", {}, bytes(MAX_METADATA_BYTES + 1))],
        "gives more than 65536 bytes of metadata to one member, or 67108864 to all",
    ),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_a_wrong_target_is_refused_and_the_older_one_stays(what: str) -> None:
    driver = with_one(ShardDriver(known=topics(bar=1, foo=3)))
    join(driver, "b", topics=("bar", "foo"))
    prepare(driver, "b", 2)
    before = state_of(driver.shard)
    members, why = WRONG[what]
    answer = install(driver, "b", (2, 3), members)
    assert (answer.error_code, answer.error_message) == (
        Code.INVALID_REQUEST,
        f"the assignor {why}",
    )
    assert driver.notes == [
        f"group g: lag: member b (client client, host 127.0.0.1): the assignor {why}; "
        "another member is asked next; the target assignment of epoch 2 is kept"
    ]
    assert state_of(driver.shard) == before
    assert assigned(driver.beat("a", 2)) is None
    driver.advance(1_000)
    assert not computes(driver, "b", 2)
    assert computes(driver, "a", 2)


def test_partitions_that_a_target_gives_to_nobody_are_counted_in_the_log() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    assert install(driver, "b", (2, 3), {"a": {"foo": [1]}}).error_code == 0
    assert driver.notes == ["group g: the assignor lag leaves 2 of 3 partitions to nobody"]
    assert driver.hints == [
        ": no member reads them until a newer target gives them to one. `apportion groups describe "
        "g` shows them; unless that is meant, mend the assignor"
    ]


def test_partitions_that_a_custom_assignor_gives_to_nobody_are_counted_in_the_log() -> None:
    toy = Toy(first_to_first)
    driver = with_toy(toy)
    driver.join("a")
    driver.end_computations()
    left_out = "group g: the assignor toy leaves 2 of 3 partitions to nobody"
    assert driver.notes == [left_out]
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0,)})
    driver.join("b")
    driver.advance(1_000)
    assert driver.beat("a", 2).error_code == 0
    driver.end_computations()
    assert driver.notes == [left_out, left_out]
    toy.answer = all_to_first
    driver.beat("b", -1)
    driver.advance(1_000)
    assert driver.beat("a", 2).error_code == 0
    driver.end_computations()
    assert driver.notes == [left_out, left_out]


# what members get


def test_errors_and_metadata_of_an_assignment_reach_each_member_with_its_new_epoch() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    targets = [installed("a", EVERYTHING, b"for a", version=1)]
    assert install(driver, "b", (2, 3), targets, error=-7).error_code == 0
    told = {member_id: told_to(driver.beat(member_id, 2)) for member_id in ("a", "b")}
    assert told == {
        "a": (3, {FOO: (0, 1, 2)}, (-7, 1, b"for a")),
        "b": (3, {}, (-7, 0, b"")),
    }
    assert driver.beat("a", 3).assignment is None
    again = driver.beat(
        "a", 3, rebalance_timeout_ms=30_000, subscribed_topic_names=("foo",), owned=EVERYTHING
    )
    assert told_to(again) == told["a"]


def told_to(answer: Any) -> tuple[int, Any, tuple[int, int, bytes]]:
    """The epoch, the partitions and the assignor's answer in a heartbeat's response."""
    given = answer.assignment
    told = (given.error, given.metadata_version, bytes(given.metadata))
    return answer.member_epoch, assigned(answer), told


def test_metadata_alone_is_a_new_target_of_the_member() -> None:
    driver = with_one(ShardDriver())
    for metadata in (b"one", b"two", b"two"):
        driver.change_topics([Topic("foo", FOO, group_of(driver).saved.epoch + 2)])
        epoch = group_of(driver).saved.epoch
        assert computes(driver, "a", epoch)
        prepare(driver, "a", epoch)
        written = len(driver.log)
        install(driver, "a", (epoch, epoch + 1), [installed("a", EVERYTHING, metadata)])
        kinds = [type(record.key).__name__ for record in driver.log[written:]]
        assert told_to(driver.beat("a", epoch)) == (
            epoch + 1,
            {FOO: (0, 1, 2)},
            (0, 0, metadata),
        )
    # Without a change only the epoch is written.
    assert kinds == ["ConsumerGroupTargetAssignmentMetadataKey"]


def test_an_error_without_metadata_leaves_those_of_a_target_that_stays() -> None:
    driver = with_one(ShardDriver())
    told = []
    for given, metadata, error in (
        (EVERYTHING, b"mine", 0),
        (EVERYTHING, b"", 3),
        ({"foo": [0, 1]}, b"", 3),
    ):
        driver.change_topics([Topic("foo", FOO, group_of(driver).saved.epoch + 2)])
        epoch = group_of(driver).saved.epoch
        assert computes(driver, "a", epoch)
        prepare(driver, "a", epoch)
        install(driver, "a", (epoch, epoch + 1), [installed("a", given, metadata)], error=error)
        told.append(told_to(driver.beat("a", epoch, owned=given)))
    assert told == [
        (3, {FOO: (0, 1, 2)}, (0, 0, b"mine")),
        (4, {FOO: (0, 1, 2)}, (3, 0, b"mine")),
        (5, {FOO: (0, 1)}, (3, 0, b"")),
    ]


def test_an_error_for_a_member_without_a_target_is_saved_as_installed() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    install(driver, "b", (2, 3), [installed("b", {}, version=1)], error=3)
    assert told_to(driver.beat("b", 2)) == (3, {}, (3, 1, b""))


def test_an_answer_ends_with_the_target_that_it_came_with() -> None:
    driver = with_one(ShardDriver())
    driver.change_topics([Topic("foo", FOO, 4)])
    driver.beat("a", 2)
    prepare(driver, "a", 2)
    install(driver, "a", (2, 3), [installed("a", EVERYTHING, b"mine")], error=1)
    assert told_to(driver.beat("a", 2)) == (3, {FOO: (0, 1, 2)}, (1, 0, b"mine"))
    # Now the broker assigns.
    driver.join("java", topics=("bar",))
    assert told_to(driver.beat("a", 3)) == (4, {FOO: (0, 1, 2, 3)}, (0, 0, b""))


def test_an_answer_comes_with_the_epoch_of_its_target() -> None:
    driver = with_one(ShardDriver())
    driver.change_topics([Topic("foo", FOO, 4)])
    driver.beat("a", 2)
    prepare(driver, "a", 2)
    install(driver, "a", (2, 3), [installed("a", EVERYTHING, b"old")], error=1)
    driver.beat("a", 2)
    join(driver, "b")
    prepare(driver, "b", 3)
    targets = [installed("a", {"foo": [0]}, b"new"), installed("b", {"foo": [1, 2]}, b"new")]
    install(driver, "b", (3, 4), targets)
    # It has to give partitions up first, and is at the older epoch.
    assert told_to(driver.beat("a", 3)) == (3, {FOO: (0,)}, (1, 0, b"old"))
    assert told_to(driver.beat("a", 3, owned={"foo": [0]})) == (4, {FOO: (0,)}, (0, 0, b"new"))


def test_an_error_comes_before_the_epoch_of_its_target() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    install(driver, "b", (2, 3), [installed("b", {}, b"new")], error=1)
    # Another member that hears of it may leave, and then a newer target is made without it.
    assert told_to(driver.beat("a", 2)) == (2, {}, (1, 0, b""))
    assert told_to(driver.beat("a", 2, owned={})) == (3, {}, (1, 0, b""))


def test_a_process_that_offers_none_gets_no_answer_of_its_older_one() -> None:
    driver = ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000))
    join(driver, "a")
    prepare(driver, "a", 1)
    install(driver, "a", (1, 2), [installed("a", EVERYTHING, b"mine")], error=1)
    assert told_to(driver.beat("a", 1)) == (2, {FOO: (0, 1, 2)}, (1, 0, b"mine"))
    assert told_to(driver.join("a")) == (2, {FOO: (0, 1, 2)}, (0, 0, b""))


# the crash of a broker


@pytest.mark.parametrize("step", ["chosen", "prepared", "installed"])
def test_a_restart_begins_the_computation_anew(step: str) -> None:
    driver = with_two(ShardDriver())
    if step != "chosen":
        prepare(driver, "b", 2)
    if step == "installed":
        targets = [installed("a", {"foo": [0]}, b"for a"), installed("b", {"foo": [1]})]
        install(driver, "b", (2, 3), targets, error=1)
    driver.crash()
    if step == "installed":
        answer = driver.beat("a", 2, owned={"foo": [0]})
        assert told_to(answer) == (3, {FOO: (0,)}, (1, 0, b"for a"))
        return
    assert install(driver, "b", (2, 3), {"a": EVERYTHING}).error_code == Code.UNKNOWN_MEMBER_ID
    assert computes(driver, "a", 2)
    prepare(driver, "a", 2)
    assert install(driver, "a", (2, 3), {"a": EVERYTHING}).error_code == 0
    assert driver.beat("a", 2).member_epoch == 3


def test_an_installation_that_is_sent_twice_is_refused_the_second_time() -> None:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    assert install(driver, "b", (2, 3), {"a": EVERYTHING}).error_code == 0
    assert install(driver, "b", (2, 3), {"a": EVERYTHING}).error_code == Code.UNKNOWN_MEMBER_ID
