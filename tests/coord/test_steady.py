"""Steady heartbeats are found at once, and all steps of a heartbeat would have found the same."""

from copy import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from apportion.coord.consumer import heartbeat_api
from apportion.coord.consumer.heartbeat import HeartbeatResult, heartbeat
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.consumer.steady import steady_heartbeat_or_none
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Arrived, Caller
from apportion.sim.checks.saved import saved_state
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coord.client_side import offer, with_one
from tests.coord.mixed_clients import classic, consumer, make_driver, settle
from tests.coord.shard_driver import HERE, ShardDriver, parts, settings_with, topics
from tests.coord.test_client_assignor_laws import ClientAssignorMachine
from tests.coord.test_membership_laws import ConsumerGroupMachine
from tests.coord.test_migration_laws import MixedGroupMachine

SEARCH = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
NEWS: dict[str, Any] = {
    "instance_id": "i2",
    "rack_id": "r",
    "rebalance_timeout_ms": 1,
    "subscribed_topic_names": ("foo",),
    "subscribed_topic_regex": "",
    "server_assignor": "range",
    "topic_partitions": parts({"foo": [0, 1, 2]}),
    "client_assignors": (),
}
"""What a heartbeat may bring."""


def facts_of(thing: Any) -> dict[str, Any]:
    """The attributes of a piece of live state, as they are now."""
    return {name: copy(getattr(thing, name)) for name in thing.__slots__}


def seen(turn: Turn, group: ConsumerGroup) -> Any:
    """All that a heartbeat may change, as it is now."""
    live = group.live
    return (
        saved_state(turn.ledger),
        facts_of(live)
        | {
            "counts": facts_of(live.counts),
            "offering_members": {
                member_id: facts_of(each) for member_id, each in live.offering_members.items()
            },
        },
        dict(turn.deadlines._at),
        list(turn.close()),
    )


class AllSteps:
    """Have each steady heartbeat take all steps as well, which must find nothing more to do."""

    def __init__(self) -> None:
        self.found = 0

    def __call__(self, turn: Turn, arrived: Arrived) -> HeartbeatResult | None:
        result = steady_heartbeat_or_none(turn, arrived)
        if result is None:
            return None
        self.found += 1
        before = seen(turn, result.group)
        heartbeat_api.check_request(arrived.request, arrived.version, turn.settings)
        assert heartbeat(turn, heartbeat_api.beat_of(arrived)) == result
        assert seen(turn, result.group) == before
        return result


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> AllSteps:
    """Count the steady heartbeats, and let them take all steps as well."""
    all_steps = AllSteps()
    monkeypatch.setattr(heartbeat_api, "steady_heartbeat_or_none", all_steps)
    return all_steps


@pytest.mark.parametrize(
    "machine", [ConsumerGroupMachine, ClientAssignorMachine, MixedGroupMachine]
)
def test_all_steps_find_nothing_more_whatever_members_do(
    steady: AllSteps, machine: type[Any]
) -> None:
    run_state_machine_as_test(machine, settings=SEARCH)
    assert steady.found > 10


def test_a_member_with_its_target_heartbeats_steadily(steady: AllSteps) -> None:
    driver = ShardDriver()
    driver.join("a")
    assert steady.found == 0
    assert driver.beat("a", 2).assignment is None
    assert driver.beat("a", 2, version=0).error_code == Code.NONE
    assert steady.found == 2


def test_a_static_member_may_name_its_instance_or_not(steady: AllSteps) -> None:
    driver = ShardDriver()
    driver.join("a", instance_id="i")
    driver.beat("a", 2)
    driver.beat("a", 2, instance_id="i")
    assert steady.found == 2


def test_a_member_that_offers_assignors_or_subscribes_by_expression_may_be_steady(
    steady: AllSteps,
) -> None:
    with_one(ShardDriver()).beat("a", 2)
    assert steady.found == 1
    driver = ShardDriver()
    driver.join("a", subscribed_topic_regex="fo.")
    driver.end_computations()
    assert driver.beat("a", 2).member_epoch == 3  # what it matches is a new subscription
    driver.beat("a", 3)
    assert steady.found == 2


def test_a_heartbeat_at_which_expressions_are_resolved_again_takes_all_steps(
    steady: AllSteps,
) -> None:
    driver = ShardDriver(settings_with(group_consumer_regex_refresh_interval_ms=20_000))
    driver.join("a", subscribed_topic_regex="fo.")
    driver.end_computations()
    driver.beat("a", 2)
    driver.advance(20_001)
    driver.beat("a", 3)
    assert (steady.found, len(driver.computations)) == (0, 1)


@pytest.mark.parametrize("name", NEWS)
def test_a_heartbeat_that_brings_something_takes_all_steps(steady: AllSteps, name: str) -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.beat("a", 2, **{name: NEWS[name]})
    assert steady.found == 0


def test_the_news_are_all_fields_that_a_heartbeat_may_bring() -> None:
    request: Any = ConsumerGroupHeartbeatRequest
    fields = request.__slots__
    assert list(NEWS) == list(fields)[3:]
    assert list(fields)[:3] == ["group_id", "member_id", "member_epoch"]


@pytest.mark.parametrize("caller", [HERE._replace(client_id="x"), HERE._replace(host="/10.0.0.1")])
def test_a_heartbeat_of_another_client_or_host_takes_all_steps(
    steady: AllSteps, caller: Caller
) -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.beat("a", 2, caller=caller)
    assert steady.found == 0


def test_a_member_with_a_blank_id_can_join_in_version_0_and_not_heartbeat(
    steady: AllSteps,
) -> None:
    driver = ShardDriver()
    assert driver.join(" ", version=0).error_code == Code.NONE
    assert driver.beat(" ", 2, version=0).error_code == Code.INVALID_REQUEST
    assert steady.found == 0


@pytest.mark.parametrize("epoch", [-2, -1, 0, 1, 3])
def test_a_heartbeat_with_another_epoch_takes_all_steps(steady: AllSteps, epoch: int) -> None:
    driver = ShardDriver()
    driver.join("a", instance_id="i")
    driver.beat("a", epoch, instance_id="i")
    assert steady.found == 0


def test_the_first_heartbeat_after_a_change_of_the_topics_takes_all_steps(
    steady: AllSteps,
) -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.change_topics(topics(foo=4))
    assert driver.beat("a", 2).member_epoch == 3
    assert steady.found == 0
    driver.beat("a", 3)
    assert steady.found == 1


def test_a_member_without_its_target_takes_all_steps(steady: AllSteps) -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.join("b")
    driver.beat("b", 3)  # waits for what a has
    driver.beat("a", 2)  # has to revoke
    driver.beat("a", 2)
    assert steady.found == 0


def test_a_member_of_a_group_whose_target_is_behind_takes_all_steps(steady: AllSteps) -> None:
    driver = ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000))
    driver.join("a")
    driver.join("b")
    driver.beat("a", 2)
    assert steady.found == 0


def test_a_classic_member_that_comes_back_as_a_consumer_takes_all_steps(steady: AllSteps) -> None:
    driver = make_driver()
    client = classic(driver, "a")
    settle(client, consumer(driver, "b"))
    member, found = driver.group().saved.members[client.member_id], steady.found
    caller = Caller(member.metadata.client_id, member.metadata.client_host)
    driver.beat(member.member_id, member.epoch, caller=caller)
    assert steady.found == found


def test_a_heartbeat_that_saves_what_came_too_early_takes_all_steps(steady: AllSteps) -> None:
    driver = with_one(ShardDriver())
    for metadata in (b"1", b"2"):  # the second has to wait for a second
        driver.beat("a", 2, client_assignors=(offer(metadata=metadata),))
    driver.beat("a", 2)
    driver.advance(1_000)
    driver.beat("a", 2)
    assert steady.found == 0
    driver.beat("a", 2)
    assert steady.found == 1
