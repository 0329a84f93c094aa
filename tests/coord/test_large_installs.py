"""A large target that a member installs is checked beside the shard, and nobody waits for that."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from apportion.coord.consumer import assignment_api, installed_check
from apportion.coord.consumer.installed_check import MOST_IN_STEP
from apportion.errors import Code
from apportion.machine import ComputeFailed, Ticket
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from tests.coord.client_side import group_of, installed, join, prepare
from tests.coord.shard_driver import ShardDriver, topics
from tests.coord.test_client_assignor_laws import ClientAssignorMachine, targets_of

LARGE = range(MOST_IN_STEP + 1)
SEARCH = settings(
    max_examples=300,
    stateful_step_count=30,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def begin(
    driver: ShardDriver,
    numbers: Any = LARGE,
    member_id: str = "a",
    group_id: str = "g",
    **facts: Any,
) -> Ticket:
    """The ticket of a request in which a member at epoch 1 gives these partitions to itself."""
    member = installed(member_id, {"foo": list(numbers)}, **facts)
    request = ConsumerGroupInstallAssignmentRequest(
        group_id=group_id, member_id=member_id, member_epoch=1, group_epoch=2, members=(member,)
    )
    return driver.ask(request, version=0)


def with_chosen() -> ShardDriver:
    """A group of "a", which was told that foo has very many partitions, and is to install."""
    driver = ShardDriver(known=topics(foo=len(LARGE)))
    join(driver, "a")
    assert prepare(driver, "a", 1).error_code == Code.NONE
    return driver


def target_of(driver: ShardDriver) -> Any:
    """How many partitions "a" has by its target; None before it has one."""
    target = group_of(driver).saved.members["a"].target
    return None if target is None else len(target)


def code_of(driver: ShardDriver, ticket: Ticket) -> Any:
    """The error of an answer; None if there is none yet."""
    answer = driver.taken_or_none(ticket)
    return None if answer is None else answer.error_code


def test_a_large_target_is_saved_and_answered_when_it_was_checked() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    assert driver.beat("a", 1).should_compute_assignment is False
    assert (code_of(driver, ticket), target_of(driver)) == (None, None)
    driver.end_computations()
    assert (code_of(driver, ticket), target_of(driver)) == (Code.NONE, len(LARGE))
    assert driver.beat("a", 1).member_epoch == 2


def test_a_target_that_is_not_large_is_checked_in_the_step() -> None:
    driver = with_chosen()
    assert code_of(driver, begin(driver, range(MOST_IN_STEP - 2))) == Code.NONE
    driver = with_chosen()
    assert code_of(driver, begin(driver, range(MOST_IN_STEP - 1))) is None


def test_a_large_answer_that_is_no_assignment_is_refused_when_it_was_checked() -> None:
    driver = with_chosen()
    ticket = begin(driver, [*LARGE, len(LARGE)])
    driver.end_computations()
    answer = driver.taken_or_none(ticket)
    assert answer.error_code == Code.INVALID_REQUEST
    assert answer.error_message == (
        f"the assignor gives partition {len(LARGE)} of 'foo' to 'a', but the topic has "
        f"{len(LARGE)} partitions"
    )
    assert target_of(driver) is None
    assert answer.error_message in driver.notes[-1]
    assert group_of(driver).live.chosen is None


@pytest.mark.parametrize("numbers", [LARGE, [0]])
def test_a_group_has_one_target_under_check_at_a_time(numbers: Any) -> None:
    driver = with_chosen()
    first = begin(driver)
    driver.advance(2_000)  # it may be told again by now
    assert prepare(driver, "a", 1).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(driver, begin(driver, numbers)) == Code.COORDINATOR_LOAD_IN_PROGRESS
    driver.end_computations()
    assert code_of(driver, first) == Code.NONE


def test_a_broker_checks_a_bounded_number_of_targets_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assignment_api, "MOST_AT_ONCE", 1)
    driver = with_chosen()
    join(driver, "a", group_id="h")
    prepare(driver, "a", 1, group_id="h")
    first = begin(driver)
    assert code_of(driver, begin(driver, group_id="h")) == Code.COORDINATOR_LOAD_IN_PROGRESS
    driver.end_computations()
    assert code_of(driver, first) == Code.NONE
    second = begin(driver, group_id="h")
    driver.end_computations()
    assert code_of(driver, second) == Code.NONE


def test_a_member_whose_target_is_under_check_is_not_late() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    for _ in range(6):  # its session goes on, and the time for a target passes twice
        driver.advance(5_000)
        driver.beat("a", 1)
    driver.end_computations()
    assert (code_of(driver, ticket), target_of(driver)) == (Code.NONE, len(LARGE))
    assert driver.notes == []


def test_a_member_that_is_chosen_meanwhile_is_late_after_the_check() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    join(driver, "a")  # its process has begun again, and is chosen again
    driver.advance(12_000)  # more than it may take
    assert driver.notes == []
    driver.end_computations()
    assert code_of(driver, ticket) == Code.STALE_MEMBER_EPOCH
    driver.advance(10_000)
    assert "has not installed an assignment within 10000 ms" in driver.notes[-1]


def test_a_target_of_a_member_that_is_not_chosen_any_more_is_refused() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    join(driver, "b")
    driver.beat("a", -1)
    assert driver.beat("b", 1).should_compute_assignment
    assert prepare(driver, "b", 1).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    driver.end_computations()
    assert code_of(driver, ticket) == Code.UNKNOWN_MEMBER_ID
    assert prepare(driver, "b", 1).error_code == Code.NONE


def test_a_target_of_a_group_that_is_gone_is_refused() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    driver.beat("a", -1)
    del driver.shard.ledger.groups["g"]
    driver.end_computations()
    assert code_of(driver, ticket) == Code.GROUP_ID_NOT_FOUND


def test_a_target_is_saved_though_nobody_waits_for_the_answer() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    driver.hang_up(ticket)
    driver.end_computations()
    assert (code_of(driver, ticket), target_of(driver)) == (None, len(LARGE))


def test_a_check_from_before_a_crash_is_dropped() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    driver.crash()
    driver.end_computations()
    assert (code_of(driver, ticket), target_of(driver)) == (None, None)


def test_a_target_that_could_not_be_checked_is_refused() -> None:
    driver = with_chosen()
    ticket = begin(driver)
    (computation,) = driver.computations
    driver.step(ComputeFailed(computation, "MemoryError()"))
    answer = driver.taken_or_none(ticket)
    assert (answer.error_code, answer.error_message, target_of(driver)) == (
        Code.INVALID_REQUEST,
        "the assignment could not be checked: MemoryError()",
        None,
    )


def test_metadata_under_check_are_not_those_of_a_later_request() -> None:
    driver = with_chosen()
    buffer = bytearray(b"mine")
    metadata: Any = memoryview(buffer)
    ticket = begin(driver, metadata=metadata)
    buffer[:] = b"next"
    driver.end_computations()
    assert code_of(driver, ticket) == Code.NONE
    assert group_of(driver).saved.members["a"].target_answer.metadata == b"mine"


class BesideMachine(ClientAssignorMachine):
    """All that clients install is checked beside the shard, whatever its size."""

    ended = 0
    waiting: Any = None

    def install(self, client: Any, defect: str, error: int) -> None:
        """A client installs what it computes, and waits for the answer in whatever comes next."""
        told, client.prepared, client.must_compute = client.prepared, None, False
        if defect == "silent":
            return
        request = ConsumerGroupInstallAssignmentRequest(
            group_id="g",
            member_id=client.member_id,
            member_epoch=client.epoch,
            group_epoch=told.group_epoch - (defect == "stale"),
            error=error,
            members=targets_of(told, defect),
        )
        ticket = self.driver.ask(request, version=0)
        if code_of(self.driver, ticket) is None:
            self.waiting = (ticket, defect, told, client.prepared_topics)

    def end_checks(self) -> None:
        """What is checked has its answer."""
        if self.waiting is None:
            return
        (ticket, defect, told, known), self.waiting = self.waiting, None
        code = code_of(self.driver, ticket)
        if defect in ("twice", "stranger", "beyond") and told.topics:
            assert code != Code.NONE
        if code == Code.NONE:
            type(self).ended += 1
            self.targeted = (told.group_epoch, known)

    @rule()
    def end_computations(self) -> None:
        super().end_computations()
        self.end_checks()

    def work(self) -> None:
        super().work()
        self.end_checks()


def test_every_law_of_a_group_holds_while_targets_are_under_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installed_check, "MOST_IN_STEP", -1)
    # Not scaled: of fewer histories too few have a check that ends.
    run_state_machine_as_test(BesideMachine, settings=SEARCH)
    assert BesideMachine.ended > 10
