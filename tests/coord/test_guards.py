"""The guards bite: with one switched off, the laws of a group find what it was for."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from apportion.assign import checks
from apportion.coord.consumer import client_targets, fencing
from tests.coord.test_client_assignor_laws import ClientAssignorMachine
from tests.coord.test_membership_laws import ConsumerGroupMachine

SEARCH = settings(
    # It ends at the first find. Which examples come depends on the modules that are loaded, too:
    # one search in four for the guard of a prepared epoch finds nothing within 500.
    max_examples=5_000,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=[phase for phase in settings().phases if phase.name == "generate"],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    ("guard", "answer"), [("is_blocked", False), ("has_released_instance", True)]
)
def test_a_guard_that_is_switched_off_is_missed(
    monkeypatch: pytest.MonkeyPatch, guard: str, answer: bool
) -> None:
    monkeypatch.setattr(fencing, guard, lambda *asked: answer)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ConsumerGroupMachine, settings=SEARCH)


@pytest.mark.parametrize(
    ("module", "guard", "faulty"),
    [
        (checks, "check_given", lambda *_: None),
        (client_targets, "is_prepared_epoch", lambda *_: True),
    ],
)
def test_a_guard_of_client_assignors_that_is_switched_off_is_missed(
    monkeypatch: pytest.MonkeyPatch, module: Any, guard: str, faulty: Callable[..., Any]
) -> None:
    monkeypatch.setattr(module, guard, faulty)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ClientAssignorMachine, settings=SEARCH)
