"""The guards bite: with one switched off, the laws of a group find what it was for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from apportion.assign import checks
from apportion.coord.consumer import client_targets, fencing
from tests.coord.test_client_assignor_laws import ClientAssignorMachine
from tests.coord.test_membership_laws import ConsumerGroupMachine
from tests.profiles import is_search

LAWS = (
    ConsumerGroupMachine.a_client_works_only_on_what_it_holds,
    ConsumerGroupMachine.a_reply_stands_behind_its_records,
    ConsumerGroupMachine.every_law_of_a_group_holds,
    ConsumerGroupMachine.no_partition_is_in_two_hands,
    ConsumerGroupMachine.replay_equals_live,
    ConsumerGroupMachine.the_times_in_states_add_up,
    ConsumerGroupMachine.what_is_saved_survives_the_cleaner,
)
SEARCH = settings(
    # It ends at the first find. Which examples come depends on the modules that are loaded, too.
    max_examples=5_000,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=[phase for phase in settings().phases if phase.name == "generate"],
    suppress_health_check=list(HealthCheck),
)
Step = tuple[str, dict[str, Any]]
"""A rule of a machine, and its arguments."""
JOIN: Step = ("join", {"topic_names": ("foo",), "is_static": False})
JOIN_AS_INSTANCE: Step = ("join", {"topic_names": ("foo",), "is_static": True})


class Guard(NamedTuple):
    """A guard, what stands in its place while it is switched off, and a history that misses it.

    machine: whose rules make the history. Searches have found the shortest one.
    """

    module: Any
    name: str
    faulty: Callable[..., Any]
    machine: type[ConsumerGroupMachine]
    history: tuple[Step, ...]

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """Do without the guard for a while."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.module, self.name, self.faulty)
            yield

    def play(self) -> None:
        """Play the history, whose laws are checked after each step."""
        machine = self.machine()
        machine.begin(budget=0, interval_ms=0, offload_size=10_000)
        for rule, arguments in self.history:
            getattr(machine, rule)(**arguments)
            for law in LAWS:
                law(machine)
        machine.teardown()


GUARDS = (
    Guard(fencing, "is_blocked", lambda *_: False, ConsumerGroupMachine, (JOIN, JOIN)),
    Guard(
        fencing,
        "has_released_instance",
        lambda *_: True,
        ConsumerGroupMachine,
        (JOIN, ("take_place", {"which": 0, "instance": 2}), JOIN_AS_INSTANCE),
    ),
    Guard(
        checks,
        "check_given",
        lambda *_: None,
        ClientAssignorMachine,
        (
            JOIN,
            ("change_habit", {"which": 0, "habit": "twice", "error": 0}),
            ("heartbeat", {"which": 0, "is_lost": False, "assignor": None}),
        ),
    ),
    Guard(
        client_targets,
        "is_prepared_epoch",
        lambda *_: True,
        ClientAssignorMachine,
        (JOIN, ("change_habit", {"which": 0, "habit": "stale", "error": 0})),
    ),
)
each_guard = pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)


@each_guard
def test_a_guard_that_is_switched_off_is_missed_in_the_history_that_was_found(guard: Guard) -> None:
    with guard.switched_off(), pytest.raises(AssertionError):
        guard.play()


@each_guard
def test_with_its_guard_a_history_breaks_no_law(guard: Guard) -> None:
    guard.play()


@pytest.mark.hypothesis  # so that the search of all properties plays it
@pytest.mark.skipif(not is_search(), reason="a search, for `make long`")
@each_guard
def test_a_search_finds_that_a_guard_is_switched_off(guard: Guard) -> None:
    with guard.switched_off(), pytest.raises(AssertionError):
        run_state_machine_as_test(guard.machine, settings=SEARCH)
