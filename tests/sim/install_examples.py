"""A small example for each bug of `planted_installs.py`, which ends otherwise with the bug."""

from collections.abc import Callable
from typing import Any

from apportion.coord.consumer.client_assignors import AgreedAssignor
from apportion.errors import Code
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
from tests.coord.shard_driver import ShardDriver, settings_with
from tests.member.script_player import ScriptPlayer

LATE_MS = 4_000


def patient() -> ShardDriver:
    """A driver whose coordinator waits for 4 s."""
    return ShardDriver(settings_with(apportion_assignor_timeout_ms=LATE_MS))


def an_install_of_another_member() -> Any:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    return install(driver, "a", (2, 3), {"a": EVERYTHING}).error_code


def an_install_for_an_older_epoch() -> Any:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    return install(driver, "b", (2, 2), {"a": EVERYTHING}).error_code


def an_install_of_a_partition_for_both() -> Any:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    return install(driver, "b", (2, 3), {"a": EVERYTHING, "b": EVERYTHING}).error_code


def another_is_chosen_after_a_deadline() -> Any:
    driver = with_two(patient())
    driver.advance(LATE_MS + 1_000)
    return computes(driver, "a", 2)


def the_late_member_is_asked_again() -> Any:
    driver = with_two(patient())
    driver.advance(LATE_MS + 1_000)
    return computes(driver, "b", 2)


def what_a_successor_gets_of_a_target_for_its_predecessor() -> Any:
    driver = with_one(ShardDriver())
    join(driver, "b", instance_id="i")
    driver.beat("b", -2, instance_id="i")
    computes(driver, "a", 2)
    prepare(driver, "a", 2)
    join(driver, "c", instance_id="i")
    install(driver, "a", (2, 3), {"a": {"foo": [0, 1]}, "b": {"foo": [2]}})
    target = group_of(driver).saved.members["c"].target
    return 0 if target is None else len(target)


def who_has_a_target_after_a_member_has_gone() -> Any:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    driver.beat("a", -1)
    install(driver, "b", (2, 3), {"a": {"foo": [0, 1]}, "b": {"foo": [2]}})
    return list(group_of(driver).saved.members)


def a_reason_begins_an_epoch() -> Any:
    driver = with_one(ShardDriver())
    driver.beat("a", 2, client_assignors=(offer(reason=1),))
    return group_of(driver).saved.epoch


def what_is_agreed_with_a_member_that_offers_nothing() -> Any:
    driver = with_one(ShardDriver())
    driver.join("b")
    return group_of(driver).saved.client_assignor


def how_often_measured_values_are_saved() -> Any:
    driver = with_one(ShardDriver())
    before = len(driver.log)
    for number in range(5):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % number),))
    return len(driver.log) - before


def the_epoch_after_a_second_reason() -> Any:
    driver = with_one(ShardDriver())
    for reason in (1, 2):
        driver.beat("a", 2, client_assignors=(offer(reason=reason),))
    driver.advance(1_000)
    driver.beat("a", 2)
    return group_of(driver).saved.epoch


def the_reason_after_a_lost_response() -> Any:
    player = ScriptPlayer()
    for step in (
        "new consumer counting",
        "reply reason=9 after_ms=700",
        "joined T-0",
        "700 beat member_epoch=1",
        "1700 tick",
        "no answer 7 closed",
        "1800 tick",
    ):
        player.play(step)
    (full,) = player.play("found 8")
    return "reason=9" in full


def a_second_prepare_at_once() -> Any:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    return prepare(driver, "b", 2).error_code


def what_comes_with_the_older_epoch() -> Any:
    driver = with_two(ShardDriver())
    prepare(driver, "b", 2)
    targets = [installed("a", {"foo": [0]}, b"new"), installed("b", {"foo": [1, 2]})]
    install(driver, "b", (2, 3), targets)
    answer: Any = driver.beat("a", 2)
    return answer.member_epoch, answer.assignment.metadata


INSTALL_EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "anybody-installs": (an_install_of_another_member, Code.UNKNOWN_MEMBER_ID, Code.NONE),
    "any-epoch-installs": (an_install_for_an_older_epoch, Code.STALE_MEMBER_EPOCH, Code.NONE),
    "install-unchecked": (an_install_of_a_partition_for_both, Code.INVALID_REQUEST, Code.NONE),
    "computes-for-ever": (another_is_chosen_after_a_deadline, True, False),
    "asked-again": (the_late_member_is_asked_again, False, True),
    "successor-without-target": (what_a_successor_gets_of_a_target_for_its_predecessor, 1, 0),
    "target-of-the-gone": (who_has_a_target_after_a_member_has_gone, ["b"], ["b", "a"]),
    "reason-unheard": (a_reason_begins_an_epoch, 3, 2),
    "agreed-without-all": (
        what_is_agreed_with_a_member_that_offers_nothing,
        None,
        AgreedAssignor("lag", 0),
    ),
    "saved-at-once": (how_often_measured_values_are_saved, 1, 5),
    "early-is-forgotten": (the_epoch_after_a_second_reason, 4, 3),
    "said-once": (the_reason_after_a_lost_response, True, False),
    "told-at-once": (a_second_prepare_at_once, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NONE),
    "answer-before-its-epoch": (what_comes_with_the_older_epoch, (2, b""), (2, b"new")),
}
